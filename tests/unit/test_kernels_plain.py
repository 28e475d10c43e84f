"""Tensors without memory of their own, or that something watches, never reach a compiled kernel."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from explicit_sparse import mappings
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import SparseAttentionConfig
from explicit_sparse.kernels.library import is_plain

MAPPINGS = {
    "softmax": mappings.softmax,
    "top-k": lambda scores: mappings.topk(scores, 3),
    "top-k after": lambda scores: mappings.topk(scores, 3, order="after"),
    "N:M": lambda scores: mappings.nm(scores, 2, 4),
    "sparsemax": mappings.sparsemax,
    "1.5-entmax": mappings.entmax15,
    "ReLA": mappings.rela,
}
every_mapping = pytest.mark.parametrize("name", MAPPINGS)


def scores(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def layer(kernel="auto", **options):
    torch.manual_seed(1)
    config = SparseAttentionConfig(attention_kernel=kernel, **options).resolve()["encoder-self"]
    return SparseMultiheadAttention(16, 2, site="encoder-self", config=config, self_attention=True).eval()


def test_what_is_plain():
    x = torch.randn(2, 3)
    assert is_plain(x) and is_plain(torch.nn.Parameter(x)) and is_plain(x.t()) and is_plain(x[:, 1:])
    assert not is_plain(x.to("meta")) and not is_plain(x.to_sparse())
    with FakeTensorMode() as mode:
        assert not is_plain(torch.randn(2)) and not is_plain(x)
    assert not is_plain(mode.from_tensor(x))
    with torch.autograd.forward_ad.dual_level():
        assert not is_plain(x)


@pytest.mark.parametrize("name", ["softmax", "top-k", "top-k after", "N:M", "ReLA"])
def test_vmap_is_the_loop(name):
    x = scores(4, 5, 9)
    expected = torch.stack([MAPPINGS[name](part) for part in x])
    torch.testing.assert_close(torch.vmap(MAPPINGS[name])(x), expected)


@every_mapping
def test_fake_tensors_have_the_shape_of_the_weights(name):
    with FakeTensorMode():
        x = torch.randn(2, 5, 9)
        weights = MAPPINGS[name](x)
    assert weights.shape == (2, 5, 9) and weights.dtype == x.dtype


@pytest.mark.parametrize("name", ["softmax", "top-k", "top-k after", "N:M", "ReLA"])
def test_a_trace_computes_anew(name):
    """Also rows that were allowed keys when it was made, and are not now."""
    traced = torch.jit.trace(MAPPINGS[name], scores(4, 9), check_trace=False)
    other = scores(4, 9).flip(0).contiguous()
    other[1] = -torch.inf
    torch.testing.assert_close(traced(other), MAPPINGS[name](other))


@pytest.mark.parametrize("keys", [9, 300])
@pytest.mark.parametrize("options", [{"topk": 4}, {"topk": 0}], ids=["top-k", "dense"])
def test_a_traced_layer(keys, options):
    module = layer(**options).requires_grad_(False)
    x, other = torch.randn(keys, 2, 16), torch.randn(keys, 2, 16)

    def call(query):
        return module(query, query, query, need_weights=False)[0]

    traced = torch.jit.trace(call, x, check_trace=False)
    torch.testing.assert_close(traced(other), call(other), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "top-k", "top-k after"])
def test_second_derivatives(name):
    x = scores(4, 9).requires_grad_()
    assert torch.autograd.gradcheck(MAPPINGS[name], x)
    assert torch.autograd.gradgradcheck(MAPPINGS[name], x)


@pytest.mark.parametrize("name", ["softmax", "top-k"])
def test_many_gradients_at_once(name):
    x = scores(9).requires_grad_()
    weights = MAPPINGS[name](x)
    (rows,) = torch.autograd.grad(weights, x, torch.eye(9, dtype=x.dtype), is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(weights, x, row, retain_graph=True)[0] for row in torch.eye(9, dtype=x.dtype)]
    torch.testing.assert_close(rows, torch.stack(one_by_one))


@pytest.mark.parametrize("name", ["softmax", "top-k", "top-k after"])
def test_forward_mode_is_reverse_mode(name):
    x, direction = scores(4, 9), scores(4, 9).flip(0)
    _, forward = torch.func.jvp(MAPPINGS[name], (x,), (direction,))
    reverse = torch.autograd.functional.jacobian(MAPPINGS[name], x).flatten(2) @ direction.flatten()
    torch.testing.assert_close(forward, reverse)
