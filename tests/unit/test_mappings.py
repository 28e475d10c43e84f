"""The contract of every mapping, and what each one computes."""

import math

import entmax as package
import pytest
import torch

from explicit_sparse import mappings

INF = float("inf")
MAPPINGS = {
    "softmax": mappings.softmax,
    "topk": lambda s: mappings.topk(s, 3),
    "topk, ties break": lambda s: mappings.topk(s, 3, ties="break"),
    "topk after": lambda s: mappings.topk(s, 3, order="after"),
    "topk after, renormalized": lambda s: mappings.topk(s, 3, order="after", renormalize=True),
    "topk straight-through": lambda s: mappings.topk(s, 3, straight_through=True),
    "nm 2:4": lambda s: mappings.nm(s, 2, 4),
    "nm 1:3": lambda s: mappings.nm(s, 1, 3),
    "sparsemax": mappings.sparsemax,
    "entmax15": mappings.entmax15,
    "entmax 1.3": lambda s: mappings.entmax(s, torch.tensor(1.3)),
    "entmax 2": lambda s: mappings.entmax(s, torch.tensor(2.0)),
    "rela": mappings.rela,
}
UNNORMALISED = ("topk after", "rela")
every_mapping = pytest.mark.parametrize("mapping", MAPPINGS.values(), ids=MAPPINGS)
normalised_mapping = pytest.mark.parametrize(
    "mapping",
    [f for name, f in MAPPINGS.items() if name not in UNNORMALISED],
    ids=[name for name in MAPPINGS if name not in UNNORMALISED],
)


def random_scores(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def with_masks():
    """(2, 3, 9, 9): a causal batch, one with left padding, one with right padding and rows without any key."""
    scores = random_scores(2, 3, 9, 9)
    scores[0] += torch.full((9, 9), -INF).triu(1)
    scores[1, 0, :, :4] = -INF
    scores[1, 1, :, 6:] = -INF
    scores[1, 2, 2:5] = -INF
    return scores


def support(weights):
    """The keys with a weight, as text: one line a row, 1 = attended to."""
    return ["".join("1" if w > 0 else "0" for w in row) for row in weights.tolist()]


# ---- the contract ----


@every_mapping
def test_masked_keys_get_exactly_zero_and_the_others_a_row_of_weights(mapping):
    scores = with_masks()
    weights = mapping(scores)
    assert weights.shape == scores.shape and weights.dtype == scores.dtype
    assert (weights[scores == -INF] == 0).all()
    assert (weights >= 0).all() and weights.isfinite().all()


@normalised_mapping
def test_rows_sum_to_one_or_to_zero_without_keys(mapping):
    scores = with_masks()
    has_keys = (scores > -INF).any(-1).double()
    torch.testing.assert_close(mapping(scores).sum(-1), has_keys, rtol=0, atol=1e-9)


@every_mapping
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rows_without_keys_are_zero_with_finite_gradients(mapping, dtype):
    scores = with_masks().to(dtype).requires_grad_()
    weights = mapping(scores)
    (weights * random_scores(9, seed=1, dtype=dtype)).sum().backward()
    assert (weights[1, 2, 2:5] == 0).all()
    assert scores.grad.isfinite().all()
    assert (scores.grad[scores == -INF] == 0).all()


@every_mapping
def test_a_batch_of_nothing_but_masked_rows(mapping):
    scores = torch.full((2, 5), -INF, requires_grad=True)
    weights = mapping(scores)
    weights.sum().backward()
    assert (weights == 0).all() and (scores.grad == 0).all()


@every_mapping
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_is_computed_in_float32(mapping, dtype):
    scores = (5 * with_masks()).to(dtype)
    weights = mapping(scores)
    assert weights.dtype == dtype
    assert torch.equal(weights, mapping(scores.float()).to(dtype))


@every_mapping
def test_float64_stays_float64(mapping):
    scores = random_scores(4, 9)
    difference = (mapping(scores) - mapping(scores.float()).double()).abs().max()
    assert 0 <= difference < 1e-5
    if mapping is not MAPPINGS["rela"]:
        assert difference > 0  # or it would have gone through float32


@every_mapping
def test_input_is_left_alone(mapping):
    scores = with_masks()
    before = scores.clone()
    mapping(scores)
    mapping(scores.requires_grad_()).sum().backward()
    assert torch.equal(scores, before)


@every_mapping
@pytest.mark.parametrize("shape", [(9,), (1, 9), (6, 9), (2, 3, 9), (1, 2, 1, 3, 9), (0, 9)], ids=str)
def test_any_leading_shape_is_treated_row_by_row(mapping, shape):
    scores = random_scores(*shape)
    weights = mapping(scores)
    assert weights.shape == shape
    for row, expected in zip(scores.reshape(-1, 9), weights.reshape(-1, 9)):
        torch.testing.assert_close(mapping(row), expected, rtol=0, atol=1e-12)


@every_mapping
def test_non_contiguous_scores(mapping):
    scores = with_masks().transpose(1, 2)
    assert torch.equal(mapping(scores), mapping(scores.contiguous()))


@normalised_mapping
def test_a_single_key_gets_everything(mapping):
    assert mapping(random_scores(4, 1)).tolist() == [[1.0]] * 4


@every_mapping
def test_masked_keys_change_nothing_for_the_others(mapping):
    """Right padding is as if the keys were not there."""
    scores = random_scores(5, 6)
    padded = torch.cat([scores, torch.full((5, 3), -INF).double()], dim=-1)
    torch.testing.assert_close(mapping(padded)[:, :6], mapping(scores), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in MAPPINGS if name != "topk straight-through"])
