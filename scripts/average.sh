#!/usr/bin/env bash
# Averages the checkpoints of a trained configuration, as its AVERAGE flags say.
#
#   bash scripts/average.sh CONFIG [--seed N] [--force]
#
# AVERAGE=(--last 5)                            the last five epochs' checkpoints
# AVERAGE=(--last 5 --by update)                the last five checkpoints saved by update
# AVERAGE=(--last 1,5,10 --select-on valid)     the window with the lowest loss on the validation set
# AVERAGE=(--last 1,5,10 --select-on valid --select-by bleu)   ... or with the highest BLEU there
# AVERAGE=()                                    no averaging: checkpoint_best.pt translates
# All flags: python -m explicit_sparse.tools.average --help
#
# Writes average.pt, and average.json which names the checkpoints in it, to the run's folder.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

read_run_arguments "$@"
activate
own_run_dir
require_trained

if (( ${#AVERAGE[@]} == 0 )); then
  info "averaging $DATASET/$EXPERIMENT: not asked for, checkpoint_best.pt is used"
  exit 0
fi
is_done "$RUN_DIR/average.pt" "averaging $DATASET/$EXPERIMENT, seed $SEED" && exit 0

step "averaging checkpoints of $DATASET/$EXPERIMENT, seed $SEED"
rm -f -- "$RUN_DIR"/generate-*.log "$RUN_DIR"/{scores,support,run}.json
run_logged "$RUN_DIR/average.log" python -m explicit_sparse.tools.average "$RUN_DIR/checkpoints" \
  --output "$RUN_DIR/average.pt" --prepared "$PREPARED" "${AVERAGE[@]}" -- "${GENERATE[@]}"
tail -n 1 -- "$RUN_DIR/average.log" >&2
