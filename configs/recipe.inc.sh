# shellcheck shell=bash disable=SC2034
# What the data sets' common.inc.sh share: the choice of recipe, and the effective batch on any number of GPUs.
#
# RECIPE=paper (default) or RECIPE=fairseq, in the environment: fairseq's own current recipe for the same model. Its runs
# have folders of their own, runs/<dataset>/<experiment>.fairseq, and a label of their own in tables.
# PROCESSES=N: data-parallel processes in all nodes together, where that is not the number of visible GPUs; needed with
# LAUNCHER (torchrun, srun).

RECIPE="${RECIPE:-paper}"
RECIPE_LABEL=""
case "$RECIPE" in
  paper) ;;
  fairseq)
    RECIPE_LABEL=" (fairseq recipe)"
    RUN_DIR="$RUNS_ROOT/$DATASET/$EXPERIMENT.fairseq/seed$SEED"
    ;;
  *) die "RECIPE is '$RECIPE'; there are: paper, fairseq" ;;
esac

# visible_gpus: how many GPUs fairseq-train would use.
visible_gpus() {
  if [[ -n "${CUDA_VISIBLE_DEVICES+set}" ]]; then
    grep -o '[^, ]\+' <<< "$CUDA_VISIBLE_DEVICES" | grep -cv '^-1$' || true
  elif command -v nvidia-smi > /dev/null; then
    nvidia-smi -L 2> /dev/null | grep -c '^GPU' || true
  else
    echo 0
  fi
}

GPUS="$(visible_gpus)"
PROCESSES="${PROCESSES:-$(( GPUS > 0 ? GPUS : 1 ))}"
PRECISION=()
if (( GPUS > 0 )); then PRECISION=(--fp16); fi

# batch TOKENS COUNT: sets BATCH to flags that make one update of COUNT batches of at most TOKENS tokens (target side),
# whatever the number of processes.
batch() {
  local tokens="$1" count="$2"
  (( count % PROCESSES == 0 )) || die "one update is $count batches of $tokens tokens here, which $PROCESSES processes \
cannot share evenly: use a number of GPUs that divides $count (CUDA_VISIBLE_DEVICES chooses them)"
  BATCH=(--max-tokens "$tokens" --update-freq "$(( count / PROCESSES ))")
  # A process that a launcher started sees fewer GPUs than there are processes; fairseq counts GPUs unless told.
  if [[ -n "${LAUNCHER:-}" ]]; then BATCH+=(--distributed-world-size "$PROCESSES"); fi
  if [[ "${0##*/}" == train.sh ]]; then
    info "effective batch: at most $(( tokens * count )) tokens = $tokens tokens x $PROCESSES processes x\
 $(( count / PROCESSES )) batches before an update (--update-freq)"
  fi
}
