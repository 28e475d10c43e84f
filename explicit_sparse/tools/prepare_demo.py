"""Prepares the demo corpus that lies in the repository: tokenise, learn joint subwords, binarise.

    python -m explicit_sparse.tools.prepare_demo --corpus data/demo --out prepared/demo

The corpus is train.tsv.xz, valid.tsv.xz and test.tsv.xz with the columns chapter, German, English.
"""
import argparse
import lzma
import shutil
import sys
from pathlib import Path

from explicit_sparse.tools.command import ToolError, command
from explicit_sparse.tools.prepare import manifest
from explicit_sparse.tools.prepare.binarise import binarise
from explicit_sparse.tools.prepare.fetch import sha256
from explicit_sparse.tools.prepare.segment import learn_subword_nmt, segmenter
from explicit_sparse.tools.prepare.steps import info, locked
from explicit_sparse.tools.prepare.text import tokeniser

LANGUAGES = ("de", "en")
SUBSETS = ("train", "valid", "test")


def read_corpus(path):
    """Returns the German and the English lines of one file of the corpus."""
    if not path.exists():
        raise ToolError(f"{path} is missing: it is part of the repository, restore it with git checkout")
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return {language: [row[column] for row in rows] for column, language in enumerate(LANGUAGES, 1)}


def write_lines(lines, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def build(corpus, folder, merges):
    """Writes the whole prepared data set to the empty `folder`."""
    info("demo: tokenising")
    counts = {}
    tokens = {}
    for subset in SUBSETS:
        text = read_corpus(corpus / f"{subset}.tsv.xz")
        counts[subset] = len(text[LANGUAGES[0]])
        for language in LANGUAGES:
            tokens[subset, language] = tokeniser(language)()(text[language])
            write_lines(tokens[subset, language], folder / "tok" / f"{subset}.{language}")
            if subset != "train":
                write_lines(text[language], folder / "ref" / f"{subset}.{language}")

    info(f"demo: learning {merges} subword merges")
    learn_subword_nmt([folder / "tok" / f"train.{language}" for language in LANGUAGES], merges, folder / "codes", 1)
    segment = segmenter("subword-nmt", folder / "codes")()
    for (subset, language), lines in tokens.items():
        write_lines(segment(lines), folder / "text" / f"{subset}.{language}")

    info("demo: binarising")
    binarise(folder / "text", LANGUAGES, counts, folder / "bin", workers=1)
    shutil.rmtree(folder / "text")
    for language in LANGUAGES:
        (folder / "tok" / f"train.{language}").unlink()
    manifest.write(folder, describe(corpus, folder, counts, merges))


def describe(corpus, folder, counts, merges):
    subsets = {subset: {"pairs": counts[subset]} for subset in SUBSETS}
    for subset in ("valid", "test"):
        subsets[subset]["name"] = f"Bible chapters held out for {subset}"
    subsets["test"]["sha256_reference"] = sha256(folder / "ref" / f"test.{LANGUAGES[1]}")
    files = [corpus / f"{subset}.tsv.xz" for subset in SUBSETS]
    return {
        "format": manifest.FORMAT,
        "dataset": "demo",
        "source_lang": LANGUAGES[0],
        "target_lang": LANGUAGES[1],
        "bpe": "subword-nmt",
        "tokenizer": "sacremoses",
        "lowercase": False,
        "subsets": subsets,
        "inputs": [{"name": f.name, "url": None, "sha256": sha256(f), "bytes": f.stat().st_size} for f in files],
        "options": {"merges": merges},
        "versions": manifest.versions(None),
    }


@command
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="prepare/demo.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True, help="folder of the three files")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--merges", type=int, default=2000, help="joint subword merges (default: 2000)")
    parser.add_argument("--force", action="store_true", help="make it again where it is there")
    args = parser.parse_args(argv)
    args.out = args.out.resolve()
    aside = args.out.parent / f".{args.out.name}.work"
    with locked(args.out.parent / f".{args.out.name}.lock"):
        if manifest.of_ours(args.out, "demo", replace=args.force) is not None and not args.force:
            info(f"{args.out}: prepared before")
        else:
            try:
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
                build(args.corpus, aside, args.merges)
                shutil.rmtree(args.out, ignore_errors=True)
                aside.rename(args.out)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    print(args.out)


if __name__ == "__main__":
    sys.exit(main())
