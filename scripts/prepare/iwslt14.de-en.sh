#!/usr/bin/env bash
# IWSLT14 German-English by fairseq's recipe: tokenised, lowercased, cleaned, every 23rd pair for validation,
# joint BPE of 10,000 merges. 160,239 / 7,283 / 6,750 pairs with --moses; sacremoses keeps a few pairs more or less.
# Options: bash scripts/prepare/iwslt14.de-en.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare iwslt14.de-en "$@"
