"""Keep the tables in Markdown pages what the recorded runs say: ``python -m explicit_sparse.tools.table.pages PAGE...``.

A page holds the arguments of the table tool, and below them what it printed:

    <!-- table: results/demo --published EST/main -->
    ...
    <!-- end of table -->

Everything between the two comments is made anew, as Markdown. The arguments' paths start at the clone's folder.
"""

import argparse
import os
import re
import shlex
import sys
from pathlib import Path
from typing import List, Optional, Sequence

from ..command import ToolError
from . import plot
from . import __main__ as table
from .formats import FORMATS

ROOT = Path(__file__).resolve().parents[3]
_BEGIN = re.compile(r"^<!-- table: (.*) -->$")
_END = "<!-- end of table -->"


def renew(text: str, draw: bool = True) -> str:
    """A page with its tables made anew.

    Args:
        text: the page.
        draw: also write the images that the tables' ``--plot`` names.

    Raises:
        ToolError: for a table without an end, arguments the table tool does not take, or runs it cannot compare.
    """
    lines: List[str] = []
    arguments: Optional[str] = None
    for line in text.split("\n"):
        begin = _BEGIN.match(line)
        if arguments is None or begin:
            if begin:
                _refuse_open(arguments)
                arguments = begin.group(1)
            lines.append(line)
        elif line == _END:
            lines += ["", _table(arguments, draw).strip("\n"), "", line]
            arguments = None
    _refuse_open(arguments)
    return "\n".join(lines)


def _refuse_open(arguments: Optional[str]) -> None:
    if arguments is not None:
        raise ToolError(f"the table '{arguments}' has no line '{_END}' after it")


def _table(arguments: str, draw: bool) -> str:
    try:
        parsed = table.make_parser().parse_args(shlex.split(arguments))
    except SystemExit as error:  # argparse has said what is wrong
        raise ToolError(f"the table tool does not take '{arguments}'") from error
    tables = table.tabulate(parsed)
    if draw and parsed.plot:
        plot.require_matplotlib()
        plot.draw(tables, parsed.plot)
    return FORMATS["markdown"](tables)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m explicit_sparse.tools.table.pages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE", help="Markdown files")
    parser.add_argument("--check", action="store_true", help="change nothing; fail where a page is out of date")
    arguments = parser.parse_args(argv)
    table.quiet_others()
    pages = [page.resolve() for page in arguments.pages]
    os.chdir(ROOT)
    old_pages = []
    for page in pages:
        try:
            text = page.read_text(encoding="utf-8")
            renewed = renew(text, draw=not arguments.check)
        except (ToolError, OSError) as error:
            print(f"error: {page}: {error}", file=sys.stderr)
            return 1
        if renewed == text:
            continue
        old_pages.append(page)
        if not arguments.check:
            aside = page.with_name(page.name + ".partial")
            aside.write_text(renewed, encoding="utf-8")
            os.replace(str(aside), str(page))
    for page in old_pages:
        print(f"{page}: {'out of date; run this without --check' if arguments.check else 'made anew'}", file=sys.stderr)
    return 1 if arguments.check and old_pages else 0


if __name__ == "__main__":
    sys.exit(main())