@pytest.mark.parametrize("case", ["plain", "masked"])
def test_gradcheck(name, case):
    scores = random_scores(3, 7, seed=3)
    if case == "masked":
        scores[0, :2] = scores[1, 5:] = scores[2] = -INF
    allowed = scores > -INF
    entries = scores[allowed].requires_grad_()
    probe = random_scores(3, 7, seed=4)

    def weights(values):
        return MAPPINGS[name](torch.full((3, 7), -INF).double().masked_scatter(allowed, values)) * probe

    assert torch.autograd.gradcheck(weights, (entries,), eps=1e-6, atol=1e-6)


# ---- top-k ----


def test_topk_by_hand():
    weights = mappings.topk(torch.tensor([1.0, 3.0, -INF, 2.0, 0.0]), 2)
    e = math.e
    torch.testing.assert_close(weights, torch.tensor([0, e / (e + 1), 0, 1 / (e + 1), 0]))


@pytest.mark.parametrize("ties", ["keep", "break"])
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("k", [9, 10, 1000])
def test_k_at_least_the_row_is_softmax_bit_for_bit(ties, order, k):
    scores = with_masks()
    assert torch.equal(mappings.topk(scores, k, ties=ties, order=order), mappings.softmax(scores))


@pytest.mark.parametrize("ties", ["keep", "break"])
@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_support_is_k_or_every_allowed_key(ties, k):
    scores = with_masks()
    allowed = (scores > -INF).sum(-1)
    assert torch.equal((mappings.topk(scores, k, ties=ties) > 0).sum(-1), allowed.clamp(max=k))


def test_rows_with_fewer_than_k_allowed_keys_are_softmax():
    scores = torch.tensor([[-INF, 1.0, -INF, 0.0, -INF, -INF]]).double()
    assert torch.equal(mappings.topk(scores, 3), mappings.softmax(scores))


def test_ties_keep_is_the_papers_rule_and_break_keeps_exactly_k():
    scores = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0], [4.0, 3.0, 2.0, 1.0, 0.0]])
    assert support(mappings.topk(scores, 2)) == ["11110", "11111", "11000"]
    broken = mappings.topk(scores, 2, ties="break")
    assert (broken > 0).sum(-1).tolist() == [2, 2, 2]
    assert broken[0, 0] > 0 and (broken[:, 4] == 0)[[0, 2]].all()


def test_ties_among_masked_keys_let_none_of_them_in():
    scores = torch.tensor([[-INF, 1.0, -INF, 1.0, -INF, 1.0]])
    assert support(mappings.topk(scores, 2)) == ["010101"]
    assert (mappings.topk(scores, 2, ties="break") > 0).sum() == 2


def test_ties_that_rounding_makes_are_judged_in_the_precision_of_the_scores():
    """bfloat16 makes 1.0 and 1.001 one score, so both are the best; float32 tells them apart."""
    scores = torch.tensor([1.0, 1.001, 0.0, -1.0])
    assert support(mappings.topk(scores.bfloat16().unsqueeze(0), 1)) == ["1100"]
    assert support(mappings.topk(scores.unsqueeze(0), 1)) == ["0100"]


def test_selecting_after_the_softmax_keeps_the_dense_weights():
    scores = with_masks()
    dense, before = mappings.softmax(scores), mappings.topk(scores, 3)
    after = mappings.topk(scores, 3, order="after")
    assert torch.equal(after, torch.where(before > 0, dense, torch.zeros_like(dense)))
    renormalized = mappings.topk(scores, 3, order="after", renormalize=True)
    torch.testing.assert_close(renormalized, before)  # the same weights, with other gradients for what was dropped


