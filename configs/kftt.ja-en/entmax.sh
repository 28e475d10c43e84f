# shellcheck shell=bash disable=SC2034
# KFTT Ja-En. Alpha-entmax attention, one learned alpha a head (arXiv 1909.00015).
#
#   bash scripts/prepare/kftt.ja-en.sh
#   bash scripts/train.sh    configs/kftt.ja-en/entmax.sh
#   bash scripts/average.sh  configs/kftt.ja-en/entmax.sh
#   bash scripts/generate.sh configs/kftt.ja-en/entmax.sh
#   bash scripts/score.sh    configs/kftt.ja-en/entmax.sh
#
# All of it: bash scripts/run.sh configs/kftt.ja-en/entmax.sh
# English is tokenised by us, not taken from the corpus' tok/ folder, so that it can be scored as text.
source "$ROOT/configs/kftt.ja-en/common.inc.sh"

SYSTEM="alpha-entmax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping entmax)
