"""Steps of incremental decoding beside fairseq's own attention: caches, beams that change places, what is shared."""

import copy

import pytest
import torch
from fairseq.modules import MultiheadAttention
from fairseq.modules.quant_noise import quant_noise

from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import SparseAttentionConfig
from explicit_sparse.decoding import appended

WIDTH, HEADS = 12, 3


def build(site="decoder-self", cls=SparseMultiheadAttention, **options):
    """A layer with fixed weights; dense unless the options say otherwise."""
    arguments = dict(self_attention=site != "cross", encoder_decoder_attention=site == "cross")
    if cls is SparseMultiheadAttention:
        arguments.update(site=site, config=SparseAttentionConfig(**(options or {"topk": 0})).resolve()[site])
    torch.manual_seed(0)
    layer = cls(WIDTH, HEADS, **arguments)
    with torch.no_grad():
        for name, bias in layer.named_parameters():
            if name.endswith("bias"):
                bias.normal_()
    return layer.eval()


def decode(layer, steps, orders, paddings=None, **kwargs):
    """Outputs and weights of all steps; orders[t] is the order of the rows that step t goes on with, or None."""
    state, results = {}, []
    for step, order, padding in zip(steps, orders, paddings or [None] * len(steps)):
        if order is not None:
            layer.reorder_incremental_state(state, order)
        inputs = dict(key=step, value=step, key_padding_mask=padding)
        inputs.update(kwargs)
        results.extend(layer(step, incremental_state=state, need_head_weights=True, **inputs))
    return results, state


def assert_equal(actual, expected, **tolerance):
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected):
        torch.testing.assert_close(ours, theirs, **(tolerance or dict(rtol=1e-5, atol=1e-6)))


def steps_of(*sizes, dtype=torch.float32):
    torch.manual_seed(1)
    return [torch.randn(1, size, WIDTH, dtype=dtype) for size in sizes]


ORDERS = [None, torch.tensor([1, 0, 0, 3, 3, 5]), None, torch.tensor([0, 2, 1, 5, 4, 3]), torch.tensor([5, 3, 4])]
SIZES = (6, 6, 6, 6, 3)  # the first sentence is finished before the last step


# ---- self-attention ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_beams_that_change_places_are_those_of_stock(dtype, padded):
    ours, theirs = build().to(dtype), build(cls=MultiheadAttention).to(dtype)
    steps = steps_of(*SIZES, dtype=dtype)
    paddings = [None] * 5
    if padded:  # of some rows only, in the second and the fourth step
        paddings[1] = torch.tensor([1, 0, 0, 0, 1, 0]).view(-1, 1).bool()
        paddings[3] = torch.tensor([0, 1, 0, 0, 0, 1]).view(-1, 1).bool()
    with torch.no_grad():
        actual, expected = (decode(layer, steps, ORDERS, paddings)[0] for layer in (ours, theirs))
    tolerance = dict(rtol=1e-5, atol=1e-6) if dtype == torch.float32 else dict(rtol=2e-2, atol=2e-2)
    assert_equal(actual, expected, **tolerance)


def test_orders_that_wait_together_are_applied_one_after_the_other():
    ours, theirs = build(), build(cls=MultiheadAttention)
    first, second = steps_of(4, 2)
    results = []
    for layer in (ours, theirs):
        state = {}
        layer(first, first, first, incremental_state=state)
        layer.reorder_incremental_state(state, torch.tensor([3, 2, 1, 0]))
        layer.reorder_incremental_state(state, torch.tensor([1, 1]))
        results.append(layer(second, second, second, incremental_state=state)[0])
    torch.testing.assert_close(*results)


def test_several_queries_in_one_step():
    x = torch.cat(steps_of(2, 2, 2, 2, 2))
    mask = torch.full((5, 5), float("-inf")).triu(1)
    layer, state = build(topk=2), {}
    outputs = [
        layer(part, part, part, incremental_state=state, attn_mask=mask[first:end, :end])[0]
        for part, first, end in ((x[:2], 0, 2), (x[2:], 2, 5))
    ]
    torch.testing.assert_close(torch.cat(outputs), layer(x, x, x, attn_mask=mask)[0])


