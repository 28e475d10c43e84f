# shellcheck shell=bash disable=SC2034
# WMT16 En-Ro. Top-k attention, k = 4 at every site (arXiv 1912.11637).
#
#   bash scripts/prepare/wmt16.en-ro.sh
#   bash scripts/train.sh    configs/wmt16.en-ro/topk4.sh
#   bash scripts/average.sh  configs/wmt16.en-ro/topk4.sh
#   bash scripts/generate.sh configs/wmt16.en-ro/topk4.sh
#   bash scripts/score.sh    configs/wmt16.en-ro/topk4.sh
#
# All of it: bash scripts/run.sh configs/wmt16.en-ro/topk4.sh
# Diacritics are kept, in training and in the reference; figures without them are higher. See --romanian.
source "$ROOT/configs/wmt16.en-ro/common.inc.sh"

SYSTEM="top-k 4$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 4)
