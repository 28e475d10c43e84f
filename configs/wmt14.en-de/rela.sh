# shellcheck shell=bash disable=SC2034
# WMT14 En-De. Rectified linear attention with a gated norm (arXiv 2104.07012).
#
#   bash scripts/prepare/wmt14.en-de.sh
#   bash scripts/train.sh    configs/wmt14.en-de/rela.sh
#   bash scripts/average.sh  configs/wmt14.en-de/rela.sh
#   bash scripts/generate.sh configs/wmt14.en-de/rela.sh
#   bash scripts/score.sh    configs/wmt14.en-de/rela.sh
#
# All of it: bash scripts/run.sh configs/wmt14.en-de/rela.sh
# Test: all 3,003 sentences (sacreBLEU's wmt14/full). The training data are the parts of 2014, not the tarball of 2016
# that most figures rest on: scripts/prepare/wmt14.en-de.sh --rebuild-google comes closer to that.
source "$ROOT/configs/wmt14.en-de/common.inc.sh"

SYSTEM="ReLA$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping rela)
