#!/usr/bin/env bash
# Trains the model of one configuration.
#
#   bash scripts/train.sh CONFIG [--seed N] [--force] [-- FAIRSEQ-TRAIN FLAGS]
#
# CONFIG is configs/<dataset>/<experiment>.sh, or <dataset>/<experiment> for short. The seed is 1 unless given.
# Flags after -- come after the configuration's own, so they win.
#
# Writes to runs/<dataset>/<experiment>/seed<N>/: checkpoints/, train.log, and train.json once training has ended.
# A training that was stopped goes on from checkpoints/checkpoint_last.pt; a finished one is not repeated
# unless --force is given, which removes it and all that was made from it.
# DATA_ROOT and RUNS_ROOT (environment) move the folders prepared/ and runs/.
#
# All visible GPUs are used; CUDA_VISIBLE_DEVICES chooses them. LAUNCHER (environment) starts the training in another
# way, for example LAUNCHER="torchrun --nproc_per_node 4 --no-python" with PROCESSES=4, or srun: scripts/slurm.sbatch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

read_run_arguments "$@"
activate
own_run_dir

if (( FORCE == 1 )); then
  rm -rf -- "$RUN_DIR/checkpoints"
  rm -f -- "$RUN_DIR"/train.{log,json,flags} "$RUN_DIR"/average.{pt,json} "$RUN_DIR"/generate-*.log \
    "$RUN_DIR"/*.hyp "$RUN_DIR"/*.hyp.tok "$RUN_DIR"/{scores,support,run}.json
fi

# Results of other flags must not pass for this configuration's.
flags="$(printf '%q ' "${TRAIN[@]}" "${EXTRA[@]}")"
if [[ -f "$RUN_DIR/train.flags" && "$(cat "$RUN_DIR/train.flags")" != "$flags" ]]; then
  die "$RUN_DIR was trained with other flags:
    then: $(cat "$RUN_DIR/train.flags")
    now:  $flags
  --force trains again; another name for the configuration keeps both; to go on with the new flags on purpose,
  remove $RUN_DIR/train.flags"
fi

is_done "$RUN_DIR/train.json" "training $DATASET/$EXPERIMENT, seed $SEED" && exit 0

mapfile -t languages < <(manifest source_lang target_lang)
(( ${#languages[@]} == 2 )) || die "cannot read the languages from $PREPARED/manifest.json"
mkdir -p -- "$RUN_DIR/checkpoints"
printf '%s\n' "$flags" > "$RUN_DIR/train.flags"

tool resume "$RUN_DIR/checkpoints"
if [[ -f "$RUN_DIR/checkpoints/checkpoint_last.pt" ]]; then
  step "training $DATASET/$EXPERIMENT, seed $SEED: going on from checkpoint_last.pt (log: $RUN_DIR/train.log)"
else
  step "training $DATASET/$EXPERIMENT, seed $SEED (log: $RUN_DIR/train.log)"
fi
read -ra launcher <<< "${LAUNCHER:-}"
# --update-epoch-batch-itr: fairseq draws an epoch's batches from the seed and that epoch, not the one it was started in.
# Without it a training that was stopped goes on with other batches, and skips or repeats sentences of the epoch it was in.
# shellcheck disable=SC2046  # no flag, or one
python "$ROOT/scripts/launch.py" --title "training $EXPERIMENT" \
  --log "$RUN_DIR/train.log" --result "$RUN_DIR/train.json" -- \
  "${launcher[@]}" fairseq-train "$PREPARED/bin" --user-dir "$USER_DIR" --save-dir "$RUN_DIR/checkpoints" \
  --source-lang "${languages[0]}" --target-lang "${languages[1]}" --seed "$SEED" \
  --update-epoch-batch-itr True --log-format json --log-interval 50 $(device_flags) "${TRAIN[@]}" "${EXTRA[@]}"
