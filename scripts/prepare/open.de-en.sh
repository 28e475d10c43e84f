#!/usr/bin/env bash
# Openly licensed German-English text, 180,728 pairs: tokenised, cased, joint BPE of 8,000 merges.
# It has no public link: --from FOLDER says where de-en.tar.xz is. docs/data.md says what is in it.
# Options: bash scripts/prepare/open.de-en.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare open.de-en "$@"
