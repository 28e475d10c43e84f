# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Top-k attention in training only; dense when it translates.
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/topk8-train.sh
#   bash scripts/average.sh  configs/multi30k.de-en/topk8-train.sh
#   bash scripts/generate.sh configs/multi30k.de-en/topk8-train.sh
#   bash scripts/score.sh    configs/multi30k.de-en/topk8-train.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/topk8-train.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="top-k 8 in training only$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8 --topk-phase train)
