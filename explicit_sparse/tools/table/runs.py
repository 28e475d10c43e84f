"""Reads and checks the run.json files that the pipelines leave: one run, one file."""

import gzip
import json
import lzma
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..command import ToolError

FORMAT = 1
RUN_FILE = "run.json"

_REQUIRED = {
    "dataset": str,
    "experiment": str,
    "system": str,
    "seed": int,
    "options": dict,
    "parameters": int,
    "train": dict,
    "test": dict,
}
_REQUIRED_OF_TEST = {
    "sentences": int,
    "hypotheses": str,
    "reference": str,
    "sha256_reference": str,
    "bleu.score": float,
    "bleu.signature": str,
}
_NUMBERS = ("train.tokens_per_second", "train.peak_memory_mb", "train.best_valid_loss")
_NUMBERS_OF_TEST = ("chrf.score", "tokenised_bleu.score", "decode_tokens_per_second")
_OPTIONAL = {"support": dict, "hardware": dict, "train.curve": list}
_PLAIN = {dict: "an object", list: "a list", str: "a text", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Run:
    """One trained and scored model: the checked content of ``path``."""

    path: Path
    data: Dict[str, Any]

    @property
    def dataset(self) -> str:
        return self.data["dataset"]

    @property
    def system(self) -> str:
        return self.data["system"]

    @property
    def seed(self) -> int:
        return self.data["seed"]

    def get(self, key: str) -> Any:
        """The value at a dotted key such as ``train.peak_memory_mb``; None where it is not there."""
        return look_up(self.data, key)

    def scores(self, subset: str) -> Dict[str, Any]:
        """What was measured on one test set, under its fairseq subset name (``test``, ``test1``)."""
        return self.data["test"][subset]

    def hypotheses(self, subset: str) -> List[str]:
        """The detokenised translations of one test set, in its order.

        Raises:
            ToolError: if the file is missing or holds another number of lines than the test set.
        """
        path = self.path.parent / self.scores(subset)["hypotheses"]
        lines = read_lines(path)
        if lines is None:
            raise ToolError(
                f"{path}: not found, though {self.path} names it: generate and score again, or add "
                "--paired none to do without a significance test"
            )
        expected = self.scores(subset)["sentences"]
        if len(lines) != expected:
            raise ToolError(
                f"{path}: {len(lines)} lines, but the test set {subset!r} has {expected} sentences "
                f"according to {self.path}: generate and score again"
            )
        return lines

    def has_hypotheses(self, subset: str) -> bool:
        return _existing(self.path.parent / self.scores(subset)["hypotheses"]) is not None


def look_up(data: Any, key: str) -> Any:
    """``look_up(data, "a.b")`` is ``data["a"]["b"]``, or None where a step is missing."""
    for part in key.split("."):
        if not isinstance(data, dict):
            return None
        data = data.get(part)
    return data


def find_runs(results: Sequence[str], skip_unfinished: bool = False) -> Tuple[List[Run], List[str]]:
    """Read every run named: files, and folders searched for run.json files.

    Args:
        results: paths. Folders are searched in natural order (topk8 before topk16).
        skip_unfinished: leave out folders ``seedN`` without run.json and say so, instead of raising.

    Returns:
        The runs in the order given, each once, and notes for the reader of the table.

    Raises:
        ToolError: for a path without runs, an unfinished run, or a file that is not a run.
    """
    files: Dict[Path, None] = {}  # an ordered set
    notes = []
    for result in map(Path, results):
        if result.is_file():
            files[result.resolve()] = None
            continue
        if not result.is_dir():
            raise ToolError(f"{result}: no such file or folder")
        for folder in _unfinished(result):
            if not skip_unfinished:
                raise ToolError(
                    f"{folder}: holds no {RUN_FILE}, so this run is not finished: finish it, "
                    "or leave it out with --skip-unfinished"
                )
            notes.append(f"left out, not finished: {folder}")
        found = sorted(result.rglob(RUN_FILE), key=_natural)
        if not found and not notes:
            raise ToolError(f"{result}: no {RUN_FILE} in this folder or below it")
        files.update((path.resolve(), None) for path in found)
    if not files:
        raise ToolError("no finished run in " + ", ".join(map(str, results)))
    return [read_run(path) for path in files], notes


def read_run(path: Path) -> Run:
    """Read one run.json and check that everything a table needs is there.

    Raises:
        ToolError: naming the file and the field.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ToolError(f"{path}: not valid JSON ({error}): truncated? Record the run again") from error
    if not isinstance(data, dict) or "format" not in data:
        raise ToolError(f"{path}: not a run: it has no field 'format'")
    if data["format"] != FORMAT:
        raise ToolError(
            f"{path}: format {data['format']!r}, but this version reads format {FORMAT}: "
            "use the version that recorded the run, or record it again"
        )
    _check(path, data, _REQUIRED, _NUMBERS)
    _check_optional(path, data)
    if not data["test"]:
        raise ToolError(f"{path}: no test set was scored: run the scoring step")
    for subset, scores in data["test"].items():
        _check(path, scores, _REQUIRED_OF_TEST, _NUMBERS_OF_TEST, f"test.{subset}.")
        interval = look_up(scores, "bleu.ci")  # its half-width, or its two ends
        ends = interval if isinstance(interval, list) and len(interval) == 2 else [interval]
        if interval is not None and not all(_is(end, float) for end in ends):
            raise ToolError(f"{path}: 'test.{subset}.bleu.ci' is {interval!r}, not a number")
    return Run(path, data)


def read_lines(path: Path) -> Optional[List[str]]:
    """The lines of a text file or of its compressed copy (.gz, .xz); None where neither is there.

    Lines end at newlines only and lose white space at their end, exactly as sacrebleu's command line reads them.
    """
    found = _existing(path)
    if found is None:
        return None
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(found.suffix, open)
    try:
        with opener(str(found), "rt", encoding="utf-8", newline="\n") as lines:
            return [line.rstrip() for line in lines]
    except (EOFError, OSError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise ToolError(f"{found}: cannot be read ({error}): truncated?") from error


def _existing(path: Path) -> Optional[Path]:
    copies = [path] + [path.with_name(path.name + ending) for ending in (".gz", ".xz")]
    return next((copy for copy in copies if copy.is_file()), None)


def _unfinished(folder: Path) -> List[Path]:
    seeds = [folder] + [path for path in folder.rglob("seed*") if path.is_dir()]
    return sorted(
        (path for path in seeds if re.fullmatch(r"seed\d+", path.name) and not (path / RUN_FILE).exists()),
        key=_natural,
    )


def _natural(path: Path) -> List[Any]:
    """A sort key in which numbers count as numbers."""
    return [[int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)] for name in path.parts]


def _check(path: Path, data: Any, required: Dict[str, type], numbers: Sequence[str], prefix: str = "") -> None:
    for key, kind in required.items():
        value = look_up(data, key)
        if value is None:
            raise ToolError(f"{path}: the field {prefix + key!r} is missing: truncated? Record the run again")
        if not _is(value, kind):
            raise ToolError(f"{path}: {prefix + key!r} is {value!r}, not {_PLAIN[kind]}")
        if kind is str and not value.isprintable():
            raise ToolError(f"{path}: {prefix + key!r} is {value!r}: a line break or control character in a name")
    for key in numbers:
        value = look_up(data, key)
        if value is not None and not _is(value, float):
            raise ToolError(f"{path}: {prefix + key!r} is {value!r}, not a number")


def _check_optional(path: Path, data: Dict[str, Any]) -> None:
    """What need not be there, but is read where it is."""
    for key, kind in _OPTIONAL.items():
        value = look_up(data, key)
        if value is not None and not _is(value, kind):
            raise ToolError(f"{path}: {key!r} is {str(value)[:60]!r}, not {_PLAIN[kind]}")
    _check(path, data, {}, [f"support.{site}.support" for site in data.get("support") or {}])
    for number, point in enumerate(look_up(data, "train.curve") or []):
        _check(path, point, {"update": int}, ["train_loss", "valid_loss", "valid_bleu"], f"train.curve[{number}].")


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and not isinstance(value, bool)
