# shellcheck shell=bash disable=SC2034
# KFTT Ja-En. Dense attention: the baseline.
#
#   bash scripts/prepare/kftt.ja-en.sh
#   bash scripts/train.sh    configs/kftt.ja-en/dense.sh
#   bash scripts/average.sh  configs/kftt.ja-en/dense.sh
#   bash scripts/generate.sh configs/kftt.ja-en/dense.sh
#   bash scripts/score.sh    configs/kftt.ja-en/dense.sh
#
# All of it: bash scripts/run.sh configs/kftt.ja-en/dense.sh
# English is tokenised by us, not taken from the corpus' tok/ folder, so that it can be scored as text.
source "$ROOT/configs/kftt.ja-en/common.inc.sh"

SYSTEM="dense$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 0)
