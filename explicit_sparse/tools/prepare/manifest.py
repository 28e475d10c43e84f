"""manifest.json: what a prepared data set is and where it came from. Everything downstream reads this file."""

import json
import platform
from pathlib import Path
from typing import Any, Dict, Optional

from ..command import ToolError
from ..files import read_json
from .datasets import Dataset

FORMAT = 1
NAME = "manifest.json"
WRITTEN = {NAME, "bin", "ref", "tok", "codes", "spm.model", "spm.vocab"}  # all that a prepared folder holds
COUNT_TOLERANCE = 0.01  # another tokeniser moves a few pairs across the length limits


def versions(moses: Optional[Path]) -> Dict[str, str]:
    """The tools whose versions can change the result."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("subword-nmt", "sentencepiece", *(() if moses else ("sacremoses",))):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    # fairseq has several distributions, and importing it is slow.
    for distribution in ("ve-fairseq", "fairseq-fixed", "fairseq"):
        try:
            found["fairseq"] = f"{distribution} {version(distribution)}"
            break
        except PackageNotFoundError:
            continue
    if moses:
        from .fetch import sha256
        from .text import moses_script

        found["moses tokenizer.perl"] = sha256(moses_script(moses, "tokenizer.perl"))
    return found


def of_ours(folder: Path, dataset: str, replace: bool) -> Optional[Dict[str, Any]]:
    """The manifest of a folder that was prepared for this data set; None where there is no folder, or an empty one.

    Args:
        replace: whether the folder is to be made anew, and the old one with all that is in it removed.

    Raises:
        ToolError: for another folder; with ``replace`` also for one that somebody has put something into.
    """
    if folder.is_file():
        raise ToolError(f"{folder} is a file: choose another --out")
    if not folder.exists() or not any(folder.iterdir()):
        return None
    away = "move it away, or choose another --out"
    if not (folder / NAME).is_file():
        raise ToolError(f"{folder} has files in it but no {NAME}: {away}")
    content = read_json(folder / NAME)
    fields = {"format": int, "dataset": str, "subsets": dict, "options": dict}
    if not isinstance(content, dict) or not all(isinstance(content.get(name), type_) for name, type_ in fields.items()):
        raise ToolError(f"{folder / NAME} is not the manifest of prepared data: {away}")
    if content["dataset"] != dataset:
        raise ToolError(f"{folder} holds the data set {content['dataset']}, not {dataset}: {away}")
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in WRITTEN)
    if foreign and replace:
        raise ToolError(f"{folder} holds {', '.join(foreign[:3])}, which preparing {dataset} did not write: {away}")
    return content


def write(folder: Path, content: Dict[str, Any]) -> None:
    (folder / NAME).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def unexpected_counts(dataset: Dataset, counts: Dict[str, int], tokenizer: str) -> Dict[str, str]:
    """Subsets whose size is not the published one, each with what to expect.

    The size of a cleaned training set depends on the tokeniser: with another one than the published
    figure's, one per cent either way passes.
    """
    exact = dataset.count_tokenizer in ("", tokenizer)
    wrong = {}
    for subset, expected in dataset.counts.items():
        depends_on_tokens = subset == "train" or (subset == "valid" and dataset.valid is None)
        slack = 0 if exact or not depends_on_tokens else COUNT_TOLERANCE * expected
        if abs(counts[subset] - expected) > slack:
            wrong[subset] = f"{counts[subset]:,} pairs instead of {expected:,}"
    return wrong