def test_gradient_through_the_cache():
    """As minimum risk training needs it: that of a full pass over the same steps in their last order."""
    layer, x = build(topk=2), steps_of(2, 2, 2)
    outputs, _ = decode(layer, x, [None, torch.tensor([1, 1]), torch.tensor([1, 0])])
    outputs[-2].pow(2).sum().backward()
    gradients = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    x = torch.cat([x[0][:, [1, 1]], x[1][:, [1, 0]], x[2]])
    full = layer(x, x, x, attn_mask=torch.full((3, 3), float("-inf")).triu(1))[0]
    full[-1].pow(2).sum().backward()
    assert_equal(gradients, [parameter.grad for parameter in layer.parameters()], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("projection", ["q_proj", "k_proj", "v_proj"])
def test_a_hook_on_a_projection_is_called(projection):
    layer, calls = build(), []
    getattr(layer, projection).register_forward_hook(lambda *_: calls.append(1))
    hooked, _ = decode(layer, steps_of(2, 2), [None, None])
    assert len(calls) == 2
    assert_equal(hooked, decode(build(), steps_of(2, 2), [None, None])[0])


def test_a_quantised_projection_is_used():
    layer = build()
    plain, _ = decode(layer, steps_of(2, 2), [None, None])
    layer.k_proj = torch.nn.Sequential(layer.k_proj, torch.nn.Threshold(0.0, 0.0))
    changed, _ = decode(layer, steps_of(2, 2), [None, None])
    assert not torch.allclose(changed[2], plain[2])
    layer.k_proj = quant_noise(layer.k_proj[0], p=0.5, block_size=1)
    assert_equal(decode(layer, steps_of(2, 2), [None, None])[0], plain)


def test_every_sentence_begins_with_the_weights_of_the_day():
    layer = build()
    before, _ = decode(layer, steps_of(2, 2), [None, None])
    for parameter in layer.parameters():
        parameter.data.mul_(2)  # as fairseq's optimizers write: no version counter moves
    after, _ = decode(layer, steps_of(2, 2), [None, None])
    full = layer(*[torch.cat(steps_of(2, 2))] * 3, attn_mask=torch.full((2, 2), float("-inf")).triu(1))[0]
    assert not torch.allclose(before[2], after[2])
    torch.testing.assert_close(after[2], full[1:])


def test_decoding_leaves_nothing_in_the_module():
    layer = build(topk=2)
    names, attributes = list(layer.state_dict()), set(vars(layer))
    decode(layer, steps_of(2, 2), [None, None])
    assert list(layer.state_dict()) == names and set(vars(layer)) == attributes


def test_a_copied_state_can_go_on_by_itself():
    """No cache is written in place, so hypotheses can be forked by copying dictionaries."""
    layer = build()
    first, left, right = steps_of(2, 2, 2)
    with torch.no_grad():
        _, state = decode(layer, [first], [None])
        layer.reorder_incremental_state(state, torch.tensor([1, 0]))
        fork, separate = {name: dict(part) for name, part in state.items()}, copy.deepcopy(state)
        layer(left, left, left, incremental_state=state)
        forked = layer(right, right, right, incremental_state=fork)[0]
        torch.testing.assert_close(forked, layer(right, right, right, incremental_state=separate)[0], rtol=0, atol=0)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("order", [None, torch.tensor([2, 0, 0, 1])])
def test_appended(order, grad):
    caches = [torch.randn(3, 2, 5, 4, requires_grad=grad) for _ in range(2)]
    steps = [torch.randn(2, 3 if order is None else 4, 2, 4).transpose(0, 1).transpose(1, 2) for _ in range(2)]
    for grown, cache, new in zip(appended(caches, order, steps), caches, steps):
        kept = cache if order is None else cache[order]
        assert torch.equal(grown, torch.cat([kept, new], dim=2)) and grown.requires_grad == grad


# ---- cross-attention ----


@pytest.mark.parametrize("options", [{"topk": 0}, {"topk": 3}, {"attention_mapping": "entmax15"}], ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_keys_once_a_sentence_equal_keys_repeated_for_each_beam(options, padded):
    """Three sentences with two beams; the second leaves the batch half way."""
    keys = torch.randn(7, 3, WIDTH, generator=torch.Generator().manual_seed(2))
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[1, 4:] = mask[2, :3] = padded
    orders = [None, torch.tensor([1, 0, 2, 3, 5, 4]), torch.tensor([0, 0, 5, 4])]
    layer, results = build("cross", **options), []
    for beams in (1, 2):
        key = keys.repeat_interleave(beams, dim=1)
        outputs, state = decode(
            layer, steps_of(6, 6, 4), orders, key=key, value=key, static_kv=True,
            key_padding_mask=mask.repeat_interleave(beams, dim=0),
        )  # fmt: skip
        results.append(outputs)
        cache = layer._get_input_buffer(state)["cache"]
        assert cache.key.shape == (2 * beams, HEADS, 7, WIDTH // HEADS)
        assert (cache.mask is not None) == padded
    assert_equal(*results)
    for t in (0, 4):  # and each is the full pass
        rows = orders[2] if t else slice(None)
        inputs = keys.repeat_interleave(2, dim=1)[:, rows], mask.repeat_interleave(2, dim=0)[rows]
        full = layer(steps_of(6, 6, 4)[t // 2], inputs[0], inputs[0], inputs[1])[0]
        torch.testing.assert_close(results[0][t], full)


def test_full_passes_take_no_notice_of_a_state():
    layer = build("cross")
    key, query = torch.randn(7, 6, WIDTH), torch.randn(5, 6, WIDTH)
    expected = layer(query, key, key)[0]
    decode(layer, steps_of(6), [None], key=key[:, ::2], value=key[:, ::2], static_kv=True)
    assert torch.equal(layer(query, key, key)[0], expected)
