# shellcheck shell=bash disable=SC2034
# WMT16 En-Ro. Rectified linear attention with a gated norm (arXiv 2104.07012).
#
#   bash scripts/prepare/wmt16.en-ro.sh
#   bash scripts/train.sh    configs/wmt16.en-ro/rela.sh
#   bash scripts/average.sh  configs/wmt16.en-ro/rela.sh
#   bash scripts/generate.sh configs/wmt16.en-ro/rela.sh
#   bash scripts/score.sh    configs/wmt16.en-ro/rela.sh
#
# All of it: bash scripts/run.sh configs/wmt16.en-ro/rela.sh
# Diacritics are kept, in training and in the reference; figures without them are higher. See --romanian.
source "$ROOT/configs/wmt16.en-ro/common.inc.sh"

SYSTEM="ReLA$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping rela)
