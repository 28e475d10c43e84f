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
# The models under test are too small for more than one thread to help.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
cd "$ROOT"
python -m pytest "$@"
