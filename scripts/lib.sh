# shellcheck shell=bash
# What the scripts share. Source it first:   source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
#
# Sets   ROOT       the clone's folder; no script needs to be called from there
#        DATA_ROOT  where prepared data sets live (default: ROOT/prepared)
#        RUNS_ROOT  where trained models live    (default: ROOT/runs)
#        USER_DIR   what fairseq's --user-dir takes
# Progress and errors go to stderr, results to stdout.

set -euo pipefail

# Older shells call an empty array an unbound variable.
if (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404 )); then
  printf 'error: bash %s is too old, 4.4 or newer is needed\n' "$BASH_VERSION" >&2
  exit 1
fi

unset CDPATH  # with it, cd prints where it went
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
DATA_ROOT="${DATA_ROOT:-$ROOT/prepared}"
RUNS_ROOT="${RUNS_ROOT:-$ROOT/runs}"
# shellcheck disable=SC2034  # the scripts that source this file use it
USER_DIR="$ROOT/explicit_sparse"

# The corpora are UTF-8 whatever the user's locale says; a byte-wise locale also makes `sort` reproducible.
export PYTHONUTF8=1 PYTHONIOENCODING=utf-8 LC_ALL=C
# `python -m explicit_sparse...` works from any folder, installed or not.
export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}"

# glibc gives each large tensor back to the system and faults it in again, page by page: a third of training's time on
# a CPU. Kept instead; the same numbers.
export MALLOC_MMAP_MAX_="${MALLOC_MMAP_MAX_:-0}" MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_:-1000000000000}"

# The scripts at work, from the one that the user called to this one: scripts/launch.py ends its command with any of them.
export EXPLICIT_SPARSE_RUNNERS="${EXPLICIT_SPARSE_RUNNERS:-} $$"

# ---------------------------------------------------------------- messages

info() { printf '%s\n' "$*" >&2; }
step() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# usage_and_exit: prints the calling script's header comment, which is its manual.
usage_and_exit() {
  awk 'NR > 1 && !/^#/ { exit } NR > 1 && !/^# shellcheck/ { sub(/^# ?/, ""); print }' "$0"
  exit 0
}

# ---------------------------------------------------------------- environment

# activate: puts a Python with the dependencies first on PATH: the active environment, else ROOT/.venv,
# else whatever PATH has, provided that fairseq is there.
activate() {
  if [[ -z "${VIRTUAL_ENV:-}" && -x "$ROOT/.venv/bin/python" ]]; then
    export VIRTUAL_ENV="$ROOT/.venv"
    export PATH="$VIRTUAL_ENV/bin:$PATH"
  fi
  command -v fairseq-train > /dev/null ||
    die "fairseq is not installed here. Run: bash $ROOT/scripts/setup.sh"
}

# tool NAME ARGUMENTS...: runs one of explicit_sparse/tools.
tool() {
  local name="$1"
  shift
  python -m "explicit_sparse.tools.$name" "$@"
}

# ---------------------------------------------------------------- steps

# in_place_of TARGET: prints the name to write to before `finish TARGET` makes it TARGET.
in_place_of() { printf '%s.partial' "$1"; }

# finish TARGET: what was written aside becomes TARGET, all at once.
finish() { mv -f -- "$1.partial" "$1"; }

# run_logged LOG COMMAND...: stdout and stderr go to LOG; a failure ends the script and names LOG.
run_logged() {
  local log="$1" status=0
  shift
  mkdir -p -- "$(dirname -- "$log")"
  "$@" > "$log" 2>&1 < /dev/null || status=$?
  if (( status != 0 )); then
    tail -n 5 -- "$log" | sed 's/^/    /' >&2
    die "'${*:1:3}' failed with status $status. Its whole log: $log"
  fi
}

# is_done FILE WHAT: true, with a message, when FILE is there and --force was not given.
is_done() {
  if [[ -e "$1" && "${FORCE:-0}" == 0 ]]; then
    info "$2: already done ($1); --force repeats it"
    return 0
  fi
  return 1
}

# ---------------------------------------------------------------- configurations

# find_config NAME: prints the absolute path of a configuration, given as a path or as dataset/experiment.
find_config() {
  local candidate
  for candidate in "$1" "$ROOT/$1" "$ROOT/configs/$1.sh"; do
    if [[ -f "$candidate" ]]; then
      printf '%s/%s' "$(cd "$(dirname -- "$candidate")" && pwd)" "$(basename -- "$candidate")"
      return 0
    fi
  done
  die "no configuration '$1'. There are: $(cd "$ROOT/configs" && printf '%s ' */*[!c].sh)"
}

