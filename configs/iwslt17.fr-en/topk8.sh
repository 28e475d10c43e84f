# shellcheck shell=bash disable=SC2034
# IWSLT17 Fr-En. Top-k attention, k = 8 at every site (arXiv 1912.11637).
#
#   bash scripts/prepare/iwslt17.fr-en.sh
#   bash scripts/train.sh    configs/iwslt17.fr-en/topk8.sh
#   bash scripts/average.sh  configs/iwslt17.fr-en/topk8.sh
#   bash scripts/generate.sh configs/iwslt17.fr-en/topk8.sh
#   bash scripts/score.sh    configs/iwslt17.fr-en/topk8.sh
#
# All of it: bash scripts/run.sh configs/iwslt17.fr-en/topk8.sh
# Validation dev2010; test tst2010 to tst2015 joined, test1 tst2017. Others validate on some of these sets.
source "$ROOT/configs/iwslt17.fr-en/common.inc.sh"

SYSTEM="top-k 8$RECIPE_LABEL"
TRAIN=("${COMMON[@]}" --topk 8)
