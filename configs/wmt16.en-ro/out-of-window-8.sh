# shellcheck shell=bash
# WMT16 En-Ro. Attention pattern "out-of-window", 8 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/wmt16.en-ro/out-of-window-8.sh
source "$ROOT/configs/pattern.inc.sh"
