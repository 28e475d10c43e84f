"""Makes sure that a training can go on from checkpoint_last.pt.

    python -m explicit_sparse.tools.resume CHECKPOINT_DIR

fairseq copies each new checkpoint over checkpoint_last.pt. Where it is killed within, or the disk is full, that file is
cut short and would end every further start in an error. Then the newest whole checkpoint of the folder takes its place,
or, where there is none, the file goes and training begins anew. Says on stderr what it did.
"""

import argparse
import shutil
import sys
import zipfile
from pathlib import Path

from .command import ToolError, command
from .files import writing

LAST = "checkpoint_last.pt"


def is_whole(path: Path) -> bool:
    """torch's files are zip archives, whose directory stands at the end: what is cut short has none."""
    return zipfile.is_zipfile(path)


def mend(folder: Path) -> None:
    """Replace a cut checkpoint_last.pt by the newest whole checkpoint; leave a whole one alone."""
    if not folder.is_dir():
        raise ToolError(f"{folder}: no such folder")
    last = folder / LAST
    if not last.exists() or is_whole(last):
        return
    others = sorted(folder.glob("checkpoint*.pt"), key=lambda path: path.stat().st_mtime, reverse=True)
    newest = next((path for path in others if path != last and is_whole(path)), None)
    if newest is None:
        last.unlink()
        print(f"{last} was cut short, and {folder} holds no whole checkpoint: training begins anew", file=sys.stderr)
        return
    with writing(last, "wb") as file, newest.open("rb") as whole:
        shutil.copyfileobj(whole, file, 1 << 20)
    print(f"{last} was cut short: going on from {newest.name}, the newest whole checkpoint", file=sys.stderr)


@command
def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        prog="resume", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folder", type=Path, help="fairseq-train's --save-dir")
    mend(parser.parse_args(argv).folder)


if __name__ == "__main__":
    sys.exit(main())
