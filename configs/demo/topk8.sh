# shellcheck shell=bash disable=SC2034
# Top-k attention, k = 8 at every site (arXiv 1912.11637). Bible verses, German to English, cased.
#
#   bash scripts/prepare/demo.sh
#   bash scripts/train.sh    configs/demo/topk8.sh
#   bash scripts/average.sh  configs/demo/topk8.sh
#   bash scripts/generate.sh configs/demo/topk8.sh
#   bash scripts/score.sh    configs/demo/topk8.sh
#
# All of it: bash scripts/run.sh configs/demo/topk8.sh. The split is the demo's own (data/demo/NOTICE), so the scores
# compare with nothing but each other.
source "$ROOT/configs/demo/common.inc.sh"

SYSTEM="top-k 8"
TRAIN=("${COMMON[@]}" --topk 8)
