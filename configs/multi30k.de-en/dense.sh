# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Dense attention: the baseline.
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/dense.sh
#   bash scripts/average.sh  configs/multi30k.de-en/dense.sh
#   bash scripts/generate.sh configs/multi30k.de-en/dense.sh
#   bash scripts/score.sh    configs/multi30k.de-en/dense.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/dense.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="dense$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 0)
