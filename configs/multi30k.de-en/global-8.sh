# shellcheck shell=bash
# Multi30k De-En. Attention pattern "global", 8 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/multi30k.de-en/global-8.sh
source "$ROOT/configs/pattern.inc.sh"
