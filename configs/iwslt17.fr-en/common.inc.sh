# shellcheck shell=bash disable=SC2034
# What the IWSLT17 Fr-En experiments share: the small model of the follow-up paper, 2+2 layers of Transformer base.
#
# RECIPE=paper: our reading; the paper gives the model and k, the rest is the usual recipe for data of this size.
# RECIPE=fairseq: fairseq's six-layer model for IWSLT with its recipe for IWSLT14.
source "$ROOT/configs/recipe.inc.sh"

batch 4096 1
COMMON=(
  --share-all-embeddings --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 0.0 --weight-decay 0.0001
  --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-07 --dropout 0.3
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-epoch 50 --keep-last-epochs 10
  --required-batch-size-multiple 1 "${PRECISION[@]}" "${BATCH[@]}"
)
case "$RECIPE" in
  paper) COMMON+=(--arch explicit_sparse_transformer_mini) ;;
  fairseq) COMMON+=(--arch explicit_sparse_transformer_iwslt_de_en) ;;
esac
AVERAGE=(--last 5)
GENERATE=(--beam 5 --batch-size 128 --required-batch-size-multiple 1)
SCORE=()
HOURS=3 HOURS_ON="GPU"
