# shellcheck shell=bash disable=SC2034
# WMT16 En-Ro. Alpha-entmax attention, one learned alpha a head (arXiv 1909.00015).
#
#   bash scripts/prepare/wmt16.en-ro.sh
#   bash scripts/train.sh    configs/wmt16.en-ro/entmax.sh
#   bash scripts/average.sh  configs/wmt16.en-ro/entmax.sh
#   bash scripts/generate.sh configs/wmt16.en-ro/entmax.sh
#   bash scripts/score.sh    configs/wmt16.en-ro/entmax.sh
#
# All of it: bash scripts/run.sh configs/wmt16.en-ro/entmax.sh
# Diacritics are kept, in training and in the reference; figures without them are higher. See --romanian.
source "$ROOT/configs/wmt16.en-ro/common.inc.sh"

SYSTEM="alpha-entmax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping entmax)
