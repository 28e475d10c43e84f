# shellcheck shell=bash disable=SC2034
# What the IWSLT14 De-En experiments share.
#
# RECIPE=paper: the authors' published script, except that the window to average is chosen on the validation set, not on
# the test set. 25 is the clip norm that fairseq had as default then.
# RECIPE=fairseq: fairseq's examples/translation; where it stops is ours, since it never does.
source "$ROOT/configs/recipe.inc.sh"

COMMON=(
  --arch explicit_sparse_transformer_iwslt_de_en
  --optimizer adam --adam-betas "(0.9, 0.98)" --weight-decay 0.0001
  --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-07
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --required-batch-size-multiple 1 "${PRECISION[@]}"
)
case "$RECIPE" in
  paper)
    batch 4000 4
    COMMON+=(--lr 0.001 --stop-min-lr 1e-09 --dropout 0.4 --clip-norm 25 --max-epoch 90 --keep-last-epochs 50 "${BATCH[@]}")
    AVERAGE=(--last 10 --up-to "50,55,60,65,70,75,80,85,90" --select-on valid --select-by bleu)
    ;;
  fairseq)
    batch 4096 1
    COMMON+=(
      --share-decoder-input-output-embed --lr 5e-4 --dropout 0.3 --clip-norm 0.0
      --max-epoch 60 --keep-last-epochs 1 "${BATCH[@]}"
    )
    AVERAGE=()
    ;;
esac
GENERATE=(--beam 5 --batch-size 128 --required-batch-size-multiple 1)
SCORE=()
HOURS=3 HOURS_ON="GPU"
