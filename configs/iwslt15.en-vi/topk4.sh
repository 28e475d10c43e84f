# shellcheck shell=bash disable=SC2034
# IWSLT15 En-Vi. Top-k attention, k = 4 at every site (arXiv 1912.11637).
#
#   bash scripts/prepare/iwslt15.en-vi.sh
#   bash scripts/train.sh    configs/iwslt15.en-vi/topk4.sh
#   bash scripts/average.sh  configs/iwslt15.en-vi/topk4.sh
#   bash scripts/generate.sh configs/iwslt15.en-vi/topk4.sh
#   bash scripts/score.sh    configs/iwslt15.en-vi/topk4.sh
#
# All of it: bash scripts/run.sh configs/iwslt15.en-vi/topk4.sh
# Validation tst2012, test tst2013, cased. One well-known loader serves tst2013 as the validation set: do not mix.
source "$ROOT/configs/iwslt15.en-vi/common.inc.sh"

SYSTEM="top-k 4$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 4)
