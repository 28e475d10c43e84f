# shellcheck shell=bash
# What the scripts of this folder share: prepare NAME [OPTIONS] prepares one data set below DATA_ROOT.

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

prepare() {
  local name="$1"
  shift
  activate
  # As a package of its own name: importing explicit_sparse would load torch into every worker process.
  exec python -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from prepare.__main__ import main; sys.exit(main())' \
    "$ROOT/explicit_sparse/tools" "$name" --out "$DATA_ROOT/$name" "$@"
}
