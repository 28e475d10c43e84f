#!/usr/bin/env bash
# Sets up the environment where needed and runs the tests.
#
#   bash scripts/test.sh [PYTEST ARGUMENTS]
#   bash scripts/test.sh tests/unit            seconds
#   bash scripts/test.sh -m "not slow"         without those that train or install
#
# Ends with pytest's closing line and its exit status.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ "${1:-}" == --help ]]; then usage_and_exit; fi
bash "$ROOT/scripts/setup.sh"
activate
# Triton's interpreter tests the kernel for GPUs without one. It is large, so nobody else gets it.
if ! python -c 'import sys, importlib.util as u; sys.exit(sys.version_info >= (3, 11) and not u.find_spec("triton"))'; then
  step "installing Triton for the tests"
  python -m pip install --quiet --disable-pip-version-check --constraint "$ROOT/constraints.txt" triton ||
    info "without Triton, which pip cannot install here, its kernel is not tested"
fi
# The models under test are too small for more than one thread to help.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
cd "$ROOT"
python -m pytest "$@"
