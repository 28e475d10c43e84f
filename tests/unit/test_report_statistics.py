"""Statistics of attention weights against cases worked out by hand."""

import math

import pytest
import torch

from explicit_sparse.tools.report import statistics as stats

LOG2 = math.log(2)


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_support_and_density_count_weights_above_zero():
    weights = rows([0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1e-30, 1.0, 0.0, 0.0])
    allowed = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0]]).bool()
    assert stats.support(weights).tolist() == [2, 1, 2]
    assert stats.density(weights, allowed).tolist() == pytest.approx([0.5, 1.0, 2 / 3])


def test_density_of_a_row_without_allowed_keys_is_zero():
    assert stats.density(rows([0.0, 0.0]), torch.zeros(1, 2).bool()).tolist() == [0.0]


def test_entropy_is_of_the_row_scaled_to_one():
    weights = rows(
        [1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.25, 0.25, 0.0], [6.0, 3.0, 3.0, 0.0], [0, 0, 0, 0]
    )
    assert stats.entropy(weights).tolist() == pytest.approx([0, 2 * LOG2, 1.5 * LOG2, 1.5 * LOG2, 0])


def test_empty_rows():
    weights = rows([0.0, 0.0], [0.0, 0.1])
    assert stats.is_empty(weights).tolist() == [True, False]
    assert stats.normalised(weights).tolist() == [[0, 0], [0, 1]]


def test_tail_is_what_top_k_drops():
    weights = rows([0.4, 0.1, 0.3, 0.2])
    assert stats.tail(weights, 2).item() == pytest.approx(0.3)
    assert stats.tail(weights, 4).item() == stats.tail(weights, 9).item() == 0


@pytest.mark.parametrize(
    "heads, divergence",
    [
        ([[1, 0, 0], [0, 1, 0]], LOG2),  # nothing in common
        ([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]], 0),  # the same
        ([[0.5, 0.5, 0], [0, 0.5, 0.5]], LOG2 / 2),  # H(1/4, 1/2, 1/4) - log 2 = 3/2 log 2 - log 2
        ([[3, 0, 0], [0, 0.5, 0]], LOG2),  # ReLA: only the shares count
    ],
)
def test_divergence_between_two_heads(heads, divergence):
    value, several = stats.head_divergence(rows(heads))
    assert value.tolist() == pytest.approx([divergence], abs=1e-12) and several.all()


def test_a_head_that_attends_to_nothing_has_no_part_in_the_divergence():
    value, several = stats.head_divergence(rows([[1, 0], [0, 1], [0, 0]], [[1, 0], [0, 0], [0, 0]]))
    assert value.tolist() == pytest.approx([LOG2, 0])
    assert several.tolist() == [True, False]


def test_roles_of_a_sentence_with_a_word_of_two_subwords():
    positions = torch.tensor([[0, 1, 2, -1]])  # the last is padding
    masks = stats.role_masks(positions, positions, words=torch.tensor([[0, 0, 1, -1]]))
    pairs = {role: mask[0].nonzero().tolist() for role, mask in masks.items()}
    assert pairs == {
        "previous": [[1, 0], [2, 1]],
        "next": [[0, 1], [1, 2]],
        "same": [[0, 0], [1, 1], [2, 2]],
        "word": [[0, 1], [1, 0]],
    }
    assert "word" not in stats.role_masks(positions, positions)


def test_role_share_leaves_out_queries_without_such_a_key():
    mask = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0]]).bool()  # previous token: the first query has none
    allowed = torch.ones(3, 3).tril().bool()
    weights = rows([[1, 0, 0], [0.8, 0.2, 0], [0.1, 0.6, 0.3]]).transpose(0, 1)  # (N, H = 1, S)
    part, whole = stats.role_share(weights, mask, allowed)
    assert (part / whole).tolist() == pytest.approx([0.7])
    later = mask.roll(1, -1)  # keys that the causal mask hides for two of the queries
    part, whole = stats.role_share(weights, later, allowed)
    assert part.tolist() == pytest.approx([0.2 + 0.3]) and whole.tolist() == pytest.approx([2.0])


