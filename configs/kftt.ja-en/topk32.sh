# shellcheck shell=bash disable=SC2034
# KFTT Ja-En. Top-k attention, k = 32 at every site (arXiv 1912.11637).
#
#   bash scripts/prepare/kftt.ja-en.sh
#   bash scripts/train.sh    configs/kftt.ja-en/topk32.sh
#   bash scripts/average.sh  configs/kftt.ja-en/topk32.sh
#   bash scripts/generate.sh configs/kftt.ja-en/topk32.sh
#   bash scripts/score.sh    configs/kftt.ja-en/topk32.sh
#
# All of it: bash scripts/run.sh configs/kftt.ja-en/topk32.sh
# English is tokenised by us, not taken from the corpus' tok/ folder, so that it can be scored as text.
source "$ROOT/configs/kftt.ja-en/common.inc.sh"

SYSTEM="top-k 32$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 32)
