# shellcheck shell=bash
# IWSLT17 Fr-En. Attention pattern "dilated", 8 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/iwslt17.fr-en/dilated-8.sh
source "$ROOT/configs/pattern.inc.sh"
