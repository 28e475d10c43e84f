# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Top-k attention, k = 2 at every site (arXiv 1912.11637).
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/topk2.sh
#   bash scripts/average.sh  configs/multi30k.de-en/topk2.sh
#   bash scripts/generate.sh configs/multi30k.de-en/topk2.sh
#   bash scripts/score.sh    configs/multi30k.de-en/topk2.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/topk2.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="top-k 2$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 2)
