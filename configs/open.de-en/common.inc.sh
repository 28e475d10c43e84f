# shellcheck shell=bash disable=SC2034
# What the experiments on openly licensed text share: the model, batches and schedule of Multi30k, one epoch of 4,966
# updates, twenty minutes on one core. The recipe is ours; no paper reports these data. For a longer training, say four
# epochs: bash scripts/run.sh configs/open.de-en/topk8.sh -- --max-epoch 4 --total-num-update 20000
source "$ROOT/configs/recipe.inc.sh"

[[ "$RECIPE" == paper ]] || die "Open De-En has one recipe; RECIPE=$RECIPE is for the papers' data sets"
batch 1024 1
COMMON=(
  --arch explicit_sparse_transformer_tiny --share-all-embeddings --encoder-layers 3 --decoder-layers 3
  --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256
  --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1.0
  --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 5000
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.1
  "${BATCH[@]}" --max-epoch 1 --save-interval-updates 1000 --keep-interval-updates 1 --keep-last-epochs 1
  --num-workers 0 --required-batch-size-multiple 1
)
AVERAGE=() # the best checkpoint on the validation set
GENERATE=(--beam 5 --lenpen 1.0 --max-tokens 4000 --required-batch-size-multiple 1)
SCORE=()
HOURS=0.3 HOURS_ON="CPU core"
