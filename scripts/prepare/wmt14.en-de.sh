#!/usr/bin/env bash
# WMT14 English-German from its parts: Europarl v7, Common Crawl, News Commentary v9. Validation newstest2013,
# test newstest2014 (all 3,003 sentences), joint BPE of 32,000 merges. --rebuild-google takes the training parts and the
# cleaning of the well-known tarball that is no longer served; the result is a rebuild, not that file.
# Options: bash scripts/prepare/wmt14.en-de.sh --help. More in docs/data.md.
source "$(dirname "${BASH_SOURCE[0]}")/prepare.inc.sh"
prepare wmt14.en-de "$@"
