# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Rectified linear attention with a gated norm (arXiv 2104.07012).
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/rela.sh
#   bash scripts/average.sh  configs/multi30k.de-en/rela.sh
#   bash scripts/generate.sh configs/multi30k.de-en/rela.sh
#   bash scripts/score.sh    configs/multi30k.de-en/rela.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/rela.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="ReLA$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping rela)
