"""Published figures, each with the mark of how far it was checked, and which system of ours they stand beside."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from ..command import ToolError

PUBLISHED_FILE = Path(__file__).resolve().parents[3] / "data" / "published.csv"

# Names that papers use for the same thing, in the spelling of _plain().
_SAME = {
    "softmax": "dense",
    "fullattention": "dense",
    "full": "dense",
    "transformer": "dense",
    "transformertheirimplementation": "dense",
    "explicitsparsetransformer": "topk",
    "topkoutofwindow": "outofwindow",
    "entmax15": "15entmax",
    "entmax": "alphaentmax",
}

SystemKey = Tuple[str, Optional[int]]


@dataclass(frozen=True)
class Figure:
    """One row of the file."""

    paper: str
    table: str
    dataset: str
    direction: str
    system: str
    attended: str
    metric: str
    value: str
    checked: str

    @property
    def key(self) -> SystemKey:
        return _plain_system(self.system), int(self.attended) if self.attended.isdigit() else None

    @property
    def label(self) -> str:
        """The system as the paper calls it, with its k."""
        return f"{self.system} {self.attended}" if self.attended.isdigit() else self.system

    @property
    def column(self) -> str:
        """The heading under which the figure may stand: one paper, one data set, one metric."""
        return f"{self.paper} {self.dataset} {self.direction} {self.metric}"

    @property
    def is_speed(self) -> bool:
        return "speed" in self.metric


def system_key(label: str) -> SystemKey:
    """What a label of ours stands for: ``top-k 8`` is ("topk", 8), ``softmax`` is ("dense", None)."""
    name, k = re.fullmatch(r"(.*?)(?:\s+(\d+))?", label.strip()).groups()
    return _plain_system(name), int(k) if k else None


def read_figures(path: Path = PUBLISHED_FILE) -> List[Figure]:
    """Read the file of published figures.

    Raises:
        ToolError: if it is not there or lacks a column.
    """
    try:
        with open(str(path), encoding="utf-8", newline="") as lines:
            return [Figure(**row) for row in csv.DictReader(lines)]
    except OSError as error:
        raise ToolError(f"{path}: published figures cannot be read ({error.strerror})") from error
    except TypeError as error:
        columns = ",".join(Figure.__dataclass_fields__)
        raise ToolError(f"{path}: not a file of published figures; its columns must be {columns}") from error


def select(figures: Sequence[Figure], names: Sequence[str]) -> List[Figure]:
    """The figures that the names ask for.

    Args:
        figures: the whole file.
        names: each ``PAPER``, ``PAPER/TABLE``, ``PAPER/TABLE/DATASET``, ``PAPER/TABLE/DATASET/DIRECTION``, or a
            data set as the configurations call it (``iwslt14.de-en``). Case does not matter.

    Raises:
        ToolError: for a name that selects nothing; lists what there is.
    """
    chosen: Dict[Figure, None] = {}
    for name in names:
        parts = name.lower().split("/")
        found = [
            figure
            for figure in figures
            if parts == [field.lower() for field in _place(figure)[: len(parts)]]
            or _plain(name) == _plain(figure.dataset + figure.direction)
        ]
        if not found:
            there = sorted({"/".join(_place(figure)) for figure in figures})
            raise ToolError(
                f"--published {name}: no such figures; choose from {', '.join(there)}, or the start of one of these"
            )
        chosen.update((figure, None) for figure in found)
    return list(chosen)


def for_dataset(figures: Sequence[Figure], dataset: str) -> Tuple[List[Figure], bool]:
    """Of the chosen figures those of this data set, or all if there are none; and whether they are of it."""
    same = [figure for figure in figures if _plain(figure.dataset + figure.direction) == _plain(dataset)]
    return (same, True) if same else (list(figures), False)


def _place(figure: Figure) -> List[str]:
    return [figure.paper, figure.table, figure.dataset, figure.direction]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _plain_system(text: str) -> str:
    return _SAME.get(_plain(text), _plain(text))
