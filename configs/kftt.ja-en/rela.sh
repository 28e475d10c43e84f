# shellcheck shell=bash disable=SC2034
# KFTT Ja-En. Rectified linear attention with a gated norm (arXiv 2104.07012).
#
#   bash scripts/prepare/kftt.ja-en.sh
#   bash scripts/train.sh    configs/kftt.ja-en/rela.sh
#   bash scripts/average.sh  configs/kftt.ja-en/rela.sh
#   bash scripts/generate.sh configs/kftt.ja-en/rela.sh
#   bash scripts/score.sh    configs/kftt.ja-en/rela.sh
#
# All of it: bash scripts/run.sh configs/kftt.ja-en/rela.sh
# English is tokenised by us, not taken from the corpus' tok/ folder, so that it can be scored as text.
source "$ROOT/configs/kftt.ja-en/common.inc.sh"

SYSTEM="ReLA$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping rela)
