# shellcheck shell=bash disable=SC2034
# IWSLT14 De-En. 1.5-entmax attention at every site.
#
#   bash scripts/prepare/iwslt14.de-en.sh
#   bash scripts/train.sh    configs/iwslt14.de-en/entmax15.sh
#   bash scripts/average.sh  configs/iwslt14.de-en/entmax15.sh
#   bash scripts/generate.sh configs/iwslt14.de-en/entmax15.sh
#   bash scripts/score.sh    configs/iwslt14.de-en/entmax15.sh
#
# All of it: bash scripts/run.sh configs/iwslt14.de-en/entmax15.sh
# The split is fairseq's (every 23rd training pair for validation, five sets joined for the test): not IWSLT's own.
# The text is lowercased; most papers report tokenised BLEU.
source "$ROOT/configs/iwslt14.de-en/common.inc.sh"

SYSTEM="1.5-entmax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping entmax15)
