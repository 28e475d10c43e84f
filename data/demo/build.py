#!/usr/bin/env python3
"""Builds the demo corpus from a verse-aligned Bible.

    python data/demo/build.py bible-de-en.tsv.xz data/demo

The input holds one verse a line: chapter, German, English, separated by tabs. The result is
train.tsv.xz, valid.tsv.xz and test.tsv.xz with the same columns.

Whole chapters go to one of the three sets, because neighbouring verses repeat each other's wording:
of every 30 chapters the 15th goes to valid and the 30th to test. A training verse whose German or English
also stands in valid or test is left out (the Bible quotes itself).
"""
import argparse
import lzma
import sys
from pathlib import Path

CYCLE = 30
VALID_AT, TEST_AT = 14, 29


def read_verses(path):
    """Returns the verses of `path` as a list of [chapter, German, English]."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        verses = [line.rstrip("\n").split("\t") for line in lines]
    for number, verse in enumerate(verses, 1):
        if len(verse) != 3:
            raise ValueError(f"{path}, line {number}: expected 3 columns, found {len(verse)}")
    return verses


def split_by_chapter(verses, max_words):
    """Returns {"train", "valid", "test"} -> verses of at most `max_words` words in either language."""
    chapters = list(dict.fromkeys(chapter for chapter, _, _ in verses))
    place = {chapter: index % CYCLE for index, chapter in enumerate(chapters)}
    subset_at = {VALID_AT: "valid", TEST_AT: "test"}
    subsets = {"train": [], "valid": [], "test": []}
    for chapter, german, english in verses:
        if max(len(german.split()), len(english.split())) <= max_words:
            subsets[subset_at.get(place[chapter], "train")].append((chapter, german, english))
    held_out = {text for name in ("valid", "test") for verse in subsets[name] for text in verse[1:]}
    subsets["train"] = [v for v in subsets["train"] if v[1] not in held_out and v[2] not in held_out]
    return subsets


def write_verses(verses, path):
    text = "".join("\t".join(verse) + "\n" for verse in verses)
    path.write_bytes(lzma.compress(text.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bible", type=Path, help="chapter, German, English; tab-separated, xz-compressed")
    parser.add_argument("output", type=Path, help="existing folder for the three files")
    parser.add_argument("--max-words", type=int, default=25, help="longest verse kept (default: 25)")
    args = parser.parse_args(argv)
    for name, verses in split_by_chapter(read_verses(args.bible), args.max_words).items():
        write_verses(verses, args.output / f"{name}.tsv.xz")
        print(f"{name}: {len(verses)} verses", file=sys.stderr)


if __name__ == "__main__":
    main()