def test_every_key_is_of_one_kind_and_the_first_that_fits():
    eos, punctuation = torch.tensor([[0, 0, 0, 1, 0]]).bool(), torch.tensor([[0, 1, 0, 0, 0]]).bool()
    masks = stats.kind_masks(eos, punctuation, torch.tensor([[0, 1, 3]]), torch.tensor([[0, 1, 2, 3, -1]]))
    names = [[[k for k, m in masks.items() if m[0, t, s]] for s in range(5)] for t in range(3)]
    assert names[0] == [["same position"], ["punctuation"], ["other"], ["end of sentence"], []]
    assert names[1] == [["neighbour"], ["punctuation"], ["neighbour"], ["end of sentence"], []]
    assert names[2] == [["other"], ["punctuation"], ["neighbour"], ["end of sentence"], []]


@pytest.mark.parametrize("token", [",", "...", "-@@", "▁.", "、", "€"])
def test_punctuation(token):
    assert stats.is_punctuation(token)


@pytest.mark.parametrize("token", ["a.", "3", "@@", "▁", "</s>", "的"])
def test_no_punctuation(token):
    assert not stats.is_punctuation(token)


@pytest.mark.parametrize(
    "subwords, tokens, numbers",
    [
        ("subword-nmt", "</s> ne@@ w@@ er day . </s>", [0, 1, 1, 1, 2, 3, 4]),
        ("subword-nmt", "cut@@ </s>", [0, 1]),
        ("sentencepiece", "\u2581ne wer \u2581day . </s>", [0, 0, 1, 1, 2]),
        ("sentencepiece", "</s> er \u2581day", [0, 1, 2]),
        ("none", "a@@ b c", [0, 1, 2]),
    ],
)
def test_word_numbers(subwords, tokens, numbers):
    assert stats.word_numbers(tokens.split(), subwords) == numbers


def test_words_add_up_keys_and_average_queries():
    weights = rows([0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.0, 0.0, 1.0])
    joined = stats.join_words(weights, queries=[0, 0, 1], keys=[0, 0, 1])
    torch.testing.assert_close(joined, rows([0.5, 0.5], [0.0, 1.0]))


def test_what_the_second_model_does_otherwise():
    first = rows([0.5, 0.3, 0.2, 0.0])
    second = rows([0.7, 0.0, 0.3, 0.0])
    coverage = rows([1.0, 0.0, 0.5, 0.0])
    allowed = torch.ones(1, 4).bool()
    measures = {
        name: by_key.tolist()[0] for name, by_key in stats.compare_rows(first, second, coverage, allowed).items()
    }
    assert set(measures) == set(stats.COMPARISON)
    assert measures["outside_head"] == pytest.approx([0, 0.3, 0.1, 0])
    assert measures["outside"] == pytest.approx([0, 0.3, 0, 0])
    assert measures["moved"] == pytest.approx([0.1, 0.15, 0.05, 0])
    assert measures["new"] == pytest.approx([0, 0, 0.3, 0])  # above 1/4 in the second only
    assert measures["lost"] == pytest.approx([0, 0.3, 0, 0])


def test_comparison_counts_allowed_keys_only():
    """With two of four keys allowed, a key is attended to above 1/2."""
    allowed = torch.tensor([[1, 1, 0, 0]]).bool()
    first, second = rows([0.6, 0.4, 0, 0]), rows([0.4, 0.6, 0, 0])
    measures = stats.compare_rows(first, second, rows([1.0, 1.0, 0, 0]), allowed)
    assert measures["new"].tolist()[0] == pytest.approx([0, 0.6, 0, 0])
    assert measures["lost"].tolist()[0] == pytest.approx([0.6, 0, 0, 0])


def test_histogram_has_upper_edges():
    values = torch.tensor([0.0, 0.1, 0.1000001, 0.3, 0.95, 1.0])
    assert stats.histogram(values, 10).tolist() == [3, 0, 1, 0, 0, 0, 0, 0, 0, 2]
