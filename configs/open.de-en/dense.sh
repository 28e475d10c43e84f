# shellcheck shell=bash disable=SC2034
# Open De-En. Dense attention: the baseline.
#
#   bash scripts/prepare/open.de-en.sh
#   bash scripts/train.sh    configs/open.de-en/dense.sh
#   bash scripts/average.sh  configs/open.de-en/dense.sh
#   bash scripts/generate.sh configs/open.de-en/dense.sh
#   bash scripts/score.sh    configs/open.de-en/dense.sh
#
# All of it: bash scripts/run.sh configs/open.de-en/dense.sh
source "$ROOT/configs/open.de-en/common.inc.sh"

SYSTEM="dense$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 0)
