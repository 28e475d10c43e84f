"""manifest.json: what a prepared data set is and where it came from. Everything downstream reads this file."""

import json
import platform
from pathlib import Path
from typing import Any, Dict, Optional

from .datasets import Dataset

FORMAT = 1
NAME = "manifest.json"
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


def read(folder: Path) -> Optional[Dict[str, Any]]:
    """The manifest of a prepared folder, or None where there is none: then it is not complete."""
    path = folder / NAME
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


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
