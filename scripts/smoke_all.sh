#!/usr/bin/env bash
# Trains every attention mapping and every pattern for 200 updates on the demo corpus, translates with each
# model, and prints a table: does the loss fall, is everything finite, does generation work, how fast is it.
#
#   bash scripts/smoke_all.sh [--updates N] [--jobs N] [NAME...]
#
# About 12 minutes on two cores. NAME picks single methods, as the table's first column names them.
# Logs and checkpoints go to runs/smoke/<name>/ (RUNS_ROOT moves the folder). Exit status 1 if a method failed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ "${1:-}" == -h || "${1:-}" == --help ]] && usage_and_exit
activate
[[ -f "$DATA_ROOT/demo/manifest.json" ]] || bash "$ROOT/scripts/prepare/demo.sh"
python "$ROOT/scripts/smoke_all.py" "$DATA_ROOT/demo/bin" "$RUNS_ROOT/smoke" "$@"