def test_after_passes_gradients_to_dropped_keys_and_before_does_not():
    scores = random_scores(4, 9).requires_grad_()
    probe = random_scores(4, 9, seed=1)
    for order, reaches in (("before", False), ("after", True)):
        weights = mappings.topk(scores, 3, order=order)
        (grad,) = torch.autograd.grad((weights * probe).sum(), scores)
        assert (grad[weights == 0] != 0).all() == reaches
        assert (grad[weights > 0] != 0).all()


def test_straight_through_is_topk_forward_and_softmax_backward():
    scores = with_masks().requires_grad_()
    probe = random_scores(9, 9, seed=2)
    through = mappings.topk(scores, 3, straight_through=True)
    assert torch.equal(through, mappings.topk(scores, 3))
    (actual,) = torch.autograd.grad((through * probe).sum(), scores)
    (dense,) = torch.autograd.grad((mappings.softmax(scores) * probe).sum(), scores)
    torch.testing.assert_close(actual, dense)


@pytest.mark.parametrize("k", [0, -3])
def test_topk_refuses_k_below_one(k):
    with pytest.raises(ValueError, match="k is {}".format(k)):
        mappings.topk(random_scores(2, 5), k)


# ---- N:M ----


def test_nm_keeps_n_of_every_m_consecutive_keys():
    scores = torch.tensor(
        [
            [9.0, 1.0, 8.0, 2.0, 1.0, 2.0, 3.0, 4.0],
            [1.0, 2.0, 3.0, 4.0, 9.0, 8.0, 7.0, 6.0],
            [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0],
        ]
    )
    # fmt: off
    assert support(mappings.nm(scores, 2, 4)) == [
        "1010" "0011",
        "0011" "1100",
        "1100" "1010",
    ]
    assert support(mappings.nm(scores, 1, 2)) == [
        "10" "10" "01" "01",
        "01" "01" "10" "10",
        "10" "10" "10" "10",
    ]
    assert support(mappings.nm(scores, 2, 3)) == [
        "101" "101" "11",
        "011" "011" "11",
        "110" "110" "11",
    ]
    # fmt: on


def test_nm_is_softmax_over_what_it_keeps():
    scores = random_scores(5, 8)
    weights = mappings.nm(scores, 2, 4)
    expected = mappings.softmax(scores.masked_fill(weights == 0, -INF))
    torch.testing.assert_close(weights, expected)


def test_nm_causal_rows_are_the_same_with_the_future_masked_or_absent():
    scores = torch.arange(9.0, 0, -1).repeat(9, 1) + torch.full((9, 9), -INF).triu(1)
    masked = mappings.nm(scores, 2, 4)
    # fmt: off
    assert support(masked) == [
        "1000" "0000" "0",
        "1100" "0000" "0",
        "1110" "0000" "0",
        "1100" "0000" "0",
        "1100" "1000" "0",
        "1100" "1100" "0",
        "1100" "1110" "0",
        "1100" "1100" "0",
        "1100" "1100" "1",
    ]
    # fmt: on
    for t in range(9):
        torch.testing.assert_close(mappings.nm(scores[t, : t + 1], 2, 4), masked[t, : t + 1])


def test_nm_with_m_larger_than_the_row_is_softmax():
    scores = random_scores(3, 5)
    assert torch.equal(mappings.nm(scores, 2, 8), mappings.softmax(scores))


@pytest.mark.parametrize("n, m", [(0, 4), (4, 4), (5, 4), (-1, 2)])
def test_nm_refuses_what_selects_nothing(n, m):
    with pytest.raises(ValueError, match="{}:{}".format(n, m)):
        mappings.nm(random_scores(2, 8), n, m)


# ---- sparsemax, entmax ----

LENGTHS = [1, 2, 7, 150]


def bisected(scores, alpha):
    return package.entmax_bisect(scores, alpha=alpha, dim=-1, n_iter=100)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_sparsemax_and_entmax_equal_the_package_and_its_bisection(size, scale):
    scores = scale * random_scores(6, size)
    torch.testing.assert_close(mappings.sparsemax(scores), package.sparsemax(scores, dim=-1))
    torch.testing.assert_close(mappings.entmax15(scores), package.entmax15(scores, dim=-1))
    torch.testing.assert_close(mappings.sparsemax(scores), bisected(scores, 2.0), rtol=0, atol=1e-9)
    torch.testing.assert_close(mappings.entmax15(scores), bisected(scores, 1.5), rtol=0, atol=1e-9)
    for alpha in (1.01, 1.2, 1.5, 2.0):
        ours = mappings.entmax(scores, torch.tensor(alpha))
        torch.testing.assert_close(ours, bisected(scores, alpha), rtol=0, atol=1e-7)


