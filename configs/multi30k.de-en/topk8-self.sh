# shellcheck shell=bash disable=SC2034
# Multi30k De-En. Top-k attention only in self-attention, of encoder and decoder; the other sites stay dense.
#
#   bash scripts/prepare/multi30k.de-en.sh
#   bash scripts/train.sh    configs/multi30k.de-en/topk8-self.sh
#   bash scripts/average.sh  configs/multi30k.de-en/topk8-self.sh
#   bash scripts/generate.sh configs/multi30k.de-en/topk8-self.sh
#   bash scripts/score.sh    configs/multi30k.de-en/topk8-self.sh
#
# All of it: bash scripts/run.sh configs/multi30k.de-en/topk8-self.sh
# Lowercased, test_2016_flickr. Scores compare with each other, not with papers on other tokenisations.
source "$ROOT/configs/multi30k.de-en/common.inc.sh"

SYSTEM="top-k 8, self$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8 --sparse-sites "encoder-self,decoder-self")
