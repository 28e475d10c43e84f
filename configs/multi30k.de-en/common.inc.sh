# shellcheck shell=bash disable=SC2034
# What the Multi30k De-En experiments share: 3+3 layers of width 128, six epochs, ten minutes on one core.
# The recipe is ours; no paper reports this model. The window to average is chosen on the validation set.
source "$ROOT/configs/recipe.inc.sh"

[[ "$RECIPE" == paper ]] || die "Multi30k De-En has one recipe; RECIPE=$RECIPE is for the larger data sets"
batch 1024 1
COMMON=(
  --arch explicit_sparse_transformer_tiny --share-all-embeddings --encoder-layers 3 --decoder-layers 3
  --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256
  --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1.0
  --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 3000
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.1
  "${BATCH[@]}" --max-epoch 6 --keep-last-epochs 5
  --num-workers 0 --required-batch-size-multiple 1
)
AVERAGE=(--last "1,2,3" --select-on valid)
GENERATE=(--beam 5 --lenpen 1.0 --max-tokens 4000 --required-batch-size-multiple 1)
SCORE=()
HOURS=0.2 HOURS_ON="CPU core"
