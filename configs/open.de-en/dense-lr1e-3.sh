# shellcheck shell=bash disable=SC2034
# Open De-En. Dense attention, a third of the learning rate.
#
#   bash scripts/prepare/open.de-en.sh
#   bash scripts/train.sh    configs/open.de-en/dense-lr1e-3.sh
#   bash scripts/average.sh  configs/open.de-en/dense-lr1e-3.sh
#   bash scripts/generate.sh configs/open.de-en/dense-lr1e-3.sh
#   bash scripts/score.sh    configs/open.de-en/dense-lr1e-3.sh
#
# All of it: bash scripts/run.sh configs/open.de-en/dense-lr1e-3.sh
source "$ROOT/configs/open.de-en/common.inc.sh"

SYSTEM="dense, lr 1e-3$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 0 --lr 1e-3)
