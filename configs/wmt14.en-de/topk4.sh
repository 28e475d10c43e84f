# shellcheck shell=bash disable=SC2034
# WMT14 En-De. Top-k attention, k = 4 at every site (arXiv 1912.11637).
#
#   bash scripts/prepare/wmt14.en-de.sh
#   bash scripts/train.sh    configs/wmt14.en-de/topk4.sh
#   bash scripts/average.sh  configs/wmt14.en-de/topk4.sh
#   bash scripts/generate.sh configs/wmt14.en-de/topk4.sh
#   bash scripts/score.sh    configs/wmt14.en-de/topk4.sh
#
# All of it: bash scripts/run.sh configs/wmt14.en-de/topk4.sh
# Test: all 3,003 sentences (sacreBLEU's wmt14/full). The training data are the parts of 2014, not the tarball of 2016
# that most figures rest on: scripts/prepare/wmt14.en-de.sh --rebuild-google comes closer to that.
source "$ROOT/configs/wmt14.en-de/common.inc.sh"

SYSTEM="top-k 4$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 4)
