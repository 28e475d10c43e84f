#!/usr/bin/env bash
# Installs everything the project needs, in tested versions.
#
#   bash scripts/setup.sh [--force]
#
# Uses the active virtual environment, else makes .venv in the clone. A second call checks a stamp and returns at once;
# --force installs again. Environment variables:
#   PYTHON   the interpreter to make .venv with (default: the first of python3.11, 3.12, 3.10, 3.9, 3.8 that is there)
#
# Python 3.11 and 3.12 get fairseq 0.12.3 (ve-fairseq on 64-bit x86 Linux, elsewhere fairseq-fixed, which needs a
# C++ compiler); Python 3.8 to 3.10 get fairseq 0.12.2, which needs pip < 24.1. An environment that already
# has a working fairseq keeps it. Where there is a C++ compiler, top-k attention gets compiled kernels; the last lines
# say whether it did.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

FORCE=0
case "${1:-}" in
  -h | --help) usage_and_exit ;;
  --force) FORCE=1 ;;
  "") ;;
  *) die "unknown option '$1'. See --help" ;;
esac

# Prints the minor version of Python 3 ("11"), or nothing.
minor_version() {
  "$1" -c 'import sys; print(sys.version_info[1] if sys.version_info[0] == 3 else "")' 2> /dev/null || true
}

require_supported() {
  local minor
  minor="$(minor_version "$1")"
  [[ -n "$minor" ]] || die "'$1' does not run as Python 3. Install Python 3.11, or set PYTHON to one"
  (( minor >= 8 )) || die "Python 3.$minor ($1) is too old: torch and fairseq need 3.8 or newer, 3.11 is best"
  (( minor <= 12 )) || die "Python 3.$minor ($1) is too new: no fairseq release runs on it yet. \
Install Python 3.11 or 3.12 beside it, then: PYTHON=python3.11 bash scripts/setup.sh"
}

# Prints the first interpreter that fairseq runs on and that can make a virtual environment.
find_python() {
  local candidate
  for candidate in python3.11 python3.12 python3.10 python3.9 python3.8 python3 python; do
    if command -v "$candidate" > /dev/null && [[ "$(minor_version "$candidate")" =~ ^([89]|1[0-2])$ ]] &&
      "$candidate" -c 'import ensurepip' 2> /dev/null; then
      printf '%s' "$candidate"
      return 0
    fi
  done
  die "no usable Python found. fairseq needs Python 3.8 to 3.12 with the venv module (3.11 is best; \
Debian and Ubuntu: apt-get install python3.11-venv). Then: PYTHON=/path/to/python3.11 bash scripts/setup.sh"
}

make_environment() {
  local python="${PYTHON:-}"
  [[ -n "$python" ]] || python="$(find_python)"
  require_supported "$python"
  step "making .venv with $("$python" --version)"
  "$python" -m venv --clear "$ROOT/.venv" ||
    die "'$python -m venv' failed. Debian and Ubuntu: apt-get install python3-venv"
}

pip_install() {
  python -m pip install --quiet --disable-pip-version-check --constraint "$ROOT/constraints.txt" "$@"
}

can_import() { python -c "import $1" > /dev/null 2>&1; }

# On a machine without an NVIDIA GPU the usual torch wheel brings gigabytes of CUDA libraries.
# A CPU build is taken if one of the configured package sources offers it.
install_torch() {
  local version
  ! can_import torch || return 0
  version="$(sed -n 's/^torch==\([^ ;]*\).*/\1/p' "$ROOT/constraints.txt")"
  if ! command -v nvidia-smi > /dev/null && (( MINOR >= 11 )); then
    step "installing torch $version, CPU build"
    if pip_install "torch==$version+cpu" 2> /dev/null; then return 0; fi
    info "No package source offers a CPU build: taking the usual one, which is large. To avoid it, add
PyTorch's CPU package index (pytorch.org, 'Get started') as PIP_EXTRA_INDEX_URL and run this again."
  fi
  step "installing torch"
  pip_install torch || die "pip could not install torch (see above)"
}

install_package() {
  local extras="test,plot"
  if can_import fairseq; then
    info "keeping the fairseq that is already installed"
  else
    extras="fairseq,$extras"
    if (( MINOR < 11 )); then
      # Newer pips refuse the metadata of fairseq 0.12.2's dependency omegaconf; newer setuptools lack what it builds with.
      pip_install "pip<24.1" "setuptools<70" wheel
    fi
  fi
  step "installing the project and its dependencies (minutes the first time)"
  pip_install --editable "${ROOT}[$extras]" || die "pip could not install the dependencies (see above).
  * 'command gcc failed' or 'Microsoft Visual C++': fairseq is built from source here and needs a C++ compiler
  * 'omegaconf ... invalid metadata': pip is too new for fairseq 0.12.2; pip install 'pip<24.1'
  * no network: set pip's proxy or index options"
}

check_imports() {
  local module output
  for module in fairseq explicit_sparse; do
    output="$(python -c "import $module" 2>&1)" || die "'import $module' fails in $(python --version):
$output
  Start over with a fresh environment: rm -rf $ROOT/.venv && PYTHON=python3.11 bash $ROOT/scripts/setup.sh"
  done
}

if [[ -z "${VIRTUAL_ENV:-}" ]]; then
  VIRTUAL_ENV="$ROOT/.venv"
  # Without pip it is the rest of an interrupted attempt.
  "$VIRTUAL_ENV/bin/python" -m pip --version > /dev/null 2>&1 || make_environment
fi
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"

MINOR="$(minor_version python)"
STAMP="$VIRTUAL_ENV/explicit-sparse-setup"
FINGERPRINT="$ROOT 3.$MINOR $(cd "$ROOT" && cat setup.py constraints.txt explicit_sparse/kernels/*.cpp | cksum)"
if (( FORCE == 0 )) && [[ -f "$STAMP" && "$(cat "$STAMP")" == "$FINGERPRINT" ]]; then
  info "set-up: already done ($VIRTUAL_ENV)"
  exit 0
fi

require_supported python
install_torch
install_package
check_imports
printf '%s\n' "$FINGERPRINT" > "$STAMP"
info "$(python -c 'from explicit_sparse.kernels import library; print(library.status())')"
info "set-up: done ($VIRTUAL_ENV)"
