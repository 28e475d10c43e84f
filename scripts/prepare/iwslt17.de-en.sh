#!/usr/bin/env bash
# IWSLT17 German-English. Validation dev2010, test tst2010 to tst2015 joined, test1 tst2017; joint BPE of 32,000 merges.
# Options: bash scripts/prepare/iwslt17.de-en.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare iwslt17.de-en "$@"
