# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Top-k of the weights instead of the scores: selected after the softmax.
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/topk8-after.sh
#   bash scripts/average.sh  configs/multi30k.de-en/topk8-after.sh
#   bash scripts/generate.sh configs/multi30k.de-en/topk8-after.sh
#   bash scripts/score.sh    configs/multi30k.de-en/topk8-after.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/topk8-after.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="top-k 8 after softmax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8 --topk-order after)
