# shellcheck shell=bash disable=SC2034
# IWSLT14 De-En. Rectified linear attention with a gated norm (arXiv 2104.07012).
#
#   bash scripts/prepare/iwslt14.de-en.sh
#   bash scripts/train.sh    configs/iwslt14.de-en/rela.sh
#   bash scripts/average.sh  configs/iwslt14.de-en/rela.sh
#   bash scripts/generate.sh configs/iwslt14.de-en/rela.sh
#   bash scripts/score.sh    configs/iwslt14.de-en/rela.sh
#
# All of it: bash scripts/run.sh configs/iwslt14.de-en/rela.sh
# The split is fairseq's (every 23rd training pair for validation, five sets joined for the test): not IWSLT's own.
# The text is lowercased; most papers report tokenised BLEU.
source "$ROOT/configs/iwslt14.de-en/common.inc.sh"

SYSTEM="ReLA$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping rela)
