# shellcheck shell=bash disable=SC2034
# IWSLT14 De-En. Dense training; top-k attention only when it validates and translates.
#
#   bash scripts/prepare/iwslt14.de-en.sh
#   bash scripts/train.sh    configs/iwslt14.de-en/topk8-generate.sh
#   bash scripts/average.sh  configs/iwslt14.de-en/topk8-generate.sh
#   bash scripts/generate.sh configs/iwslt14.de-en/topk8-generate.sh
#   bash scripts/score.sh    configs/iwslt14.de-en/topk8-generate.sh
#
# All of it: bash scripts/run.sh configs/iwslt14.de-en/topk8-generate.sh
# The split is fairseq's (every 23rd training pair for validation, five sets joined for the test): not IWSLT's own.
# The text is lowercased; most papers report tokenised BLEU.
source "$ROOT/configs/iwslt14.de-en/common.inc.sh"

SYSTEM="top-k 8 in generation only$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8 --topk-phase generate)
