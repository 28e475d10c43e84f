# shellcheck shell=bash disable=SC2034
# Open De-En. Top-k attention, k = 8 at every site (arXiv 1912.11637), a third of the learning rate.
#
#   bash scripts/prepare/open.de-en.sh
#   bash scripts/train.sh    configs/open.de-en/topk8-lr1e-3.sh
#   bash scripts/average.sh  configs/open.de-en/topk8-lr1e-3.sh
#   bash scripts/generate.sh configs/open.de-en/topk8-lr1e-3.sh
#   bash scripts/score.sh    configs/open.de-en/topk8-lr1e-3.sh
#
# All of it: bash scripts/run.sh configs/open.de-en/topk8-lr1e-3.sh
source "$ROOT/configs/open.de-en/common.inc.sh"

SYSTEM="top-k 8, lr 1e-3$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8 --lr 1e-3)
