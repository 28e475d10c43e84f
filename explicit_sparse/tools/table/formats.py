"""Renders tables as text, Markdown, LaTeX, CSV or JSON. The numbers are all there already; this only writes them."""

import csv
import io
import json
import textwrap
from typing import Any, Callable, Dict, Sequence

from .grids import Grid, make_grids
from .summary import MEASURES, SPEEDS, Row, Table

WIDTH = 100  # of a terminal
FORMAT = 1

def as_text(tables: Sequence[Table]) -> str:
    """Plain text for a terminal."""
    return "\n\n".join(_text_grid(grid) for grid in make_grids(tables)) + "\n"


def as_markdown(tables: Sequence[Table]) -> str:
    """Markdown with pipe tables."""
    return "\n\n".join(_markdown_grid(grid) for grid in make_grids(tables)) + "\n"


def as_latex(tables: Sequence[Table]) -> str:
    """LaTeX tables; they need the package booktabs."""
    return "\n\n".join(_latex_grid(grid) for grid in make_grids(tables)) + "\n"


def as_csv(tables: Sequence[Table]) -> str:
    """One line for each system and test set, unrounded; the same columns whatever was measured."""
    lines = [_flat(table, row) for table in tables for row in table.rows]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def as_json(tables: Sequence[Table]) -> str:
    """Everything the tables hold, unrounded."""
    content = {"format": FORMAT, "tables": [_table_content(table) for table in tables]}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


FORMATS: Dict[str, Callable[[Sequence[Table]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
    "latex": as_latex,
}


def _text_grid(grid: Grid) -> str:
    headings = [heading.split("\n") for heading in grid.headings]
    height = max(map(len, headings))
    columns = [[""] * (height - len(lines)) + lines for lines in headings]  # headings stand on the rule
    head = list(map(list, zip(*columns)))
    widths = [max(len(row[i]) for row in head + grid.cells) for i in range(len(headings))]

    def line(cells: Sequence[str]) -> str:
        aligned = [cells[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])]
        return "  ".join(aligned).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    notes = map(wrapper.fill, grid.notes)
    return "\n".join([grid.title, rule, *map(line, head), rule, *map(line, grid.cells), rule, *notes])


def _markdown_grid(grid: Grid) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join([" --- "] + [" ---: "] * (len(grid.headings) - 1)) + "|"
    notes = ["- " + note.replace("|", "\\|") for note in grid.notes]
    body = [line(map(_one_line, grid.headings)), rule, *map(line, grid.cells)]
    return "\n".join([f"**{grid.title}**", "", *body, "", *notes]).rstrip()


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"\textbar{}",
    **{char: "\\" + char for char in "&%$#_{}"},
}


def _latex_grid(grid: Grid) -> str:
    def escape(text: str) -> str:
        return "".join(_LATEX.get(char, char) for char in text)

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(escape, cells)) + r" \\"

    body = [r"\toprule", line(map(_one_line, grid.headings)), r"\midrule", *map(line, grid.cells), r"\bottomrule"]
    columns = "l" + "r" * (len(grid.headings) - 1)
    notes = " \\\\\n".join(map(escape, grid.notes))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape(grid.title)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            *body,
            r"\end{tabular}",
            *([r"\par\footnotesize\raggedright", notes] if notes else []),
            r"\end{table}",
        ]
    )


def _one_line(heading: str) -> str:
    return heading.replace("-\n", "").replace("\n", " ")


def _flat(table: Table, row: Row) -> Dict[str, Any]:
    line = {
        "dataset": table.dataset,
        "subset": table.subset,
        "test_set": table.test_name,
        "sentences": table.sentences,
        "system": row.system,
        "baseline": table.baseline or "",
        "seeds": " ".join(map(str, row.seeds)),
    }
    for name in MEASURES:
        measure = row.measures.get(name)
        line[name] = measure.mean if measure else ""
        line[name + "_sd"] = measure.deviation if measure and measure.deviation is not None else ""
        if name == "bleu":
            line["bleu_ci95"] = "" if row.interval is None else row.interval
            line["p"] = " ".join(f"{seed}:{p:.6g}" for seed, p in row.p_values.items())
        if name in SPEEDS:
            line[name + "_ratio"] = row.ratios.get(name, "")
    line["parameters"] = row.parameters or ""
    for site in table.sites:
        mean = row.mean("support " + site)
        line["support_" + site] = "" if mean is None else mean
    for name, signature in table.signatures.items():
        line["signature " + name] = signature
    for column in table.published_columns:
        figures = row.published.get(column, [])
        line["published " + column] = "; ".join(figure.value for figure in figures)
        line["checked " + column] = "; ".join(figure.checked for figure in figures)
    return line


def _table_content(table: Table) -> Dict[str, Any]:
    return {
        "dataset": table.dataset,
        "subset": table.subset,
        "test_set": table.test_name,
        "sentences": table.sentences,
        "baseline": table.baseline,
        "signatures": table.signatures,
        "systems": [_row_content(table, row) for row in table.rows],
        "notes": table.notes,
    }


def _row_content(table: Table, row: Row) -> Dict[str, Any]:
    measures = {
        name: {"mean": measure.mean, "sd": measure.deviation, "values": measure.values}
        for name, measure in row.measures.items()
        if not name.startswith("support ")
    }
    return {
        "system": row.system,
        "seeds": row.seeds,
        **measures,
        "bleu_ci95": row.interval,
        "p": {str(seed): p for seed, p in row.p_values.items()},
        "ratios": row.ratios,
        "parameters": row.parameters,
        "support": {site: row.mean("support " + site) for site in table.sites if row.runs},
        "published": [
            {"column": column, "value": figure.value, "checked": figure.checked}
            for column, figures in row.published.items()
            for figure in figures
        ],
    }
