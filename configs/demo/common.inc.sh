# shellcheck shell=bash disable=SC2034
# What the demo's experiments share. The model is 2+2 layers of width 128 with 2,000 joint subwords: one core trains it
# in about ten minutes. Chosen on the validation set: layer normalisation before each sublayer, without which
# so short a training gets less far, and a learning rate that falls to zero.
COMMON=(
  --arch explicit_sparse_transformer_tiny --share-all-embeddings --encoder-normalize-before --decoder-normalize-before
  --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1.0
  --lr 5e-3 --lr-scheduler polynomial_decay --warmup-updates 200 --total-num-update 2000
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.1
  --max-tokens 2048 --max-update 2000 --keep-last-epochs 5
  --num-workers 0 --required-batch-size-multiple 1
)
AVERAGE=(--last 2)
GENERATE=(--beam 5 --lenpen 1.0 --max-tokens 2000 --required-batch-size-multiple 1)
SCORE=()
