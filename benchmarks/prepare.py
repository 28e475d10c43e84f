#!/usr/bin/env python3
"""Measures the preparation of a corpus, and how sacremoses and Moses' Perl scripts differ on it.

    python benchmarks/prepare.py train.de train.en [--moses DIR] [--workers 2]

Two files of plain text, one sentence a line, German and English, go through scripts/prepare/iwslt14.de-en.sh: packed as its
archive, then extracted, tokenised, lowercased, cleaned, split, segmented (10,000 merges) and binarised. Prints the
seconds, and the peak memory of all its processes together (pages that several share counted once; Linux only).
With --moses also by the Perl scripts, with the number of lines on which the tokens differ. Uses a temporary folder.
"""

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIR = "de-en"
LANGUAGES = ("de", "en")
TALKS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def make_archive(texts, folder):
    """Packs the texts as the training data of IWSLT14; their first lines also serve as its five test sets."""
    with tarfile.open(folder / f"{PAIR}.tgz", "w:gz", compresslevel=1) as archive:

        def add(name, data):
            entry = tarfile.TarInfo(f"{PAIR}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

        for language, text in zip(LANGUAGES, texts):
            data = text.read_bytes()
            add(f"train.tags.{PAIR}.{language}", data)
            lines = data.decode("utf-8").split("\n")
            for number, talk in enumerate(TALKS):
                chosen = lines[1000 * number : 1000 * number + 1000]
                xml = "".join(f'<seg id="{n}"> {line} </seg>\n' for n, line in enumerate(chosen, 1))
                add(f"IWSLT14.{talk}.{PAIR}.{language}.xml", xml.encode("utf-8"))


def descendants(pid):
    """The process and all below it."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:  # it has just ended
                continue
    return found


def memory_kb(pid):
    total = 0
    for process in descendants(pid):
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def measure(archives, out, options):
    """Returns (seconds, peak memory in MB) of one preparation."""
    command = ["bash", str(ROOT / "scripts" / "prepare" / "iwslt14.de-en.sh"), "--from", str(archives)]
    command += ["--out", str(out), "--unverified", *options]
    began, peak = time.monotonic(), 0
    with open(out.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while process.poll() is None:
            peak = max(peak, memory_kb(process.pid))
            time.sleep(0.5)
    if process.returncode:
        sys.exit(out.with_suffix(".log").read_text()[-2000:])
    return time.monotonic() - began, peak / 1024


def tokens_of(texts, folder, moses, workers):
    """Tokenises the texts themselves; returns (seconds, the two token files)."""
    from explicit_sparse.tools.prepare.parallel import transform_files
    from explicit_sparse.tools.prepare.text import tokeniser

    outs = [folder / f"{'moses' if moses else 'sacremoses'}.{language}" for language in LANGUAGES]
    began = time.monotonic()
    transform_files(
        [
            (tokeniser(language, moses=moses, lowercase=True), text, out)
            for language, text, out in zip(LANGUAGES, texts, outs)
        ],
        workers,
    )
    return time.monotonic() - began, outs


def kept_by_cleaning(sides):
    from prepare.text import rejection

    with open(sides[0], encoding="utf-8") as source, open(sides[1], encoding="utf-8") as target:
        return [rejection(a[:-1], b[:-1], (1, 175, 1.5)) is None for a, b in zip(source, target)]


def compare(texts, folder, moses, workers):
    results = {}
    for name, checkout in (("sacremoses", None), ("moses", moses)):
        seconds, results[name] = tokens_of(texts, folder, checkout, workers)
        print(f"tokenising with {name}: {seconds:.0f} s")
    for index, language in enumerate(LANGUAGES):
        ours, theirs = (
            results[name][index].read_text(encoding="utf-8").split("\n") for name in ("sacremoses", "moses")
        )
        print(f"{language}: {sum(a != b for a, b in zip(ours, theirs)):,} of {len(ours) - 1:,} lines differ")
    kept = {name: kept_by_cleaning(sides) for name, sides in results.items()}
    print("pairs kept by cleaning:", ", ".join(f"{sum(kept[name]):,} with {name}" for name in kept), end="; ")
    print(sum(a != b for a, b in zip(kept["sacremoses"], kept["moses"])), "by only one of them")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs=2, type=Path, metavar="TEXT", help="the German and the English file")
    parser.add_argument("--moses", type=Path, metavar="DIR", help="a Moses checkout, to compare with")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    args = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_archive(args.texts, folder)
        for title, options in [("sacremoses", [])] + ([("moses", ["--moses", str(args.moses)])] if args.moses else []):
            seconds, memory = measure(folder, folder / title, ["--workers", str(args.workers), *options])
            print(f"preparing with {title}: {seconds:.0f} s, peak {memory:.0f} MB")
        if args.moses:
            compare(args.texts, folder, args.moses, args.workers)


if __name__ == "__main__":
    main()
