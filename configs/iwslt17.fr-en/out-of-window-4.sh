# shellcheck shell=bash
# IWSLT17 Fr-En. Attention pattern "out-of-window", 4 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/iwslt17.fr-en/out-of-window-4.sh
source "$ROOT/configs/pattern.inc.sh"
