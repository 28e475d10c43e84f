#!/usr/bin/env bash
# How fast do ways of selecting learn? Short trainings with the same seed, batches and masks, compared by validation loss.
#
#   bash scripts/pilot.sh [--lr LR]... [--updates N] [--seed N]
#
# Model, data and recipe are those of configs/open.de-en; without --lr at 3e-3 and 1e-3, for 1,000 updates, five minutes
# each on one core. One run after the other, no checkpoints; a run that is finished is not repeated. Ends with the table,
# and writes runs/pilot/open.de-en.json. The table of docs/training.md is made from results/pilot.json, such a file.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RATES=() UPDATES=1000 SEED=1
while (( $# > 0 )); do
  case "$1" in
    -h | --help) usage_and_exit ;;
    --lr | --updates | --seed)
      [[ "${2:-}" =~ ^[0-9.e-]+$ ]] || die "$1 takes a number, not '${2:-}'"
      case "$1" in
        --lr) RATES+=("$2") ;;
        --updates) UPDATES="$2" ;;
        --seed) SEED="$2" ;;
      esac
      shift
      ;;
    *) die "unknown option '$1'. See --help" ;;
  esac
  shift
done
if (( ${#RATES[@]} == 0 )); then RATES=(3e-3 1e-3); fi

# name, flags
VARIANTS=(
  "dense|--topk 0"
  "top-k 8|--topk 8"
  "top-k 8, dense for 300 updates|--topk 8 --topk-warmup-updates 300"
  "top-k 8, k falling over 600 updates|--topk 8 --topk-anneal-updates 600"
  "top-k 8, half of the updates dense|--topk 8 --topk-dense-share 0.5"
  "top-k 8, a quarter of the updates dense|--topk 8 --topk-dense-share 0.25"
  "top-k 8 after the softmax|--topk 8 --topk-order after"
  "top-k 8, straight-through|--topk 8 --topk-straight-through"
)

activate
load_config "$ROOT/configs/open.de-en/topk8.sh"
manifest dataset > /dev/null
folder="$RUNS_ROOT/pilot"
logs=()
for rate in "${RATES[@]}"; do
  for variant in "${VARIANTS[@]}"; do
    read -ra flags <<< "${variant#*|}"
    log="$folder/$SEED/$UPDATES/$rate/${variant%|*}.log"
    logs+=("$log")
    is_done "$log" "${variant%|*} at $rate" && continue
    step "${variant%|*} at $rate (log: $log)"
    rm -f -- "$(in_place_of "$log")"
    mkdir -p -- "$(dirname -- "$log")"
    # shellcheck disable=SC2046  # no flag, or one
    python "$ROOT/scripts/launch.py" --title "${variant%|*}" --log "$(in_place_of "$log")" -- \
      fairseq-train "$PREPARED/bin" --user-dir "$USER_DIR" --save-dir "$folder/none" --no-save --seed "$SEED" \
      --log-format json --log-interval 50 $(device_flags) "${COMMON[@]}" --lr "$rate" --max-update "$UPDATES" \
      --validate-interval-updates 200 --save-interval-updates 0 "${flags[@]}"
    finish "$log"
  done
done
tool pilot "${logs[@]}" --json "$folder/open.de-en.json"
