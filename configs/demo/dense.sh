# shellcheck shell=bash disable=SC2034
# Dense attention: the baseline of the demo. Bible verses, German to English, cased.
#
#   bash scripts/prepare/demo.sh
#   bash scripts/train.sh    configs/demo/dense.sh
#   bash scripts/average.sh  configs/demo/dense.sh
#   bash scripts/generate.sh configs/demo/dense.sh
#   bash scripts/score.sh    configs/demo/dense.sh
#
# All of it: bash scripts/run.sh configs/demo/dense.sh. The split is the demo's own (data/demo/NOTICE), so the scores
# compare with nothing but each other.
source "$ROOT/configs/demo/common.inc.sh"

SYSTEM="dense"
TRAIN=("${COMMON[@]}" --topk 0)
