# shellcheck shell=bash
# IWSLT17 Fr-En. Attention pattern "block", 2 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/iwslt17.fr-en/block-2.sh
source "$ROOT/configs/pattern.inc.sh"
