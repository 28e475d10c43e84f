#!/usr/bin/env bash
# Runs all experiments of one of the papers' tables, then prints the table.
#
#   bash scripts/reproduce.sh TABLE [--dataset NAME]... [--seeds 1,2,3] [--jobs N] [--dry-run] [-- FAIRSEQ-TRAIN FLAGS]
#
# TABLE              what is compared                                      data sets unless --dataset says otherwise
#   main               dense, top-k 8                                        iwslt14.de-en iwslt15.en-vi wmt14.en-de
#   sparse-attention   dense, top-k 8, sparsemax, entmax, ReLA               iwslt14.de-en
#   k-sweep            dense, top-k 2, 4, 8, 16, 32                          iwslt14.de-en iwslt15.en-vi
#   phases             top-k in training, in generation, in both; after      iwslt14.de-en
#   sites              top-k in self- or cross-attention, encoder, decoder   iwslt14.de-en
#   patterns           top-k beside fixed patterns, 16, 8, 4, 2 keys         iwslt17.fr-en wmt16.en-ro
#
# Lists the runs first, with an estimate; --dry-run stops there. A second call goes on where the first one stopped, and
# finished runs are not repeated. A run that fails does not stop the others: it is named at the end, and the exit
# status is then 1. --jobs N makes N runs at a time; on a CPU they share its cores evenly. RECIPE=fairseq in the
# environment takes fairseq's recipe for each data set (configs/recipe.inc.sh).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

TABLE="" DATASETS=() SEEDS="1,2,3" JOBS=1 DRY_RUN=0 EXTRA=()
while (( $# > 0 )); do
  case "$1" in
    -h | --help) usage_and_exit ;;
    --dataset)
      [[ -n "${2:-}" && -d "$ROOT/configs/${2:-}" ]] ||
        die "--dataset takes one of: $(cd "$ROOT/configs" && printf '%s ' */). Not '${2:-}'"
      DATASETS+=("${2%/}")
      shift
      ;;
    --seeds | --seed)
      [[ "${2:-}" =~ ^[0-9]+(,[0-9]+)*$ ]] || die "$1 takes numbers with commas between, not '${2:-}'"
      SEEDS="$2"
      shift
      ;;
    --jobs)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || die "--jobs takes a number of runs at a time, not '${2:-}'"
      JOBS="$2"
      shift
      ;;
    --dry-run) DRY_RUN=1 ;;
    --)
      shift
      EXTRA=("$@")
      break
      ;;
    -*) die "unknown option '$1'. See --help" ;;
    *)
      [[ -z "$TABLE" ]] || die "one table at a time: '$TABLE' or '$1'?"
      TABLE="$1"
      ;;
  esac
  shift
done

PUBLISHED=()
case "$TABLE" in
  main) experiments=(dense topk8) defaults=(iwslt14.de-en iwslt15.en-vi wmt14.en-de) PUBLISHED=(EST/main) ;;
  sparse-attention)
    experiments=(dense topk8 sparsemax entmax15 entmax rela) defaults=(iwslt14.de-en)
    PUBLISHED=(EST/sparse-attention EST/main)
    ;;
  k-sweep) experiments=(dense topk2 topk4 topk8 topk16 topk32) defaults=(iwslt14.de-en iwslt15.en-vi) ;;
  phases) experiments=(dense topk8 topk8-train topk8-generate topk8-after) defaults=(iwslt14.de-en) ;;
  sites)
    experiments=(dense topk8 topk8-self topk8-cross topk8-encoder-self topk8-decoder-self) defaults=(iwslt14.de-en)
    ;;
  patterns)
    experiments=(dense topk{16,8,4,2} {block,window,dilated,global,random,bigbird,out-of-window}-{16,8,4,2})
    defaults=(iwslt17.fr-en wmt16.en-ro) PUBLISHED=(TopkSelective/1)
    ;;
  "") die "which table? main, sparse-attention, k-sweep, phases, sites or patterns. See --help" ;;
  *) die "no table '$TABLE': there are main, sparse-attention, k-sweep, phases, sites and patterns" ;;
