# shellcheck shell=bash disable=SC2034
# What the KFTT Ja-En experiments share: Transformer base.
#
# RECIPE=paper: our reading of "Adaptively Sparse Transformers", which gives the model and the mapping.
# RECIPE=fairseq: fairseq's small Transformer with its recipe for IWSLT14.
ACCUMULATE=4 UPDATES=30000
source "$ROOT/configs/base.inc.sh"
HOURS=8 HOURS_ON="GPU"
