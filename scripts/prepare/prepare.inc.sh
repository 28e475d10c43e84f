# shellcheck shell=bash
# What the scripts of this folder share: prepare NAME [OPTIONS] prepares one data set below DATA_ROOT.

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

prepare() {
  local name="$1"
  shift
  activate
  tool prepare "$name" --out "$DATA_ROOT/$name" "$@"
}
