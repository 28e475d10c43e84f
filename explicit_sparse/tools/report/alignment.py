"""Word alignment from cross-attention, and its error rate against a gold alignment in Pharaoh format."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import FrozenSet, List, Sequence, Tuple

import torch
from torch import Tensor

from ..command import ToolError
from .statistics import join_words

Links = FrozenSet[Tuple[int, int]]

_LINK = re.compile(r"^(\d+)([-?p])(\d+)$")


@dataclass(frozen=True)
class GoldLinks:
    """The annotated links of one sentence pair, as (source word, target word) counted from 0.

    Attributes:
        sure: links that an aligner must find.
        possible: links that it may find; the sure ones are among them.
    """

    sure: Links
    possible: Links


def read_gold(path: Path) -> List[GoldLinks]:
    """Read a gold alignment: a line for each sentence pair, links between spaces.

    ``3-4`` is a sure link from source word 3 to target word 4, counted from 0; ``3?4`` or ``3p4`` a possible one.

    Raises:
        ToolError: for a file that cannot be read, or what is not a link.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{path}: the gold alignment cannot be read ({error})") from error
    gold = []
    for number, line in enumerate(lines, 1):
        sure, possible = set(), set()
        for word in line.split():
            match = _LINK.match(word)
            if not match:
                raise ToolError(
                    f"{path}, line {number}: {word!r} is no link; Pharaoh format has 3-4 for a sure link from source "
                    "word 3 to target word 4, 3?4 or 3p4 for a possible one"
                )
            link = (int(match.group(1)), int(match.group(3)))
            possible.add(link)
            if match.group(2) == "-":
                sure.add(link)
        gold.append(GoldLinks(frozenset(sure), frozenset(possible)))
    return gold


def write_pharaoh(alignments: Sequence[Links]) -> str:
    """A line for each sentence pair: ``0-0 1-2 …``, source word and target word counted from 0."""
    return "".join(" ".join(f"{s}-{t}" for s, t in sorted(links)) + "\n" for links in alignments)


def align(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int], shifted: bool) -> Tensor:
    """The source word that each target word attends to most.

    Subwords are joined first (:func:`join_words`); the end-of-sentence symbol is no word, on neither side.
    *Ordinary*: target token t is aligned by the query that predicts it. *Shifted*: by the next query, which reads it.

    Args:
        weights: (..., T, S), cross-attention of one sentence pair, both with the end-of-sentence symbol last. Query t
            predicts token t, and its input is token t - 1.
        source_words, target_words: the number of each subword's word; S - 1 and T - 1 of them.
        shifted: which query aligns a target token.

    Returns:
        (..., target words): source words counted from 0; -1 where a target word gives no source word any weight.

    Source: arXiv 2004.14837 (Chen et al. 2020): SHIFT-ATT, and the ordinary way as its NAIVE-ATT.
    """
    if not len(source_words) or not len(target_words):
        return weights.new_empty(weights.shape[:-2] + (0,), dtype=torch.long)
    queries = weights[..., 1:, :-1] if shifted else weights[..., :-1, :-1]
    between_words = join_words(queries, target_words, source_words)  # (..., target words, source words)
    best = between_words.max(-1)
    return best.indices.masked_fill(best.values <= 0, -1)


def as_links(sources: Tensor) -> Links:
    """(target words,) of :func:`align` as a set of (source word, target word)."""
    return frozenset((source, target) for target, source in enumerate(sources.tolist()) if source >= 0)


@dataclass
class ErrorRate:
    """Alignment error rate, added up over sentence pairs.

    AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)

    with A the links found, S the sure and P the possible links (S among P). Source: Och and Ney 2003, section 5.
    """

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    def add(self, links: Links, gold: GoldLinks) -> None:
        """Count one sentence pair."""
        self.found += len(links)
        self.sure += len(gold.sure)
        self.found_sure += len(links & gold.sure)
        self.found_possible += len(links & gold.possible)

    @property
    def value(self) -> float:
        """The error rate; 0 where there is nothing to find and nothing was found."""
        both = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / both if both else 0.0
