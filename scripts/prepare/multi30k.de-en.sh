#!/usr/bin/env bash
# Multi30k German-English, raw captions: lowercased, tokenised, joint BPE of 6,000 merges. Test: test_2016_flickr.
# For non-commercial research only, say its authors.
# Options: bash scripts/prepare/multi30k.de-en.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare multi30k.de-en "$@"
