# shellcheck shell=bash disable=SC2034
# What the experiments on openly licensed text share: the model and batches of Multi30k, three epochs, an hour on one
# core. The recipe is ours; no paper reports these data. The window to average is chosen on the validation set.
source "$ROOT/configs/recipe.inc.sh"

[[ "$RECIPE" == paper ]] || die "Open De-En has one recipe; RECIPE=$RECIPE is for the papers' data sets"
batch 1024 1
COMMON=(
  --arch explicit_sparse_transformer_tiny --share-all-embeddings --encoder-layers 3 --decoder-layers 3
  --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256
  --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1.0
  --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 15000
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.1
  "${BATCH[@]}" --max-epoch 3 --save-interval-updates 1000 --keep-interval-updates 1 --keep-last-epochs 3
  --num-workers 0 --required-batch-size-multiple 1
)
AVERAGE=(--last "1,2,3" --select-on valid)
GENERATE=(--beam 5 --lenpen 1.0 --max-tokens 4000 --required-batch-size-multiple 1)
SCORE=()
HOURS=1 HOURS_ON="CPU core"
