#!/usr/bin/env bash
# One experiment from data to scores: prepare, train, average, generate, score.
#
#   bash scripts/run.sh CONFIG [--seed N] [--force] [-- FAIRSEQ-TRAIN FLAGS]
#
# Each step is skipped when its result is there, so a run that was stopped goes on where it was. --force repeats
# everything but the preparation of the data. A script per step: scripts/{train,average,generate,score}.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

read_run_arguments "$@"
activate
own_run_dir

if [[ ! -f "$PREPARED/manifest.json" ]]; then
  [[ -f "$ROOT/scripts/prepare/$DATASET.sh" ]] ||
    die "no data in $PREPARED, and no script $ROOT/scripts/prepare/$DATASET.sh to make it"
  bash "$ROOT/scripts/prepare/$DATASET.sh"
fi

common=("$CONFIG" --seed "$SEED")
if (( FORCE == 1 )); then common+=(--force); fi
bash "$ROOT/scripts/train.sh" "${common[@]}" -- "${EXTRA[@]}"
bash "$ROOT/scripts/average.sh" "${common[@]}"
bash "$ROOT/scripts/generate.sh" "${common[@]}"
bash "$ROOT/scripts/score.sh" "${common[@]}"
