#!/usr/bin/env bash
# WMT16 English-Romanian. Validation newsdev2016, test newstest2016; joint BPE of 40,000 merges.
# --romanian normalise writes commas for cedillas; --romanian strip also removes diacritics.
# Options: bash scripts/prepare/wmt16.en-ro.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare wmt16.en-ro "$@"
