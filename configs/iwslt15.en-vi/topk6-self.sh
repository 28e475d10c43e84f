# shellcheck shell=bash disable=SC2034
# IWSLT15 En-Vi. Top-k attention as in the authors' script: k = 6, dense cross-attention.
#
#   bash scripts/prepare/iwslt15.en-vi.sh
#   bash scripts/train.sh    configs/iwslt15.en-vi/topk6-self.sh
#   bash scripts/average.sh  configs/iwslt15.en-vi/topk6-self.sh
#   bash scripts/generate.sh configs/iwslt15.en-vi/topk6-self.sh
#   bash scripts/score.sh    configs/iwslt15.en-vi/topk6-self.sh
#
# All of it: bash scripts/run.sh configs/iwslt15.en-vi/topk6-self.sh
# Validation tst2012, test tst2013, cased. One well-known loader serves tst2013 as the validation set: do not mix.
source "$ROOT/configs/iwslt15.en-vi/common.inc.sh"

SYSTEM="top-k 6, self$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 6 --sparse-sites "encoder-self,decoder-self")