# load_config PATH: sets SYSTEM, TRAIN, AVERAGE, GENERATE and SCORE from the file, DATASET and EXPERIMENT
# from its path, PREPARED and RUN_DIR from those and SEED.
# shellcheck disable=SC2034  # the scripts that source this file use them
load_config() {
  CONFIG="$1"
  DATASET="$(basename -- "$(dirname -- "$CONFIG")")"
  EXPERIMENT="$(basename -- "$CONFIG" .sh)"
  PREPARED="$DATA_ROOT/$DATASET"
  RUN_DIR="$RUNS_ROOT/$DATASET/$EXPERIMENT/seed$SEED"
  SYSTEM="$EXPERIMENT"
  TRAIN=() AVERAGE=() GENERATE=() SCORE=()
  # shellcheck disable=SC1090
  source "$CONFIG"
}

# read_run_arguments "$@": reads CONFIG [--seed N] [--force] [--subset NAME] [-- FLAGS...] and loads the configuration.
# shellcheck disable=SC2034
read_run_arguments() {
  local config=""
  SEED=1 FORCE=0 SUBSETS=() EXTRA=()
  while (( $# > 0 )); do
    case "$1" in
      -h | --help) usage_and_exit ;;
      --seed)
        [[ "${2:-}" =~ ^[0-9]+$ ]] || die "--seed takes a whole number, not '${2:-}'"
        SEED="$2"
        shift
        ;;
      --force) FORCE=1 ;;
      --subset)
        [[ -n "${2:-}" ]] || die "--subset takes a name, for example valid"
        SUBSETS+=("$2")
        shift
        ;;
      --)
        shift
        EXTRA=("$@")
        break
        ;;
      -*) die "unknown option '$1' (fairseq's own flags go after --). See --help" ;;
      *)
        [[ -z "$config" ]] || die "one configuration at a time: '$config' or '$1'?"
        config="$1"
        ;;
    esac
    shift
  done
  [[ -n "$config" ]] || die "which configuration? For example: $(basename -- "$0") configs/demo/topk8.sh"
  config="$(find_config "$config")"
  load_config "$config"
}

# manifest FIELD...: prints values of the prepared data's manifest, one a line; "tests" lists its test sets.
manifest() {
  [[ -f "$PREPARED/manifest.json" ]] ||
    die "no prepared data in $PREPARED. Run: bash $ROOT/scripts/prepare/$DATASET.sh"
  python - "$PREPARED/manifest.json" "$@" << 'PYTHON'
import json, sys
manifest = json.load(open(sys.argv[1], encoding="utf-8"))
for field in sys.argv[2:]:
    if field == "tests":
        print("\n".join(name for name in manifest["subsets"] if name.startswith("test")))
    else:
        print(manifest[field])
PYTHON
}

# choose_subsets: without --subset, every test set.
choose_subsets() {
  if (( ${#SUBSETS[@]} == 0 )); then mapfile -t SUBSETS < <(manifest tests); fi
  (( ${#SUBSETS[@]} > 0 )) || die "no test set in $PREPARED/manifest.json"
}

# own_run_dir: makes this script the only one at work in RUN_DIR, until it and all its children have ended. The scripts
# that it calls share it. Ends the script where another one is at work there. Call activate first.
own_run_dir() {
  [[ "${EXPLICIT_SPARSE_OWNS:-}" == "$RUN_DIR" ]] && return 0
  mkdir -p -- "$RUN_DIR"
  # The system drops a lock when the last process that has the file open ends, however it ends.
  exec {OWNER_FILE}<> "$RUN_DIR/.owner"
  python - "$OWNER_FILE" << 'PYTHON' ||
import fcntl, sys
try:
    fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(1)
except OSError:
    pass  # a file system without locks, as some network folders are
PYTHON
    die "$RUN_DIR is in use by process $(cat "$RUN_DIR/.owner"), or by what it started. Wait for it, or end it"
  printf '%s on %s\n' "$$" "$(uname -n)" > "$RUN_DIR/.owner"
  export EXPLICIT_SPARSE_OWNS="$RUN_DIR"
}

# require_trained: ends the script where training has not finished.
require_trained() {
  [[ -f "$RUN_DIR/train.json" ]] ||
    die "training of $DATASET/$EXPERIMENT, seed $SEED, has not finished. Run: bash $ROOT/scripts/train.sh $CONFIG --seed $SEED"
}

# model_path: prints the checkpoint that translates.
model_path() {
  if (( ${#AVERAGE[@]} > 0 )); then
    printf '%s' "$RUN_DIR/average.pt"
  else
    printf '%s' "$RUN_DIR/checkpoints/checkpoint_best.pt"
  fi
}

# device_flags: prints --cpu where torch sees no GPU.
device_flags() {
  python -c 'import torch; print("" if torch.cuda.is_available() else "--cpu")'
}
