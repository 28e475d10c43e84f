# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Top-k attention only in the decoder's attention to the encoder; the other sites stay dense.
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/topk8-cross.sh
#   bash scripts/average.sh  configs/multi30k.de-en/topk8-cross.sh
#   bash scripts/generate.sh configs/multi30k.de-en/topk8-cross.sh
#   bash scripts/score.sh    configs/multi30k.de-en/topk8-cross.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/topk8-cross.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="top-k 8, cross$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8 --sparse-sites cross)
