# shellcheck shell=bash disable=SC2034
# KFTT Ja-En. 1.5-entmax attention at every site.
#
#   bash scripts/prepare/kftt.ja-en.sh
#   bash scripts/train.sh    configs/kftt.ja-en/entmax15.sh
#   bash scripts/average.sh  configs/kftt.ja-en/entmax15.sh
#   bash scripts/generate.sh configs/kftt.ja-en/entmax15.sh
#   bash scripts/score.sh    configs/kftt.ja-en/entmax15.sh
#
# All of it: bash scripts/run.sh configs/kftt.ja-en/entmax15.sh
# English is tokenised by us, not taken from the corpus' tok/ folder, so that it can be scored as text.
source "$ROOT/configs/kftt.ja-en/common.inc.sh"

SYSTEM="1.5-entmax$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping entmax15)
