# shellcheck shell=bash disable=SC2034
# WMT16 En-Ro. Dense attention: the baseline.
#
#   bash scripts/prepare/wmt16.en-ro.sh
#   bash scripts/train.sh    configs/wmt16.en-ro/dense.sh
#   bash scripts/average.sh  configs/wmt16.en-ro/dense.sh
#   bash scripts/generate.sh configs/wmt16.en-ro/dense.sh
#   bash scripts/score.sh    configs/wmt16.en-ro/dense.sh
#
# All of it: bash scripts/run.sh configs/wmt16.en-ro/dense.sh
# Diacritics are kept, in training and in the reference; figures without them are higher. See --romanian.
source "$ROOT/configs/wmt16.en-ro/common.inc.sh"

SYSTEM="dense$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 0)
