# shellcheck shell=bash disable=SC2034
# WMT16 En-Ro. Sparsemax attention at every site.
#
#   bash scripts/prepare/wmt16.en-ro.sh
#   bash scripts/train.sh    configs/wmt16.en-ro/sparsemax.sh
#   bash scripts/average.sh  configs/wmt16.en-ro/sparsemax.sh
#   bash scripts/generate.sh configs/wmt16.en-ro/sparsemax.sh
#   bash scripts/score.sh    configs/wmt16.en-ro/sparsemax.sh
#
# All of it: bash scripts/run.sh configs/wmt16.en-ro/sparsemax.sh
# Diacritics are kept, in training and in the reference; figures without them are higher. See --romanian.
source "$ROOT/configs/wmt16.en-ro/common.inc.sh"

SYSTEM="sparsemax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping sparsemax)
