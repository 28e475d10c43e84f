#!/usr/bin/env bash
# Scores the translations of a configuration, and writes down the whole run.
#
#   bash scripts/score.sh CONFIG [--seed N] [--subset NAME]... [--force]
#
# Prints, for each test set, sacreBLEU of the detokenised text against the untouched reference with its signature,
# chrF, and tokenised BLEU with a label. More metrics: SCORE flags of the configuration, which are those of
# python -m explicit_sparse.tools.score --help
#
# Writes <subset>.hyp (detokenised, in the original order), <subset>.hyp.tok, scores.json, support.json (how many keys
# each attention site really used on the validation set) and run.json (everything about the run) to its folder.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

read_run_arguments "$@"
activate
own_run_dir
require_trained

# A chosen subset is looked at, not recorded: run.json speaks of the test sets.
if (( ${#SUBSETS[@]} > 0 )); then
  for subset in "${SUBSETS[@]}"; do
    tool score "$RUN_DIR/generate-$subset.log" --prepared "$PREPARED" \
      --subset "$subset" --output-dir "$RUN_DIR" "${SCORE[@]}"
  done
  exit 0
fi

choose_subsets
logs=()
for subset in "${SUBSETS[@]}"; do
  [[ -f "$RUN_DIR/generate-$subset.log" ]] ||
    die "$RUN_DIR/generate-$subset.log is missing. Run: bash $ROOT/scripts/generate.sh $CONFIG --seed $SEED"
  logs+=("$RUN_DIR/generate-$subset.log")
done

if is_done "$RUN_DIR/scores.json" "scoring $DATASET/$EXPERIMENT, seed $SEED"; then
  tool score --show "$RUN_DIR/scores.json"
else
  step "scoring $DATASET/$EXPERIMENT, seed $SEED"
  rm -f -- "$RUN_DIR/run.json"
  tool score "${logs[@]}" --prepared "$PREPARED" --output-dir "$RUN_DIR" \
    --json "$RUN_DIR/scores.json" "${SCORE[@]}"
fi

if ! is_done "$RUN_DIR/support.json" "attention support of $DATASET/$EXPERIMENT, seed $SEED"; then
  step "measuring attention support of $DATASET/$EXPERIMENT on the validation set"
  tool support "$PREPARED/bin" --path "$(model_path)" --gen-subset valid --max-sentences 500 \
    > "$(in_place_of "$RUN_DIR/support.json")" 2> "$RUN_DIR/support.log" ||
    die "support could not be measured. Its whole log: $RUN_DIR/support.log"
  finish "$RUN_DIR/support.json"
fi

if ! is_done "$RUN_DIR/run.json" "record of $DATASET/$EXPERIMENT, seed $SEED"; then
  tool record "$RUN_DIR" --config "$CONFIG" --system "$SYSTEM" --seed "$SEED" \
    --model "$(model_path)" --prepared "$PREPARED"
  info "run written down in $RUN_DIR/run.json"
fi
