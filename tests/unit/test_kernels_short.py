"""The compiled kernel for short rows: the same keys and weights as torch's operations."""

from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from explicit_sparse import mappings
from explicit_sparse.kernels import library, short

INF = float("inf")
compiled = pytest.mark.skipif(short._library is None, reason=library.status())


def pure_torch(scores, k, ties="keep"):
    with mock.patch.object(short, "takes", lambda scores, k: False):
        return mappings.topk(scores, k, ties)


def leftmost(scores, k):
    """Exactly k keys, the leftmost of equal ones, by a stable sort."""
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, True) & (scores > -INF)


def random_scores(rows, size, dtype=torch.float32, seed=0, masked=0.3, step=None):
    """N(0, 3^2), a share of them masked, the third row wholly; rounded to multiples of ``step``, which makes ties."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(rows, size, generator=generator, dtype=torch.float64)
    scores = scores if step is None else (scores / step).round() * step
    scores = scores.masked_fill(torch.rand(rows, size, generator=generator) < masked, -INF)
    scores[2:3] = -INF
    return scores.to(dtype)


def gradient(weights, scores):
    probe = torch.randn(weights.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.autograd.grad(weights, scores, probe.to(weights.dtype))[0]


# ---- the same numbers ----


@compiled
@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    rows=st.integers(0, 40),
    size=st.one_of(st.integers(1, 70), st.sampled_from([127, 128, 129, 512])),
    k=st.integers(1, 32),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    masked=st.sampled_from([0, 0.3, 0.9]),
    step=st.sampled_from([None, 0.5, 4]),
    seed=st.integers(0, 1000),
)
def test_equal_to_torch(rows, size, k, dtype, masked, step, seed):
    scores = random_scores(rows, size, dtype, seed, masked, step).requires_grad_()
    ours, theirs = short.topk_softmax(scores, k, False), pure_torch(scores, k)
    assert torch.equal(ours > 0, theirs > 0)
    # In float32 the rounding of s - max alone makes an error of 1e-6 in a small weight exp(s - max).
    rtol, gradient_atol = (1e-12, 1e-14) if dtype == torch.float64 else (3e-6, 1e-5)
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=0)
    torch.testing.assert_close(gradient(ours, scores), gradient(theirs, scores), rtol=0, atol=gradient_atol)

    weights, kept = short.topk_softmax(scores, k, True), leftmost(scores.detach(), k)
    assert torch.equal(weights > 0, kept)
    expected = mappings.softmax(scores.masked_fill(~kept, -INF))
    torch.testing.assert_close(weights, expected, rtol=rtol, atol=0)
    torch.testing.assert_close(gradient(weights, scores), gradient(expected, scores), rtol=0, atol=gradient_atol)


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exp_over_its_whole_range(dtype):
    """Two keys kept, the second lower by 0 to 120: weights down to the least normal number, below it 0."""
    gap = torch.linspace(0, 120, 5000, dtype=dtype)
    scores = torch.stack([torch.zeros_like(gap), -gap, torch.full_like(gap, -1000)], dim=-1)
    expected = F.softmax(scores.double(), dim=-1).to(dtype)
    torch.testing.assert_close(short.topk_softmax(scores, 2, False), expected, rtol=8e-7, atol=2e-38)


@compiled
@pytest.mark.parametrize("bad", [float("nan"), INF])
@pytest.mark.parametrize("ties", ["keep", "break"])
def test_nan_and_infinity_make_their_row_nan_and_no_other(bad, ties):
    clean = random_scores(33, 25, masked=0)
    scores = clean.clone()
    scores[[3, 20, 32], [0, 24, 7]] = bad
    touched = torch.zeros(33, dtype=torch.bool)
    touched[[3, 20, 32]] = True
    for topk in (mappings.topk, pure_torch):
        weights = topk(scores, 8, ties=ties)
        assert torch.equal(weights.isnan().any(-1), touched)
        assert torch.equal(weights[~touched], topk(clean, 8, ties=ties)[~touched])


@compiled
def test_equal_scores_stay_from_the_left_under_break():
    scores = torch.tensor([[1.0, 2.0, 1.0, 1.0, 0.0], [0.0, 0.0, -0.0, 0.0, 0.0], [-INF, 5.0, -INF, 5.0, 5.0]])
    weights = short.topk_softmax(scores, 2, True)
    assert (weights > 0).int().tolist() == [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 0, 1, 0]]


@compiled
def test_non_contiguous_scores_and_gradients():
    scores = random_scores(40, 50).view(40, 2, 25).transpose(0, 1).requires_grad_()
    ours, theirs = mappings.topk(scores, 8), pure_torch(scores, 8)
    torch.testing.assert_close(ours, theirs)
    for probe in (torch.tensor(2.0).expand_as(ours), torch.randn(25, 40, 2).permute(2, 1, 0)):
        (a,), (b,) = (torch.autograd.grad(weights, scores, probe, retain_graph=True) for weights in (ours, theirs))
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@compiled
@pytest.mark.parametrize("name, dtype", [("float", torch.float32), ("double", torch.float64)])
def test_nothing_outside_the_rows_is_read_or_written(name, dtype):
    def between_guards(numbers):
        whole = torch.full((numbers.numel() + 128,), float("nan"), dtype=dtype)
        whole[64:-64] = numbers.flatten()
        return whole, whole[64:-64]

    for rows in (1, 2, 15, 16, 17, 33):
        for size in (1, 2, 7, 15, 16, 17, 33, 64):
            scores = random_scores(rows, size, dtype, masked=0)
            _, inside = between_guards(scores)
            out, weights = between_guards(torch.zeros_like(scores))
            out_grad, grad = between_guards(torch.zeros_like(scores))
            short._forward[dtype](inside.data_ptr(), weights.data_ptr(), rows, size, 3, 0, 1)
            short._backward[dtype](weights.data_ptr(), inside.data_ptr(), grad.data_ptr(), rows, size, 1)
            for whole in (out, out_grad):
                assert whole[:64].isnan().all() and whole[-64:].isnan().all()
            assert torch.equal(weights.view(rows, size), short.topk_softmax(scores, 3, False))
            if rows < 3:  # no row of -inf
                assert grad.isfinite().all()


# ---- autograd ----


@compiled
@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("size, k", [(5, 2), (9, 8), (21, 12), (40, 20)])
def test_gradcheck(size, k, exactly):
    scores = torch.randn(3, size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    scores[1, : size // 2] = -INF
    allowed = scores > -INF
    values = scores[allowed].requires_grad_()

    def weights(values):
        return short.topk_softmax(torch.full_like(scores, -INF).masked_scatter(allowed, values), k, exactly)

    assert torch.autograd.gradcheck(weights, (values,))


@compiled
def test_the_second_derivative_is_that_of_torchs_operations():
    scores = random_scores(2, 9, torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: mappings.topk(x, 3).pow(2), scores)


@compiled
def test_recomputation_and_deterministic_mode_change_nothing():
    scores = random_scores(100, 25).requires_grad_()
    expected = mappings.topk(scores, 8)
    expected_gradient = gradient(expected, scores)
    again = checkpoint(lambda x: mappings.topk(x, 8), scores, use_reentrant=False)
    assert torch.equal(again, expected) and torch.equal(gradient(again, scores), expected_gradient)
    torch.use_deterministic_algorithms(True)
    try:
        again = mappings.topk(scores, 8)
        assert torch.equal(again, expected) and torch.equal(gradient(again, scores), expected_gradient)
    finally:
        torch.use_deterministic_algorithms(False)


@compiled
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_rows(threads):
    scores = random_scores(1999, 33).requires_grad_()
    one = mappings.topk(scores, 8)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        several = mappings.topk(scores, 8)
        assert torch.equal(several, one)
        assert torch.equal(gradient(several, scores), gradient(one, scores))
    finally:
        torch.set_num_threads(before)


# ---- when it is used ----


@compiled
def test_mappings_use_it_where_it_applies_and_nowhere_else():
    scores = random_scores(4, 25)
    with mock.patch.object(short, "topk_softmax", wraps=short.topk_softmax) as kernel:
        mappings.topk(scores, 8)
        mappings.topk(scores.bfloat16(), 8, ties="break")
        assert kernel.call_count == 2
        mappings.topk(scores, 25)  # dense: torch's softmax, bit for bit
        mappings.topk(scores, 8, order="after")
        mappings.topk(random_scores(4, short.MAX_KEYS + 1), 8)
        mappings.topk(random_scores(4, 100), short.MAX_K + 1)
        mappings.topk(torch.empty(4, 25, device="meta"), 8)
        assert kernel.call_count == 2
