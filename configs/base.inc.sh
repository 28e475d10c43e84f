# shellcheck shell=bash disable=SC2034,SC2154
# What the data sets share whose papers name Transformer base and no more. Before it is sourced, ACCUMULATE says how many batches of
# 4,096 tokens make an update, and UPDATES how many updates make a training.
source "$ROOT/configs/recipe.inc.sh"

COMMON=(
  --share-all-embeddings --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 0.0
  --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-07
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --required-batch-size-multiple 1 "${PRECISION[@]}"
)
case "$RECIPE" in
  paper)
    batch 4096 "$ACCUMULATE"
    COMMON+=(
      --arch explicit_sparse_transformer_wmt_en_de --lr 7e-4 --dropout 0.3
      --max-update "$UPDATES" --save-interval-updates 1000 --keep-interval-updates 5 --keep-last-epochs 1 "${BATCH[@]}"
    )
    AVERAGE=(--last 5 --by update)
    ;;
  fairseq)
    batch 4096 1
    COMMON+=(
      --arch explicit_sparse_transformer_iwslt_de_en --lr 5e-4 --dropout 0.3 --weight-decay 0.0001
      --max-epoch 50 --keep-last-epochs 5 "${BATCH[@]}"
    )
    AVERAGE=(--last 5)
    ;;
esac
GENERATE=(--beam 5 --lenpen 1.0 --max-tokens 4096 --required-batch-size-multiple 1)
SCORE=()