esac
(( ${#DATASETS[@]} > 0 )) || DATASETS=("${defaults[@]}")

# One line a run: configuration, seed, folder, state, hours (or ?), what the hours are on.
# shellcheck disable=SC2034  # load_config sets them all
describe() {
  local HOURS="?" HOURS_ON="" SEED="$2" CONFIG DATASET EXPERIMENT PREPARED RUN_DIR SYSTEM
  local -a TRAIN AVERAGE GENERATE SCORE
  load_config "$1"
  local state="to do"
  if [[ -f "$RUN_DIR/run.json" ]]; then
    state="done"
  elif [[ -e "$RUN_DIR/train.flags" ]]; then
    state="begun"
  fi
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$CONFIG" "$SEED" "$RUN_DIR" "$state" "$HOURS" "$HOURS_ON"
}

# Some data sets lack some experiments: of "patterns", those at which a pattern is not defined.
runs=() missing=()
for dataset in "${DATASETS[@]}"; do
  for experiment in "${experiments[@]}"; do
    config="$ROOT/configs/$dataset/$experiment.sh"
    if [[ ! -f "$config" ]]; then
      missing+=("$dataset/$experiment")
      continue
    fi
    for seed in ${SEEDS//,/ }; do
      line="$(describe "$config" "$seed")"
      runs+=("$line")
    done
  done
done
(( ${#runs[@]} > 0 )) || die "no configuration of the table '$TABLE' for ${DATASETS[*]}"

step "table '$TABLE': ${#runs[@]} runs"
for run in "${runs[@]}"; do
  IFS=$'\t' read -r config seed _ state hours hours_on <<< "$run"
  estimate="no estimate"
  if [[ "$hours" != "?" ]]; then estimate="about $hours h on one $hours_on"; fi
  info "$(printf '  %-42s seed %-4s %-6s %s' "${config#"$ROOT/configs/"}" "$seed" "$state" "$estimate")"
done
if (( ${#missing[@]} > 0 )); then info "  not configured: ${missing[*]}"; fi
printf '%s\n' "${runs[@]}" | awk -F '\t' '
  $4 != "done" { if ($5 == "?") unknown++; else hours[$6] += $5; left++ }
  END {
    printf "  left: %d runs", left
    for (machine in hours) printf ", about %.1f hours on one %s", hours[machine], machine
    if (unknown) printf ", %d without an estimate", unknown
    print " (rough; each training shows its own time left)"
  }' >&2
(( DRY_RUN == 0 )) || exit 0

activate
if (( JOBS > 1 )) && [[ -z "${OMP_NUM_THREADS:-}" ]]; then
  cores="$(nproc 2> /dev/null || echo 1)"
  export OMP_NUM_THREADS="$(( cores > JOBS ? cores / JOBS : 1 ))"
fi

# Each run has a process group of its own, so that an interrupted call leaves nobody behind.
failed=() folders=()
declare -A running=()
# shellcheck disable=SC2317  # called by the trap
stop() {
  for pid in "${!running[@]}"; do kill -- "-$pid" 2> /dev/null; done
  exit 130
}
trap stop INT TERM
# wait_for_one: until one of the runs has ended.
wait_for_one() {
  local pid
  wait -n || true
  for pid in "${!running[@]}"; do
    if ! kill -0 "$pid" 2> /dev/null; then
      wait "$pid" || failed+=("${running[$pid]}")
      unset "running[$pid]"
    fi
  done
}
for run in "${runs[@]}"; do
  IFS=$'\t' read -r config seed folder state _ <<< "$run"
  folders+=("$folder")
  [[ "$state" != "done" ]] || continue
  while (( ${#running[@]} >= JOBS )); do wait_for_one; done
  step "${config#"$ROOT/configs/"}, seed $seed"
  set -m
  if (( JOBS == 1 )); then
    bash "$ROOT/scripts/run.sh" "$config" --seed "$seed" -- "${EXTRA[@]}" &
  else
    # Through a pipe, since progress lines that renew themselves would overwrite each other.
    bash "$ROOT/scripts/run.sh" "$config" --seed "$seed" -- "${EXTRA[@]}" 2> >(cat >&2) &
  fi
  running[$!]="${config#"$ROOT/"} --seed $seed"
  set +m
done
while (( ${#running[@]} > 0 )); do wait_for_one; done
trap - INT TERM

finished=() table_failed=0
for folder in "${folders[@]}"; do
  if [[ -f "$folder/run.json" ]]; then finished+=("$folder/run.json"); fi
done
# Labels of other recipes say so (configs/recipe.inc.sh): so does the baseline's.
comparison=()
if [[ "${RECIPE:-paper}" != paper ]]; then comparison=(--baseline "dense ($RECIPE recipe)"); fi
published=()
for name in "${PUBLISHED[@]}"; do published+=(--published "$name"); done
if (( ${#finished[@]} > 0 )); then
  python -m explicit_sparse.tools.table "${finished[@]}" "${comparison[@]}" "${published[@]}" || table_failed=1
fi
if (( ${#failed[@]} > 0 )); then
  info "failed, ${#failed[@]} of ${#runs[@]}; the same command tries them again:"
  for name in "${failed[@]}"; do info "  bash scripts/run.sh $name"; done
  exit 1
fi
if (( table_failed == 1 )); then die "the runs are finished, but their table could not be made (see above)"; fi
