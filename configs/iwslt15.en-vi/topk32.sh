# shellcheck shell=bash disable=SC2034
# IWSLT15 En-Vi. Top-k attention, k = 32 at every site (arXiv 1912.11637).
#
#   bash scripts/prepare/iwslt15.en-vi.sh
#   bash scripts/train.sh    configs/iwslt15.en-vi/topk32.sh
#   bash scripts/average.sh  configs/iwslt15.en-vi/topk32.sh
#   bash scripts/generate.sh configs/iwslt15.en-vi/topk32.sh
#   bash scripts/score.sh    configs/iwslt15.en-vi/topk32.sh
#
# All of it: bash scripts/run.sh configs/iwslt15.en-vi/topk32.sh
# Validation tst2012, test tst2013, cased. One well-known loader serves tst2013 as the validation set: do not mix.
source "$ROOT/configs/iwslt15.en-vi/common.inc.sh"

SYSTEM="top-k 32$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 32)
