# shellcheck shell=bash disable=SC2034
# What the demo's experiments share. The model is 2+2 layers of width 128 with 2,000 subwords: one core trains it in ten
# minutes. Values were chosen on the validation set.
COMMON=(
  --arch explicit_sparse_transformer_tiny --share-all-embeddings
  --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1.0
  --lr 5e-3 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 4500
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.1
  --max-tokens 1024 --max-update 4500 --keep-last-epochs 5
  --num-workers 0 --required-batch-size-multiple 1
)
AVERAGE=(--last 3)
GENERATE=(--beam 5 --lenpen 1.0 --max-tokens 2000 --required-batch-size-multiple 1)
SCORE=()
