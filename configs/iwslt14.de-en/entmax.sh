# shellcheck shell=bash disable=SC2034
# IWSLT14 De-En. Alpha-entmax attention, one learned alpha a head (arXiv 1909.00015).
#
#   bash scripts/prepare/iwslt14.de-en.sh
#   bash scripts/train.sh    configs/iwslt14.de-en/entmax.sh
#   bash scripts/average.sh  configs/iwslt14.de-en/entmax.sh
#   bash scripts/generate.sh configs/iwslt14.de-en/entmax.sh
#   bash scripts/score.sh    configs/iwslt14.de-en/entmax.sh
#
# All of it: bash scripts/run.sh configs/iwslt14.de-en/entmax.sh
# The split is fairseq's (every 23rd training pair for validation, five sets joined for the test): not IWSLT's own.
# The text is lowercased; most papers report tokenised BLEU.
source "$ROOT/configs/iwslt14.de-en/common.inc.sh"

SYSTEM="alpha-entmax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping entmax)
