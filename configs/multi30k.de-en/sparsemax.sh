# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Sparsemax attention at every site.
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/sparsemax.sh
#   bash scripts/average.sh  configs/multi30k.de-en/sparsemax.sh
#   bash scripts/generate.sh configs/multi30k.de-en/sparsemax.sh
#   bash scripts/score.sh    configs/multi30k.de-en/sparsemax.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/sparsemax.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="sparsemax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping sparsemax)
