#!/usr/bin/env bash
# Kyoto Free Translation Task, Japanese-English. Japanese is segmented as released (KyTea), English is tokenised here.
# Options: bash scripts/prepare/kftt.ja-en.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare kftt.ja-en "$@"
