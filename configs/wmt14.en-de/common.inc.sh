# shellcheck shell=bash disable=SC2034
# What the WMT14 En-De experiments share: Transformer big.
#
# RECIPE=paper: our reading; no script was published for this data set. "Scaling Neural Machine Translation" with big
# batches (128 x 3584 tokens, learning rate 0.001), averaged checkpoints, beam 4, length penalty 0.6.
# RECIPE=fairseq: examples/scaling_nmt for 8 GPUs without big batches.
source "$ROOT/configs/recipe.inc.sh"

COMMON=(
  --arch explicit_sparse_transformer_wmt_en_de_big --share-all-embeddings
  --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 0.0 --weight-decay 0.0
  --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-07 --stop-min-lr 1e-09 --dropout 0.3
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --required-batch-size-multiple 1 "${PRECISION[@]}"
)
case "$RECIPE" in
  paper)
    batch 3584 128
    COMMON+=(--lr 0.001 --max-update 30000 "${BATCH[@]}")
    HOURS=300 HOURS_ON="GPU"
    ;;
  fairseq)
    batch 3584 8
    COMMON+=(--lr 0.0005 --max-update 300000 "${BATCH[@]}")
    HOURS=250 HOURS_ON="GPU"
    ;;
esac
COMMON+=(--save-interval-updates 1000 --keep-interval-updates 10 --keep-last-epochs 1)
AVERAGE=(--last 10 --by update)
GENERATE=(--beam 4 --lenpen 0.6 --max-tokens 4096 --required-batch-size-multiple 1)
# Papers on this data set split compounds before they count; the label says so. sacreBLEU stands first.
SCORE=(--compound-split)
