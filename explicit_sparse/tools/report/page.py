"""Puts a report's numbers and pictures on one page that needs nothing else, and sums it up for a terminal."""

import base64
from pathlib import Path
from typing import Any, Dict, List

from ..command import ToolError
from . import figures
from .statistics import COMPARISON, KINDS, ROLES, TAIL_K

_TEMPLATE = Path(__file__).with_name("report.html.jinja")


def require_libraries() -> None:
    """Raise ToolError with what to install where matplotlib or jinja2 is missing."""
    for name in ("matplotlib", "jinja2"):
        try:
            __import__(name)
        except ImportError as error:
            raise ToolError(f"a report needs {name}: pip install matplotlib jinja2") from error


def render(report: Dict[str, Any], folder: Path) -> str:
    """Draw the figures into ``folder``/figures and return the page, with the pictures in it.

    Adds the figures, and notes on characters that cannot be drawn, to the report.
    """
    import jinja2

    drawn, notes = figures.draw_all(report, folder / "figures")
    report["notes"].extend(notes)
    report["figures"] = [dict(figure._asdict(), file=f"figures/{figure.file}.png") for figure in drawn]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(_TEMPLATE.parent)), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["percent"] = lambda share: "–" if share is None else f"{share:.1%}"
    environment.filters["number"] = lambda value, digits=2: "–" if value is None else f"{value:.{digits}f}"
    return environment.get_template(_TEMPLATE.name).render(
        report=report,
        sites=list(dict.fromkeys(site for system in report["systems"] for site in system["sites"])),
        figures=[dict(figure._asdict(), data=_embedded(folder / "figures" / f"{figure.file}.png")) for figure in drawn],
        kinds=KINDS,
        roles=ROLES,
        comparison=COMPARISON,
        tail_k=TAIL_K,
    )


def _embedded(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def summary(report: Dict[str, Any]) -> str:
    """The report's main numbers as text for a terminal."""
    data = report["data"]
    lines = [
        f"{data['sentences']} sentences of {data['from']} ({'-'.join(data['languages'])}); "
        f"the decoder read {data['target']}",
        "",
    ]
    header = ("system", "site", "support", "density", "entropy", "on </s>", "empty", f"beyond {TAIL_K}", "diversity")
    rows: List[tuple] = [header]
    for system in report["systems"]:
        for site, values in system["sites"].items():
            mean = values["mean"]
            rows.append((
                system["name"], site, f"{mean['support']:.1f} of {mean['allowed']:.1f}", f"{mean['density']:.3f}",
                f"{mean['entropy']:.2f}", _percent(mean["kinds"]["end of sentence"]), _percent(mean["empty"]),
                _percent(mean["tail"]), "–" if values["diversity"] is None else f"{values['diversity']:.2f}",
            ))  # fmt: skip
    lines.extend(_columns(rows))
    for pair in report["comparisons"]:
        lines.extend(["", f"A = {pair['A']}, B = {pair['B']}"])
        sites = list(pair["sites"])
        rows = [("", *sites)]
        for measure, meaning in COMPARISON.items():
            rows.append((meaning, *(_percent(pair["sites"][site]["mean"][measure]["all"]) for site in sites)))
        lines.extend(_columns(rows))
    for entry in report["alignment"]:
        if "aer" in entry:
            kind = "shifted" if entry["shifted"] else "ordinary"
            lines.append(
                f"{entry['system']}: alignment error rate {entry['aer']:.3f}, "
                f"layer {entry['layer']}, head {entry['head']}, {kind}"
            )
    lines.extend(f"note: {note}" for note in report["notes"])
    return "\n".join(lines) + "\n"


def _percent(share: Any) -> str:
    return "–" if share is None else f"{share:.1%}"


def _columns(rows: List[tuple]) -> List[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    numbers_from = 2 if len(rows[0]) > 5 else 1  # the columns before it hold text
    return [
        "  ".join(
            cell.ljust(w) if i < numbers_from else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
