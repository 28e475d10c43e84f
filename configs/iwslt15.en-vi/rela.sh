# shellcheck shell=bash disable=SC2034
# IWSLT15 En-Vi. Rectified linear attention with a gated norm (arXiv 2104.07012).
#
#   bash scripts/prepare/iwslt15.en-vi.sh
#   bash scripts/train.sh    configs/iwslt15.en-vi/rela.sh
#   bash scripts/average.sh  configs/iwslt15.en-vi/rela.sh
#   bash scripts/generate.sh configs/iwslt15.en-vi/rela.sh
#   bash scripts/score.sh    configs/iwslt15.en-vi/rela.sh
#
# All of it: bash scripts/run.sh configs/iwslt15.en-vi/rela.sh
# Validation tst2012, test tst2013, cased. One well-known loader serves tst2013 as the validation set: do not mix.
source "$ROOT/configs/iwslt15.en-vi/common.inc.sh"

SYSTEM="ReLA$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping rela)
