"""Draws tables as curves: BLEU by k, validation loss by update, BLEU against speed. Needs matplotlib, no display."""

import os
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence, Tuple

from ..command import ToolError
from .published import system_key
from .summary import Row, Table

# Okabe and Ito's colours: told apart by readers with colour-blindness too.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_STYLES = ("-", "--", ":", "-.")
_PANEL = (5.2, 3.8)  # inches
_DPI = 120


def require_matplotlib() -> None:
    """Raise ToolError with what to install where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ToolError("--plot needs matplotlib: pip install matplotlib") from error


def draw(tables: Sequence[Table], path: Path) -> None:
    """Draw one row of panels for each table into one image.

    A panel is left out where a table has too little for it: BLEU by k needs two systems ``top-k N``,
    the loss needs recorded curves, BLEU against speed needs two systems with speeds.

    Args:
        tables: what to draw.
        path: the image; its ending names the format (.png, .pdf, .svg). Written aside, then renamed.

    Raises:
        ToolError: if there is nothing to draw, or the ending is unknown.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [(table, _panels(table)) for table in tables]
    rows = [(table, panels) for table, panels in rows if panels]
    if not rows:
        raise ToolError(
            f"{path}: nothing to plot: needs two systems with speeds, 'top-k N' systems, or recorded loss curves"
        )
    across = max(len(panels) for _, panels in rows)
    figure = Figure(figsize=(_PANEL[0] * across, _PANEL[1] * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)  # draws in memory, whatever display there is or is not
    axes = figure.subplots(len(rows), across, squeeze=False)
    for (table, panels), row_of_axes in zip(rows, axes):
        for axis in row_of_axes[len(panels) :]:
            axis.set_visible(False)
        for panel, axis in zip(panels, row_of_axes):
            panel(axis, table)
            axis.grid(color="#dddddd", linewidth=0.6)
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
    aside = path.with_name(path.name + ".partial")
    try:
        figure.savefig(str(aside), format=path.suffix[1:] or "png", dpi=_DPI)
        os.replace(str(aside), str(path))
    except ValueError as error:
        raise ToolError(f"{path}: {error}") from error
    finally:
        if aside.exists():
            aside.unlink()


def _panels(table: Table) -> List[Callable[[Any, Table], None]]:
    panels = []
    if _sweep(table):
        panels.append(_draw_sweep)
    if any(_curve(run) for row in table.rows for run in row.runs):
        panels.append(_draw_loss)
    if len([row for row in table.rows if _speed(row)]) > 1:
        panels.append(_draw_speed)
    return panels


def _sweep(table: Table) -> List[Tuple[Optional[int], Row]]:
    """(k, row) by growing k; dense last, with k None. Empty without two different k."""
    found = []
    for row in table.rows:
        name, k = system_key(row.system)
        if row.runs and (name == "topk" and k or name == "dense"):
            found.append((k, row))
    found.sort(key=lambda pair: (pair[0] is None, pair[0]))
    return found if sum(k is not None for k, _ in found) > 1 else []


def _draw_sweep(axis: Any, table: Table) -> None:
    sweep = _sweep(table)
    places = range(len(sweep))
    means = [row.mean("bleu") for _, row in sweep]
    deviations = [row.measures["bleu"].deviation or 0 for _, row in sweep]
    axis.errorbar(places, means, yerr=deviations if any(deviations) else None, marker="o", capsize=3, color=_COLOURS[0])
    axis.set_xticks(list(places), [str(k) if k else "all" for k, _ in sweep])
    axis.set_xlim(-0.4, len(sweep) - 0.6)
    axis.set_xlabel("keys kept (k)")
    axis.set_ylabel(_bleu_label(table))
    axis.set_title(f"{table.dataset}, {table.subset}: BLEU by k", fontsize="medium")


def _draw_loss(axis: Any, table: Table) -> None:
    for index, row in enumerate(table.rows):
        label = row.system
        for curve in filter(None, map(_curve, row.runs)):
            axis.plot(*zip(*curve), label=label, linewidth=1.4, **_look(index))
            label = None  # once in the legend, however many seeds
    axis.set_xlabel("updates")
    axis.set_ylabel("validation loss")
    axis.legend(frameon=False, fontsize="small")
    axis.set_title(f"{table.dataset}: a line for each run", fontsize="medium")


def _draw_speed(axis: Any, table: Table) -> None:
    for index, row in enumerate(table.rows):
        if _speed(row):
            axis.errorbar(
                _speed(row),
                row.mean("bleu"),
                yerr=row.measures["bleu"].deviation,
                marker=_MARKERS[index % len(_MARKERS)],
                color=_look(index)["color"],
                linestyle="",
                capsize=3,
                label=row.system,
            )
    # From 0, so that a ratio of speeds is a ratio of distances.
    axis.set_xlim(0, 1.1 * max(_speed(row) or 0 for row in table.rows))
    axis.margins(y=0.15)
    axis.set_xlabel("decoding, tokens/s")
    axis.set_ylabel(_bleu_label(table))
    axis.legend(frameon=False, fontsize="small")
    axis.set_title(f"{table.dataset}, {table.subset}: BLEU against speed", fontsize="medium")


def _bleu_label(table: Table) -> str:
    seeds = any(row.measures["bleu"].deviation for row in table.rows if row.runs)
    return "BLEU, ± standard deviation over seeds" if seeds else "BLEU"


def _speed(row: Row) -> Optional[float]:
    return row.mean("decode_speed")


def _curve(run: Any) -> List[Tuple[int, float]]:
    """(update, validation loss) of one run."""
    points = run.get("train.curve") or []
    return [(p["update"], p["valid_loss"]) for p in points if p.get("valid_loss") is not None]


def _look(index: int) -> dict:
    """Colour and, once the colours are used up, another line style."""
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "linestyle": _STYLES[index // len(_COLOURS) % len(_STYLES)],
    }
