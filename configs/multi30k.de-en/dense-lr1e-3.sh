# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Dense attention, a third of the learning rate.
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/dense-lr1e-3.sh
#   bash scripts/average.sh  configs/multi30k.de-en/dense-lr1e-3.sh
#   bash scripts/generate.sh configs/multi30k.de-en/dense-lr1e-3.sh
#   bash scripts/score.sh    configs/multi30k.de-en/dense-lr1e-3.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/dense-lr1e-3.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="dense, lr 1e-3$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 0 --lr 1e-3)
