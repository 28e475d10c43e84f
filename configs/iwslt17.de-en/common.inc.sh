# shellcheck shell=bash disable=SC2034
# What the IWSLT17 De-En experiments share: Transformer base.
#
# RECIPE=paper: our reading of "Adaptively Sparse Transformers", which gives the model and the mapping.
# RECIPE=fairseq: fairseq's small Transformer with its recipe for IWSLT14.
ACCUMULATE=4 UPDATES=20000
source "$ROOT/configs/base.inc.sh"
HOURS=5 HOURS_ON="GPU"
