# shellcheck shell=bash disable=SC2034
# IWSLT14 De-En. Top-k attention only in the decoder's self-attention; the other sites stay dense.
#
#   bash scripts/prepare/iwslt14.de-en.sh
#   bash scripts/train.sh    configs/iwslt14.de-en/topk8-decoder-self.sh
#   bash scripts/average.sh  configs/iwslt14.de-en/topk8-decoder-self.sh
#   bash scripts/generate.sh configs/iwslt14.de-en/topk8-decoder-self.sh
#   bash scripts/score.sh    configs/iwslt14.de-en/topk8-decoder-self.sh
#
# All of it: bash scripts/run.sh configs/iwslt14.de-en/topk8-decoder-self.sh
# The split is fairseq's (every 23rd training pair for validation, five sets joined for the test): not IWSLT's own.
# The text is lowercased; most papers report tokenised BLEU.
source "$ROOT/configs/iwslt14.de-en/common.inc.sh"

SYSTEM="top-k 8, decoder-self$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8 --sparse-sites decoder-self)
