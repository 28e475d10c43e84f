#!/usr/bin/env bash
# Translates the test sets with a trained configuration, by beam search.
#
#   bash scripts/generate.sh CONFIG [--seed N] [--subset NAME]... [--force] [-- FAIRSEQ-GENERATE FLAGS]
#
# Uses average.pt where the configuration averages checkpoints, else checkpoint_best.pt. Without --subset, every
# test set of the data's manifest is translated; `--subset valid` translates the validation set.
#
# Writes fairseq-generate's output to generate-<subset>.log in the run's folder.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

read_run_arguments "$@"
activate
own_run_dir
require_trained

model="$(model_path)"
[[ -f "$model" ]] || die "$model is missing. Run: bash $ROOT/scripts/average.sh $CONFIG --seed $SEED"
mapfile -t languages < <(manifest source_lang target_lang)
choose_subsets

for subset in "${SUBSETS[@]}"; do
  log="$RUN_DIR/generate-$subset.log"
  is_done "$log" "translating $subset with $DATASET/$EXPERIMENT, seed $SEED" && continue
  [[ -f "$PREPARED/ref/$subset.${languages[1]}" ]] || die "there is no subset '$subset' in $PREPARED/ref"
  step "translating $subset with $DATASET/$EXPERIMENT, seed $SEED"
  rm -f -- "$log" "$(in_place_of "$log")" "$RUN_DIR"/{scores,run}.json
  # shellcheck disable=SC2046  # no flag, or one
  python "$ROOT/scripts/launch.py" --title "translating $subset" --log "$(in_place_of "$log")" \
    --sentences "$(wc -l < "$PREPARED/ref/$subset.${languages[1]}")" -- \
    fairseq-generate "$PREPARED/bin" --user-dir "$USER_DIR" --path "$model" --gen-subset "$subset" \
    --source-lang "${languages[0]}" --target-lang "${languages[1]}" \
    --log-format json --log-interval 1000 $(device_flags) "${GENERATE[@]}" "${EXTRA[@]}"
  finish "$log"
done
