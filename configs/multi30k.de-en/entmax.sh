# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Alpha-entmax attention, one learned alpha a head (arXiv 1909.00015).
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/entmax.sh
#   bash scripts/average.sh  configs/multi30k.de-en/entmax.sh
#   bash scripts/generate.sh configs/multi30k.de-en/entmax.sh
#   bash scripts/score.sh    configs/multi30k.de-en/entmax.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/entmax.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="alpha-entmax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping entmax)
