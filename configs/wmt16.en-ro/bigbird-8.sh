# shellcheck shell=bash
# WMT16 En-Ro. Attention pattern "bigbird", 8 keys a query, in self-attention; cross-attention stays dense.
#
#   bash scripts/run.sh configs/wmt16.en-ro/bigbird-8.sh
source "$ROOT/configs/pattern.inc.sh"
