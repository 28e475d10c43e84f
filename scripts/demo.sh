#!/usr/bin/env bash
# The whole project in ten minutes: dense and top-k attention side by side on real text, with a BLEU table.
#
#   bash scripts/demo.sh [--seed N] [--force]
#
# Installs what is missing, prepares 16,184 German-English Bible verses (part of the repository), trains a small Transformer
# twice with the same seed and budget, with dense attention and with top-k attention (k = 8), one thread each, and
# averages, translates and scores both. A second call finds the steps that are done; --force trains again.
# Ends with a table and five translations on stdout; everything else is in runs/demo.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

EXPERIMENTS=(dense topk8)
SEED=1
FLAGS=()
while (( $# > 0 )); do
  case "$1" in
    -h | --help) usage_and_exit ;;
    --seed)
      [[ "${2:-}" =~ ^[0-9]+$ ]] || die "--seed takes a whole number, not '${2:-}'"
      SEED="$2"
      shift
      ;;
    --force) FLAGS+=(--force) ;;
    *) die "unknown option '$1'. See --help" ;;
  esac
  shift
done

# train_side_by_side: runs every experiment in a process group of its own, so that an interrupted demo leaves nobody behind.
train_side_by_side() {
  local experiment pid failed=0 pids=()
  set -m
  for experiment in "${EXPERIMENTS[@]}"; do
    # Through a pipe, since two progress lines that renew themselves would overwrite each other.
    OMP_NUM_THREADS=1 bash "$ROOT/scripts/run.sh" "$ROOT/configs/demo/$experiment.sh" --seed "$SEED" "${FLAGS[@]}" \
      > "$RUNS_ROOT/demo/$experiment.scores" 2> >(cat >&2) &
    pids+=($!)
  done
  set +m
  # shellcheck disable=SC2064  # the processes of now
  trap "kill -- ${pids[*]/#/-} 2> /dev/null; exit 130" INT TERM
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  trap - INT TERM
  (( failed == 0 )) || die "the demo did not finish (see above). Call it again to go on from where it was"
}

# show_translations: five verses of the test set, at even distances: not chosen.
show_translations() {
  local experiment number total every
  total="$(wc -l < "$DATA_ROOT/demo/ref/test.de")"
  every=$((total / 5))
  printf 'Five verses of the test set, one in %d:\n' "$every"
  for (( number = every / 2; number <= total; number += every )); do
    printf '\n  %-10s %s\n' "source" "$(sed -n "${number}p" "$DATA_ROOT/demo/ref/test.de")"
    printf '  %-10s %s\n' "reference" "$(sed -n "${number}p" "$DATA_ROOT/demo/ref/test.en")"
    for experiment in "${EXPERIMENTS[@]}"; do
      printf '  %-10s %s\n' "$experiment" "$(sed -n "${number}p" "$RUNS_ROOT/demo/$experiment/seed$SEED/test.hyp")"
    done
  done
}

step "demo: about ten minutes on two cores, after an installation of one to five minutes the first time"
if (( $(nproc 2> /dev/null || echo 2) < 2 )); then info "this machine has one core: expect twice the time"; fi
bash "$ROOT/scripts/setup.sh"
activate
SECONDS=0
bash "$ROOT/scripts/prepare/demo.sh" > /dev/null
mkdir -p -- "$RUNS_ROOT/demo"
train_side_by_side

results=()
for experiment in "${EXPERIMENTS[@]}"; do
  results+=("$RUNS_ROOT/demo/$experiment/seed$SEED/run.json")
done
step "table (log: $RUNS_ROOT/demo/table.log)"
tool table "${results[@]}" --data-root "$DATA_ROOT" 2> "$RUNS_ROOT/demo/table.log" ||
  die "the table could not be made: $(tail -n 1 "$RUNS_ROOT/demo/table.log")"
printf '\n'
show_translations
info ""
info "done in $((SECONDS / 60)) min $((SECONDS % 60)) s after installation. Everything about the runs: $RUNS_ROOT/demo"