@pytest.mark.parametrize("alpha", [1.01, 1.2, 1.5, 1.9, 2.0])
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 30.0, 1000.0])
def test_entmax_in_float32_is_as_near_to_the_exact_weights_as_the_package(alpha, scale):
    for size in (2, 12, 150):
        scores = scale * random_scores(300, size)
        scores[::3, size // 2 :] = -INF
        exact = bisected(scores, alpha)
        ours = mappings.entmax(scores.float(), torch.tensor(alpha))
        theirs = package.entmax_bisect(scores.float(), alpha=alpha, dim=-1)
        assert (ours - exact).abs().max() <= (theirs - exact).abs().max() + 1e-6


@pytest.mark.parametrize("alpha", [1.01, 1.2, 1.5, 1.9, 2.0])
def test_gradients_of_entmax_equal_the_package(alpha):
    probe = random_scores(4, 12, seed=1)
    gradients = []
    for entmax in (lambda s, a: package.entmax_bisect(s, a, dim=-1, n_iter=100), mappings.entmax):
        scores = random_scores(4, 12).requires_grad_()
        alphas = torch.full((4, 1), alpha, dtype=torch.float64, requires_grad=True)
        gradients.append(torch.autograd.grad((entmax(scores, alphas) * probe).sum(), (scores, alphas)))
    for theirs, ours in zip(*gradients):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-7)


def test_entmax_runs_from_nearly_softmax_to_sparsemax():
    scores = random_scores(8, 12)
    torch.testing.assert_close(
        mappings.entmax(scores, torch.tensor(1.0001)), mappings.softmax(scores), rtol=0, atol=1e-3
    )
    supports = [
        (mappings.entmax(scores, torch.tensor(alpha)) > 0).sum().item() for alpha in (1.01, 1.25, 1.5, 1.75, 2.0)
    ]
    assert supports == sorted(supports, reverse=True) and supports[0] > supports[-1]


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax 1.3", "entmax 2"])
def test_masked_row_equals_the_row_without_the_masked_keys(name):
    scores = random_scores(5, 10)
    kept = torch.tensor([0, 3, 4, 8])
    masked = torch.full_like(scores, -INF)
    masked[:, kept] = scores[:, kept]
    weights = MAPPINGS[name](masked)
    torch.testing.assert_close(weights[:, kept], MAPPINGS[name](scores[:, kept]), rtol=0, atol=1e-9)


def test_one_alpha_a_head():
    scores, alpha = random_scores(2, 3, 5, 6), torch.tensor([1.1, 1.5, 1.9]).double()
    weights = mappings.entmax(scores, alpha.view(-1, 1, 1))
    for head in range(3):
        torch.testing.assert_close(weights[:, head], mappings.entmax(scores[:, head], alpha[head]))


@pytest.mark.parametrize("masked", [False, True])
def test_gradcheck_of_alpha(masked):
    scores = random_scores(2, 3, 2, 5, seed=5)
    if masked:
        scores[0, :, :, 3:] = -INF
        scores[1, :, 0] = -INF
    probe = random_scores(2, 3, 2, 5, seed=6)
    alpha = torch.tensor([1.2, 1.5, 1.8]).double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a: mappings.entmax(scores, a.view(-1, 1, 1)) * probe, (alpha,), eps=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax 1.3"])
@pytest.mark.parametrize("bad", [float("nan"), INF])
def test_nan_and_infinite_scores_are_an_error_that_says_what_to_do(name, bad):
    scores = random_scores(2, 3, 5)
    scores[1, 2, 3] = bad
    with pytest.raises(FloatingPointError, match="NaN or .inf.*--lr"):
        MAPPINGS[name](scores)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax 1.3", "topk", "softmax", "nm 2:4"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_large_scores_neither_overflow_nor_vanish(name, dtype):
    scores = (random_scores(4, 9) * 3000).to(dtype)
    scores[0, 3:] = -INF
    weights = MAPPINGS[name](scores)
    torch.testing.assert_close(weights.sum(-1).float(), torch.ones(4), rtol=0, atol=1e-2)


# ---- ReLA ----


def test_rela_is_the_positive_part():
    scores = torch.tensor([[1.5, -2.0, 0.0, -INF], [-1.0, -1.0, -INF, -INF]])
    assert mappings.rela(scores).tolist() == [[1.5, 0, 0, 0], [0, 0, 0, 0]]
