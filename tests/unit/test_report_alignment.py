"""Word alignment from attention weights, and its error rate, against cases worked out by hand."""

import pytest
import torch

from explicit_sparse.tools.command import ToolError
from explicit_sparse.tools.report.alignment import ErrorRate, GoldLinks, align, as_links, read_gold, write_pharaoh


def test_ordinary_and_shifted_alignment():
    # two source words and </s>; two target words and </s>: query t predicts token t and reads token t - 1
    weights = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1], [0.1, 0.2, 0.7]])
    assert align(weights, [0, 1], [0, 1], shifted=False).tolist() == [0, 0]
    assert align(weights, [0, 1], [0, 1], shifted=True).tolist() == [0, 1]  # of the last query </s> does not count


def test_alignment_joins_subwords_first():
    """Neither subword of source word 1 has the largest weight; together they have."""
    weights = torch.tensor([[0.4, 0.3, 0.3, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert align(weights, [0, 1, 1], [0], shifted=False).tolist() == [1]
    assert align(weights, [0, 1, 2], [0], shifted=False).tolist() == [0]


def test_a_word_that_attends_to_no_word_stays_unaligned():
    sources = align(torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.2, 0.0], [1.0, 0.0, 0.0]]), [0, 1], [0, 1], shifted=False)
    assert sources.tolist() == [-1, 1]
    assert as_links(sources) == {(1, 1)}
    assert align(torch.ones(2, 1), [], [0], shifted=False).numel() == 0


def test_error_rate():
    # A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P = S and {1-1}: |A n S| = 1, |A n P| = 2
    rate = ErrorRate()
    rate.add(
        frozenset({(0, 0), (1, 1), (2, 2)}), GoldLinks(frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (1, 1)}))
    )
    assert rate.value == pytest.approx(1 - (1 + 2) / (3 + 2))
    # a second sentence, all found: counts add up, rates are not averaged
    rate.add(frozenset({(0, 0)}), GoldLinks(frozenset({(0, 0)}), frozenset({(0, 0)})))
    assert rate.value == pytest.approx(1 - (2 + 3) / (4 + 3))


def test_pharaoh_format(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0 1?2 3p1\n\n", encoding="utf-8")
    first, second = read_gold(path)
    assert first.sure == {(0, 0)} and first.possible == {(0, 0), (1, 2), (3, 1)}
    assert second.sure == second.possible == frozenset()
    assert write_pharaoh([frozenset({(2, 0), (0, 1)}), frozenset()]) == "0-1 2-0\n\n"


def test_what_is_no_link_is_named(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0\n1:1\n", encoding="utf-8")
    with pytest.raises(ToolError, match=r"gold, line 2: '1:1' is no link"):
        read_gold(path)
    with pytest.raises(ToolError, match="cannot be read"):
        read_gold(tmp_path / "none")
