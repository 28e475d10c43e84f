#!/usr/bin/env bash
# Prepares the demo corpus, which is part of the repository (data/demo): nothing is downloaded.
#
#   bash scripts/prepare/demo.sh [--out DIR] [--merges N] [--force]
#
# Makes prepared/demo (DATA_ROOT/demo where the environment sets DATA_ROOT): sacremoses tokens, joint subwords,
# fairseq-preprocess. Half a minute; a second call finds it done.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then usage_and_exit; fi
if [[ $# == 0 && -f "$DATA_ROOT/demo/manifest.json" ]]; then
  info "$DATA_ROOT/demo: prepared before"
  exit 0
fi
activate
tool prepare_demo --corpus "$ROOT/data/demo" --out "$DATA_ROOT/demo" "$@"
