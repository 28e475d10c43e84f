# shellcheck shell=bash disable=SC2034
# What the IWSLT15 En-Vi experiments share.
#
# RECIPE=paper: the authors' published script, written for another toolkit, in fairseq's terms: that toolkit's Transformer
# base (norms before the sublayers, dropout on weights and activations too), learning rate 2 * 512^-0.5 at its peak.
# RECIPE=fairseq: fairseq's small Transformer with its recipe for IWSLT14.
source "$ROOT/configs/recipe.inc.sh"

COMMON=(
  --share-all-embeddings --optimizer adam --lr-scheduler inverse_sqrt --warmup-init-lr 1e-07
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --required-batch-size-multiple 1 "${PRECISION[@]}"
)
case "$RECIPE" in
  paper)
    batch 4096 1
    COMMON+=(
      --arch explicit_sparse_transformer_wmt_en_de --encoder-normalize-before --decoder-normalize-before
      --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1
      --adam-betas "(0.9, 0.997)" --adam-eps 1e-09 --lr 0.000988 --warmup-updates 8000 --max-update 35000
      --save-interval-updates 1000 --keep-interval-updates 8 --no-epoch-checkpoints "${BATCH[@]}"
    )
    AVERAGE=(--last 8 --by update)
    GENERATE=(--beam 4 --lenpen 0.6 --max-tokens 4096 --required-batch-size-multiple 1)
    ;;
  fairseq)
    batch 4096 1
    COMMON+=(
      --arch explicit_sparse_transformer_iwslt_de_en --adam-betas "(0.9, 0.98)" --weight-decay 0.0001
      --lr 5e-4 --warmup-updates 4000 --dropout 0.3 --clip-norm 0.0 --max-epoch 60 --keep-last-epochs 5 "${BATCH[@]}"
    )
    AVERAGE=(--last 5)
    GENERATE=(--beam 5 --batch-size 128 --required-batch-size-multiple 1)
    ;;
esac
SCORE=()
HOURS=4 HOURS_ON="GPU"
