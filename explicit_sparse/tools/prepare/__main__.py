"""Command line of the prepare scripts: ``python -m explicit_sparse.tools.prepare NAME --out DIR``."""

import argparse
import os
import sys
from pathlib import Path
from typing import List, Optional

from ..command import command, fail
from .datasets import DATASETS
from .errors import DISK_FULL, disk_full_message
from .fetch import is_url
from .parallel import default_workers
from .pipeline import Options, prepare
from .segment import BPE
from .text import ROMANIAN, moses_script


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    """Read the command line; the data set comes first, since some options belong to one data set only."""
    arguments = sys.argv[1:] if arguments is None else arguments
    first = argparse.ArgumentParser(prog="prepare", add_help=False)
    first.add_argument("dataset", choices=sorted(DATASETS))
    name, rest = first.parse_args(arguments[:1]).dataset, arguments[1:]
    dataset = DATASETS[name]
    parser = argparse.ArgumentParser(
        prog=f"prepare/{name}.sh",
        description=f"Downloads and prepares {name}. A second call finds it done; a stopped call continues.",
    )
    parser.add_argument(
        "--from",
        dest="origins",
        metavar="DIR_OR_URL",
        action="append",
        default=[],
        help="a folder of the archives, or a base URL, instead of the official servers; several are tried in order "
        "(default: the environment variable DATA_FROM, if set)",
    )
    parser.add_argument("--out", type=Path, default=Path("prepared") / name, metavar="DIR", help="default: %(default)s")
    parser.add_argument(
        "--bpe", choices=BPE, default="subword-nmt", help="default: %(default)s; none keeps whole words"
    )
    parser.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help=f"subword-nmt: joint merges; sentencepiece: pieces (default: {dataset.vocab_size:,}); "
        "none: words in the dictionary (default: all)",
    )
    parser.add_argument(
        "--moses",
        type=Path,
        metavar="DIR",
        help="a Moses checkout, to tokenise with its Perl scripts (default: sacremoses)",
    )
    if dataset.romanian:
        parser.add_argument(
            "--romanian",
            choices=ROMANIAN,
            default=dataset.romanian,
            help="spelling of the tokens: as it is, cedillas to commas, or that and no diacritics (default: %(default)s)",
        )
    for variant in dataset.variants:
        parser.add_argument(
            f"--{variant}", dest="variant", action="store_const", const=variant, help="another recipe, see docs/data.md"
        )
    parser.add_argument(
        "--unverified", action="store_true", help="accept files and line counts that differ from the published ones"
    )
    parser.add_argument(
        "--workers", type=int, default=default_workers(), metavar="N", help="processes (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="make a complete data set anew")
    parsed = parser.parse_args(rest)
    parsed.dataset = dataset
    if not parsed.origins and os.environ.get("DATA_FROM"):
        parsed.origins = [os.environ["DATA_FROM"]]
    if parsed.vocab_size is None:
        parsed.vocab_size = 0 if parsed.bpe == "none" else dataset.vocab_size
    if parsed.vocab_size < (0 if parsed.bpe == "none" else 1):
        parser.error(f"--vocab-size must be positive, not {parsed.vocab_size}")
    for origin in parsed.origins:
        if not is_url(origin) and not Path(origin).is_dir():
            parser.error(f"--from {origin}: there is no such folder")
    if parsed.workers < 1:
        parser.error(f"--workers must be positive, not {parsed.workers}")
    return parsed


@command
def main(arguments: Optional[List[str]] = None) -> int:
    """Prepare one data set. Returns the exit status; prints the finished folder on stdout."""
    parsed = parse_arguments(arguments)
    variant = getattr(parsed, "variant", None) or ""
    try:
        if parsed.moses:
            moses_script(parsed.moses, "tokenizer.perl")  # say so before an hour of downloads
        options = Options(
            bpe=parsed.bpe,
            vocab_size=parsed.vocab_size,
            moses=parsed.moses,
            romanian=getattr(parsed, "romanian", ""),
            variant=variant,
            verify=not parsed.unverified,
            workers=parsed.workers,
            origins=tuple(parsed.origins),
        )
        dataset = parsed.dataset.variants[variant] if variant else parsed.dataset
        prepare(dataset, parsed.out.resolve(), options, parsed.force)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        return fail(disk_full_message(error))
    except KeyboardInterrupt:
        print("stopped; the same command continues", file=sys.stderr)
        return 130
    print(parsed.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
