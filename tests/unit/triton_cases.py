"""The fused top-k against the plain torch code. test_triton_topk.py runs this file in a process of its own.

With TRITON_INTERPRET=1 on the CPU, in Triton's interpreter; without it on a GPU, compiled.
"""
import os
from types import SimpleNamespace

import pytest
import torch

from explicit_sparse import mappings
from explicit_sparse.kernels import triton_topk

INF = float("inf")
DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
SHAPES = [(1, 2), (3, 9), (2, 3, 5, 33), (70, 25), (2, 1024), (3, 1500)]


@pytest.fixture(autouse=True)
def plain_torch(monkeypatch):
    """So that mappings.topk is the reference on a GPU too."""
    monkeypatch.setattr(mappings, "_fused", None)


def random_scores(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(DEVICE)


def masked(scores, share=0.3, seed=1):
    """With -inf in a share of the places, and one row of only -inf."""
    hidden = torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed)) < share
    scores = scores.masked_fill(hidden.to(scores.device), -INF)
    scores.view(-1, scores.size(-1))[0] = -INF
    return scores


def fused(scores, k, ties="keep"):
    return triton_topk.topk_softmax(scores, k, exactly=ties == "break")


def with_gradient(mapping, scores, seed=2):
    scores = scores.clone().requires_grad_()
    weights = mapping(scores)
    weights.backward(random_scores(*scores.shape, seed=seed, dtype=scores.dtype))
    return weights.detach(), scores.grad


def assert_same(scores, k, ties="keep"):
    ours = with_gradient(lambda s: fused(s, k, ties), scores)
    reference = with_gradient(lambda s: mappings.topk(s, k, ties=ties), scores)
    # The same keys. (Which weights below the normal floats become 0 is a matter of each exp.)
    assert torch.equal(ours[0] > 1e-30, reference[0] > 1e-30)
    for actual, expected in zip(ours, reference):
        torch.testing.assert_close(actual, expected)  # dtype, and values as near as the dtype allows


@pytest.mark.parametrize("ties", ["keep", "break"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_torch_on_masked_scores(shape, ties):
    for k in {1, min(8, shape[-1] - 1), shape[-1] - 1}:
        assert_same(masked(random_scores(*shape, seed=k)), k, ties)


@pytest.mark.parametrize("scale", [1e-40, 1e-3, 1e3, 1e37])
def test_the_threshold_is_exact_at_every_magnitude(scale):
    assert_same(random_scores(20, 40) * scale, 7)


def test_a_causal_row_with_fewer_keys_than_k_keeps_them_all():
    scores = random_scores(2, 12, 12) + torch.full((12, 12), -INF, device=DEVICE).triu(1)
    weights = fused(scores, 5)
    assert (weights > 0).sum(-1).tolist() == [[min(row + 1, 5) for row in range(12)]] * 2
    assert_same(scores, 5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_computed_in_float32(dtype):
    scores = masked(random_scores(40, 30, dtype=dtype))
    weights, gradient = with_gradient(lambda s: fused(s, 8), scores)
    expected, expected_gradient = with_gradient(lambda s: mappings.topk(s, 8), scores)
    assert weights.dtype == gradient.dtype == dtype
    assert torch.equal(weights > 0, expected > 0)
    # Rounded once, from the same float32: within a unit in the last place. (The interpreter truncates to bfloat16.)
    torch.testing.assert_close(weights, expected, rtol=torch.finfo(dtype).eps, atol=0)
    torch.testing.assert_close(gradient, expected_gradient, rtol=2e-2, atol=2e-3)


def test_rows_without_keys_are_zero_with_zero_gradients():
    scores = random_scores(4, 10)
    scores[1:3] = -INF
    weights, gradient = with_gradient(lambda s: fused(s, 3), scores)
    for found in (weights, gradient):
        assert (found[1:3] == 0).all() and found.isfinite().all() and (found[::3] != 0).any()


def test_scores_that_differ_in_their_last_bit_are_told_apart():
    steps = torch.randperm(40, generator=torch.Generator().manual_seed(4)).float()
    for sign in (1, -1):
        scores = (sign * (1 + steps * torch.finfo(torch.float32).eps)).unsqueeze(0).to(DEVICE)
        for k in (1, 2, 3, 8, 39):
            assert_same(scores, k)


def test_nan_of_either_sign_makes_its_row_nan():
    scores = random_scores(3, 9)
    scores[0, 4], scores[1, 4] = float("nan"), -float("nan")
    assert torch.signbit(scores[:2, 4]).tolist() == [False, True]
    assert fused(scores, 3).isnan().all(-1).tolist() == [True, True, False]


@pytest.mark.parametrize(
    "row, k, keep, exactly",
    [
        ([1.0, 3.0, 2.0, 2.0, 0.0, 2.0], 3, [0, 1, 1, 1, 0, 1], [0, 1, 1, 1, 0, 0]),
        ([0.0, -0.0, 0.0, -0.0, -1.0], 2, [1, 1, 1, 1, 0], [1, 1, 0, 0, 0]),  # equal, though their bits differ
        ([-INF, 1.0, 1.0, -INF, 1.0], 2, [0, 1, 1, 0, 1], [0, 1, 1, 0, 0]),
    ],
)
def test_ties_are_all_kept_or_broken_in_favour_of_the_first_keys(row, k, keep, exactly):
    scores = torch.tensor([row], device=DEVICE)
    assert (fused(scores, k, "keep") > 0).int().tolist() == [keep]
    assert (fused(scores, k, "break") > 0).int().tolist() == [exactly]


def test_scores_in_another_memory_order_are_left_alone():
    scores = random_scores(9, 6).t()
    before = scores.clone()
    weights = fused(scores, 4)
    assert torch.equal(scores, before)
    torch.testing.assert_close(weights, mappings.topk(scores, 4))


def test_gradients_that_are_not_contiguous():
    scores = random_scores(5, 7).requires_grad_()
    reference = scores.detach().clone().requires_grad_()
    gradient = random_scores(1, 7, seed=3).expand(5, 7)
    fused(scores, 3).backward(gradient)
    mappings.topk(reference, 3).backward(gradient)
    torch.testing.assert_close(scores.grad, reference.grad)


def test_no_rows():
    assert fused(random_scores(0, 5), 2).shape == (0, 5)


@pytest.mark.parametrize(
    "different, taken",
    [({}, True), ({"is_cuda": False}, False), ({"dtype": torch.float64}, False), ({"size": lambda at: 8193}, False)],
)
def test_cpu_scores_float64_and_rows_too_long_are_left_to_torch(different, taken):
    scores = {"is_cuda": True, "dtype": torch.float32, "size": lambda at: 8192, **different}
    assert triton_topk.takes(SimpleNamespace(**scores)) is taken
