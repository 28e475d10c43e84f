"""Lays tables out as grids of short texts: scores of one test set, and the cost of the systems."""

import itertools
import textwrap
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence

from .by_length import NAME as BLEU_OF
from .published import Figure
from .summary import SIGNIFICANT, Measure, Row, Table

_NONE = "-"
_SHORT_SITES = {"encoder-self": "enc-self", "decoder-self": "dec-self"}


@dataclass
class Grid:
    """A table ready to print: cells are texts; headings may have several lines."""

    title: str
    headings: List[str]
    cells: List[List[str]]
    notes: List[str]


def make_grids(tables: Sequence[Table]) -> List[Grid]:
    """Two grids a data set: scores (one for each test set), then cost."""
    grids = []
    for _, group in itertools.groupby(tables, key=lambda table: table.dataset):
        of_dataset = list(group)
        for table in of_dataset:
            grids += [_score_grid(table), _length_grid(table)]
        grids.append(_cost_grid(of_dataset[0]))  # training costs the same whatever the test set
    return [grid for grid in grids if len(grid.headings) > 1]


@dataclass
class _Column:
    heading: str
    cell: Callable[[Row], str]


def _fill(title: str, columns: Sequence[_Column], rows: Sequence[Row], notes: List[str]) -> Grid:
    """A grid without the columns that hold nothing."""
    filled = [[column.cell(row) for column in columns] for row in rows]
    kept = [i for i in range(len(columns)) if i == 0 or any(cells[i] != _NONE for cells in filled)]
    return Grid(title, [columns[i].heading for i in kept], [[cells[i] for i in kept] for cells in filled], notes)


def _length_grid(table: Table) -> Grid:
    """BLEU by length of the source, where it was asked for."""
    names = list(dict.fromkeys(name for row in table.rows for name in row.measures if name.startswith(BLEU_OF)))
    columns = [_Column("system", lambda row: row.system)]
    columns += [
        _Column(name[len(BLEU_OF) :], lambda row, name=name: _mean(row.measures.get(name))) for name in names
    ]
    rows = [row for row in table.rows if row.runs]
    return _fill(f"{table.dataset}: BLEU by tokens of the source, {table.test_name}", columns, rows, [])


def _score_grid(table: Table) -> Grid:
    marks = _marks(table)
    columns = [
        _Column("system", lambda row: row.system),
        _Column("seeds", lambda row: str(len(row.runs)) if row.runs else _NONE),
        _Column("BLEU", lambda row: _mean(row.measures.get("bleu"))),
        _Column("95% CI", lambda row: _NONE if row.interval is None else f"± {row.interval:.2f}"),
        _Column("p", lambda row: _p_values(row, table)),
        _Column("chrF", lambda row: _mean(row.measures.get("chrf"))),
        _Column("tokenised\nBLEU", lambda row: _mean(row.measures.get("tokenised_bleu"))),
    ]
    columns += _published_columns(table, marks, speed=False)

    notes = [f"{name}: {signature}" for name, signature in table.signatures.items() if name != "p"]
    if any(row.interval is not None for row in table.rows):
        several = any(len(row.runs) > 1 for row in table.rows)
        notes.append("95% CI: bootstrap over test sentences" + (", mean half-width over seeds" if several else ""))
    if any(len(row.runs) > 1 for row in table.rows):
        notes.append("scores: mean ± standard deviation over seeds")
    notes += table.notes
    if "p" in table.signatures:
        notes.append("test signature: " + table.signatures["p"])
    notes += _mark_notes(table, marks, speed=False)
    title = f"{table.dataset}: {table.test_name}, {table.sentences} sentences"
    return _fill(title, columns, table.rows, notes)


def _cost_grid(table: Table) -> Grid:
    marks = _marks(table)
    columns = [
        _Column("system", lambda row: row.system),
        _Column("train\ntok/s", lambda row: _number(row.mean("train_speed"))),
        _Column("train\nratio", lambda row: _ratio(row, "train_speed")),
        _Column("decode\ntok/s", lambda row: _number(row.mean("decode_speed"))),
        _Column("decode\nratio", lambda row: _ratio(row, "decode_speed")),
        _Column("memory\nMB", lambda row: _number(row.mean("memory"))),
        _Column("para-\nmeters", lambda row: _count(row.parameters)),
    ]
    for site in table.sites:
        heading = "support\n" + _SHORT_SITES.get(site, site)
        columns.append(_Column(heading, lambda row, site=site: _number(row.mean("support " + site), 1)))
    columns += _published_columns(table, marks, speed=True)
    rows = [row for row in table.rows if row.runs or any(figure.is_speed for figure in _figures(row))]
    notes = []
    if any(row.ratios for row in rows):
        notes.append(f"ratio: speed relative to {table.baseline} on the same hardware")
    if table.has("decode_speed"):
        notes.append(f"decode: on {table.test_name}")
    if table.has("memory"):
        notes.append("memory: peak in training")
    if table.sites:
        notes.append("support: mean number of keys with weight > 0 for a query")
    notes += _mark_notes(table, marks, speed=True)
    return _fill(f"{table.dataset}: cost", columns, rows, notes)


def _published_columns(table: Table, marks: Dict[str, str], speed: bool) -> List[_Column]:
    def cell(row: Row, column: str) -> str:
        figures = row.published.get(column, [])
        return ", ".join(f"{figure.value} {marks[figure.checked]}" for figure in figures) or _NONE

    chosen = [
        column
        for column in table.published_columns
        if any(figure.is_speed == speed for row in table.rows for figure in row.published.get(column, ()))
    ]
    return [_Column(_broken(column), lambda row, column=column: cell(row, column)) for column in chosen]


def _broken(heading: str) -> str:
    """A long heading as narrow lines."""
    return "\n".join(textwrap.wrap(heading, 11, break_long_words=False, break_on_hyphens=False))


def _figures(row: Row) -> List[Figure]:
    return [figure for figures in row.published.values() for figure in figures]


def _marks(table: Table) -> Dict[str, str]:
    """A letter for each way in which published figures were checked."""
    checked = dict.fromkeys(figure.checked for row in table.rows for figure in _figures(row))
    return {text: f"({chr(ord('a') + index)})" for index, text in enumerate(checked)}


def _mark_notes(table: Table, marks: Dict[str, str], speed: bool) -> List[str]:
    used = {figure.checked for row in table.rows for figure in _figures(row) if figure.is_speed == speed}
    return [f"{mark} published figure: {text}" for text, mark in marks.items() if text in used]


def _mean(measure: Optional[Measure]) -> str:
    if measure is None:
        return _NONE
    if measure.deviation is None:
        return f"{measure.mean:.2f}"
    return f"{measure.mean:.2f} ± {measure.deviation:.2f}"


def _number(value: Optional[float], digits: int = 0) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _ratio(row: Row, name: str) -> str:
    return f"{row.ratios[name]:.2f}x" if name in row.ratios else _NONE


def _count(value: Optional[int]) -> str:
    return _NONE if value is None else f"{value / 1e6:.2f}M"


def _p_values(row: Row, table: Table) -> str:
    if row.runs and row.system == table.baseline and "p" in table.signatures:
        return "baseline"
    values = sorted(row.p_values.values())
    if not values:
        return _NONE
    if len(values) == 1:
        return _p(values[0])
    significant = sum(value < SIGNIFICANT for value in values)
    return f"{_p(values[0])}-{_p(values[-1])} ({significant}/{len(values)})"


def _p(value: float) -> str:
    """Without the zero before the point, to keep the column narrow."""
    return "<.001" if value < 0.0005 else f"{value:.3f}".lstrip("0")
