#!/usr/bin/env bash
# IWSLT15 English-Vietnamese as Stanford released it: tokenised, cased. Validation tst2012, test tst2013.
# --bpe none gives words, --bpe sentencepiece gives 32,000 pieces; the default is 32,000 joint merges.
# Options: bash scripts/prepare/iwslt15.en-vi.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare iwslt15.en-vi "$@"
