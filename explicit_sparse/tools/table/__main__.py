"""Tables and curves from recorded runs: ``python -m explicit_sparse.tools.table runs/multi30k.de-en``.

Reads the run.json files that the pipelines leave, averages over seeds, tests every system against a baseline with
sacrebleu, and sets published figures beside them.
"""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import List, Optional, Sequence

from ..command import ToolError, command
from ..files import writing
from . import plot
from .by_length import add_bleu_by_length
from .formats import FORMATS
from .published import PUBLISHED_FILE, read_figures, select
from .runs import find_runs
from .significance import METHODS, ResultStore
from .summary import Comparison, Table, build_tables

_EPILOG = """\
examples:
  python -m explicit_sparse.tools.table runs/demo
  python -m explicit_sparse.tools.table runs/iwslt14.de-en --published EST --plot sparse.png
  python -m explicit_sparse.tools.table runs/multi30k.de-en/dense runs/multi30k.de-en/topk8 --format markdown

BLEU is sacreBLEU of detokenised text; tokenised BLEU has its own column. Each seed of a system is tested against the
baseline's run with the same seed. SACREBLEU_SEED sets the random seed of the tests, as it does for sacrebleu.
"""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m explicit_sparse.tools.table",
        description="Tables and curves from recorded runs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("results", nargs="+", metavar="RESULTS", help="run.json files, or folders searched for them")
    add("--baseline", metavar="NAME", help="the system to compare with (default: dense)")
    add(
        "--published",
        metavar="NAME",
        action="append",
        default=[],
        help="set published figures beside ours: PAPER[/TABLE[/DATASET[/DIRECTION]]] as in data/published.csv, "
        "or a data set such as iwslt14.de-en; may be given again",
    )
    add("--format", choices=sorted(FORMATS), default="text", help="default: text")
    add("--sort", choices=["given", "bleu"], default="given", help="order of the systems below the baseline")
    add("--output", metavar="FILE", type=Path, help="write the table there instead of to standard output")
    add("--plot", metavar="FILE", type=Path, help="also draw curves into this image (.png, .pdf, .svg)")
    add("--subset", metavar="NAME", action="append", default=[], help="only this test set; may be given again")
    add(
        "--paired",
        choices=[*METHODS, "none"],
        default="bootstrap",
        help="sacrebleu's paired test of BLEU (default: bootstrap)",
    )
    add("--samples", metavar="N", type=int, default=0, help="resamples or trials of the test (default: sacrebleu's)")
    add(
        "--tests",
        metavar="FILE",
        type=Path,
        help="keep finished significance tests in this JSON file and take them from it: "
        "such a table can be made again without the references",
    )
    add("--by-length", action="store_true", help="also BLEU by the length of the source; needs the prepared data")
    add(
        "--speeds-from",
        metavar="SEEDS",
        type=_seeds,
        help="take speeds from these seeds only, as in 1,3, or from none, "
        "where other runs shared their machine with other work",
    )
    add("--skip-unfinished", action="store_true", help="leave out runs without run.json, and say so")
    add("--data-root", metavar="DIR", type=Path, help="prepared data (default: DATA_ROOT, or prepared/)")
    add("--published-file", metavar="FILE", type=Path, default=PUBLISHED_FILE, help=argparse.SUPPRESS)
    return parser


def tabulate(arguments: argparse.Namespace) -> List[Table]:
    """The tables that a parsed command line asks for.

    Raises:
        ToolError: for results that cannot be read, compared or averaged.
    """
    if arguments.samples < 0:
        raise ToolError(f"--samples {arguments.samples}: must be positive, or 0 for sacrebleu's default")
    runs, notes = find_runs(arguments.results, arguments.skip_unfinished)
    figures = select(read_figures(arguments.published_file), arguments.published) if arguments.published else []
    comparison = Comparison(
        baseline=arguments.baseline,
        method=None if arguments.paired == "none" else arguments.paired,
        samples=arguments.samples,
        data_root=arguments.data_root or _data_root(),
        store=ResultStore(arguments.tests),
        subsets=arguments.subset,
        figures=figures,
        speeds_from=arguments.speeds_from,
        best_first=arguments.sort == "bleu",
    )
    tables = build_tables(runs, comparison)
    if arguments.by_length:
        add_bleu_by_length(tables, comparison.data_root)
    tables[0].notes.extend(notes)
    return tables


def _seeds(text: str) -> List[int]:
    """The value of --speeds-from."""
    try:
        return [] if text == "none" else [int(seed) for seed in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither seeds such as 1,3 nor none")


def _data_root() -> Path:
    return Path(os.environ.get("DATA_ROOT") or Path(__file__).resolve().parents[3] / "prepared")


def quiet_others() -> None:
    """Warnings only from the packages used here: fairseq turns on everybody's messages."""
    for name in ("sacrebleu", "matplotlib"):
        logging.getLogger(name).setLevel(logging.WARNING)


@command
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = make_parser().parse_args(argv)
    quiet_others()
    if arguments.plot:
        plot.require_matplotlib()
    tables = tabulate(arguments)
    text = FORMATS[arguments.format](tables)
    if arguments.plot:
        plot.draw(tables, arguments.plot)
    if arguments.output:
        with writing(arguments.output) as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
