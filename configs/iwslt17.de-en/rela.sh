# shellcheck shell=bash disable=SC2034
# IWSLT17 De-En. Rectified linear attention with a gated norm (arXiv 2104.07012).
#
#   bash scripts/prepare/iwslt17.de-en.sh
#   bash scripts/train.sh    configs/iwslt17.de-en/rela.sh
#   bash scripts/average.sh  configs/iwslt17.de-en/rela.sh
#   bash scripts/generate.sh configs/iwslt17.de-en/rela.sh
#   bash scripts/score.sh    configs/iwslt17.de-en/rela.sh
#
# All of it: bash scripts/run.sh configs/iwslt17.de-en/rela.sh
# Validation dev2010; test tst2010 to tst2015 joined, test1 tst2017. Others validate on some of these sets.
source "$ROOT/configs/iwslt17.de-en/common.inc.sh"

SYSTEM="ReLA$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --attention-mapping rela)
