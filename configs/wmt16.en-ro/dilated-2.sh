# shellcheck shell=bash
# WMT16 En-Ro. Attention pattern "dilated", 2 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/wmt16.en-ro/dilated-2.sh
source "$ROOT/configs/pattern.inc.sh"
