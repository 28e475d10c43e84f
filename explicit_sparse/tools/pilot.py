"""Collects the validation losses of scripts/pilot.sh.

    python -m explicit_sparse.tools.pilot LOG... --json FILE      from the logs to one file, and its table
    python -m explicit_sparse.tools.pilot --show FILE             the table alone, in Markdown

A log's name is its run's, its folder's the learning rate.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Dict, Iterable

from . import machine
from .command import ToolError, command
from .files import read_object, write_json
from .train_log import records

def read_log(lines: Iterable[str]) -> Dict[int, float]:
    """{update: validation loss} of one training."""
    valid = [values for kind, values in records(lines) if kind == "valid"]
    return {int(values["valid_num_updates"]): float(values["valid_loss"]) for values in valid}


def collect(logs: Iterable[Path]) -> Dict[str, Any]:
    """What the file holds: how the runs were made, and the curve of each.

    Raises:
        ToolError: for a log without a validation.
    """
    runs = []
    for log in logs:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        losses = read_log(lines)
        if not losses:
            raise ToolError(f"{log}: holds no validation: was it written by scripts/pilot.sh?")
        launched = next((line[2:] for line in lines if line.startswith("$ ")), None)
        curve = [{"update": update, "valid_loss": loss} for update, loss in sorted(losses.items())]
        runs.append({"name": log.stem, "lr": log.parent.name, "command": launched, "curve": curve})
    return {"versions": machine.versions(), "cpu": machine.cpu_name(), "commit": machine.commit(), "runs": runs}


def as_markdown(pilot: Dict[str, Any]) -> str:
    """One row a run, one column a validation, and how much more loss than dense at the last one."""
    updates = sorted({point["update"] for run in pilot["runs"] for point in run["curve"]})
    lines = ["| lr | trained with | " + " | ".join(f"{update:,}" for update in updates) + " | behind dense |"]
    lines += ["|---|---|" + "---:|" * (len(updates) + 1)]
    last = {(run["lr"], run["name"]): run["curve"][-1]["valid_loss"] for run in pilot["runs"]}
    for run in pilot["runs"]:
        losses = {point["update"]: f"{point['valid_loss']:.3f}" for point in run["curve"]}
        dense = last.get((run["lr"], "dense"))
        is_measured = dense is not None and run["name"] != "dense"
        behind = f"{last[run['lr'], run['name']] - dense:+.3f}" if is_measured else "–"
        cells = [run["lr"], run["name"], *(losses.get(update, "–") for update in updates), behind]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@command
def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        prog="pilot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("logs", nargs="*", type=Path, help="logs of fairseq-train, named <lr>/<what was trained>.log")
    parser.add_argument("--json", type=Path, help="where the losses go")
    parser.add_argument("--show", type=Path, metavar="FILE", help="only print the table of such a file")
    args = parser.parse_args(argv)
    if bool(args.logs) == bool(args.show):
        parser.error("give logs, or --show FILE")
    pilot = read_object(args.show, "runs") if args.show else collect(args.logs)
    if args.json:
        write_json(args.json, pilot)
    sys.stdout.write(as_markdown(pilot))


if __name__ == "__main__":
    sys.exit(main())
