# shellcheck shell=bash
# IWSLT17 Fr-En. Attention pattern "window", 16 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/iwslt17.fr-en/window-16.sh
source "$ROOT/configs/pattern.inc.sh"
