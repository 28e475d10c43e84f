# shellcheck shell=bash disable=SC2034
# What the WMT16 En-Ro experiments share: Transformer base.
#
# RECIPE=paper: our reading of the follow-up paper, which gives the model and k.
# RECIPE=fairseq: fairseq's small Transformer with its recipe for IWSLT14.
ACCUMULATE=8 UPDATES=50000
source "$ROOT/configs/base.inc.sh"
HOURS=30 HOURS_ON="GPU"
