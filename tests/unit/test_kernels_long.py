"""The long path: the numbers of the whole matrix of scores, gradients, dropout, memory, and when it is taken."""

import math
from unittest import mock

import pytest
import torch
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from hypothesis import given, settings
from hypothesis import strategies as st

from explicit_sparse import mappings
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import PATTERNS, SITES, OptionError, SparseAttentionConfig
from explicit_sparse.kernels import library, long

INF = math.inf
WIDTH, HEADS = 12, 3


@pytest.fixture(params=["compiled", "torch"])
def search(request, monkeypatch):
    """Each test that takes this runs with the compiled search and without it."""
    if request.param == "torch":
        monkeypatch.setattr(long, "_library", None)
    elif long._library is None:
        pytest.skip(library.status())


@pytest.fixture
def small_chunks(monkeypatch):
    """A few rows of one head at a time, so that small inputs take many chunks."""
    monkeypatch.setitem(long.CHUNK, "cpu", 200)


# ---- the k largest ----


def random_rows(rows, size, seed=0, ties=False, masked=0.3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, size, generator=generator)
    x = (2 * x).round() if ties else x
    x = x.masked_fill(torch.rand(x.shape, generator=generator) < masked, -INF)
    x[0] = -INF
    return x


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 150), st.integers(0, 10**6), st.booleans())
def test_largest_finds_what_torch_topk_finds(size, k, seed, ties):
    x, k = random_rows(4, size, seed, ties), min(k, size)
    expected = x.topk(k, dim=-1).values
    for library_ in {long._library, None}:
        with mock.patch.object(long, "_library", library_):
            values, places = long.largest(x, k)
        assert torch.equal(values, expected) and places.dtype == torch.int32
        assert torch.equal(x.gather(-1, places.long()).masked_fill(values == -INF, -INF), values)
        for row_values, row_places in zip(values, places):
            found = row_places[row_values > -INF]
            assert len(found.unique()) == len(found)


@pytest.mark.parametrize("k", [1, 9, 40, 100])
def test_largest_lets_nan_through(search, k):
    x = random_rows(3, 600)
    x[1, 500] = math.nan
    x[2, 20:590] = math.nan
    assert torch.equal(long.largest(x, k)[0].isnan(), x.topk(k, dim=-1).values.isnan())


# ---- attention ----


def attend(q, k, v, keep, ties="keep", **masks):
    scores, keys = long.best_scores(q, k, keep, ties, **masks)
    return long.weighted_sum(mappings.softmax(scores).type_as(v), v, keys)


def attend_ordinarily(q, k, v, keep, ties="keep", attn_mask=None, hidden=None):
    scores = q @ k.transpose(-1, -2)
    if attn_mask is not None:
        scores = scores + attn_mask
    if hidden is not None:
        scores = scores.masked_fill(hidden(slice(0, len(q)), slice(0, q.size(2))), -INF)
    scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    return mappings.topk(scores, keep, ties).type_as(v) @ v


def results(function, tensors, *args, **kwargs):
    """The output, and the gradients of the tensors for random numbers as the output's gradient."""
    tensors = [tensor.clone().requires_grad_() for tensor in tensors]
    output = function(*tensors, *args, **kwargs)
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output.dtype)
    return [output] + list(torch.autograd.grad(output, tensors, probe))


def inputs(bsz, tgt_len, src_len, seed=0, dtype=torch.float64, ties=False):
    """q, k, v; with ties, small whole numbers, whose scores are often equal."""
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(bsz, 2, n, 4, generator=generator, dtype=torch.float64) for n in (tgt_len, src_len, src_len)]
    if ties:
        tensors[:2] = [tensor.round() for tensor in tensors[:2]]
    return [tensor.to(dtype) for tensor in tensors]


def random_masks(kind, bsz, tgt_len, src_len, seed):
    generator = torch.Generator().manual_seed(seed)
    masks = {}
    if kind in ("causal", "both"):
        masks["attn_mask"] = torch.full((tgt_len, src_len), -INF, dtype=torch.float64).triu(1)
    if kind == "additive":
        masks["attn_mask"] = torch.randn(tgt_len, src_len, generator=generator, dtype=torch.float64)
    if kind in ("hidden", "both"):
        hide = torch.rand(bsz, 2, tgt_len, src_len, generator=generator) < 0.4
        hide[0, :, : tgt_len // 2] = True  # queries that may see nothing
        hide[-1, :, :, src_len // 2 :] = True  # and padding
        masks["hidden"] = lambda sentences, queries: hide[sentences, :, queries]
    return masks


MASKS = ("none", "causal", "additive", "hidden", "both")


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 90)),
    keep=st.integers(1, 20),
    ties=st.sampled_from(["keep", "break"]),
    kind=st.sampled_from(MASKS),
    chunk=st.sampled_from([1, 200, 1000, 2**18]),
    seed=st.integers(0, 10**6),
)
def test_output_and_gradients_are_those_of_the_ordinary_path(shape, keep, ties, kind, chunk, seed):
    tensors, masks = inputs(*shape, seed=seed), random_masks(kind, *shape, seed=seed)
    with mock.patch.dict(long.CHUNK, cpu=chunk):
        actual = results(attend, tensors, keep, ties, **masks)
    for ours, expected in zip(actual, results(attend_ordinarily, tensors, keep, ties, **masks)):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype, atol", [(torch.float32, 1e-5), (torch.bfloat16, 0.1), (torch.float16, 0.02)], ids=str)
def test_other_dtypes(search, small_chunks, dtype, atol, kind):
    masks = random_masks(kind, 2, 30, 70, seed=1)
    if "attn_mask" in masks:
        masks["attn_mask"] = masks["attn_mask"].to(dtype)
    tensors = inputs(2, 30, 70, dtype=dtype)
    for ours, expected in zip(results(attend, tensors, 5, **masks), results(attend_ordinarily, tensors, 5, **masks)):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", ["none", "both"])
def test_ties_beyond_k_stay_where_the_rule_keeps_them(search, small_chunks, kind):
    """In float32 small whole numbers have exact scores, so both paths see the same ties."""
    tensors, masks = inputs(2, 30, 70, dtype=torch.float32, ties=True), random_masks(kind, 2, 30, 70, seed=1)
    scores, _ = long.best_scores(*tensors[:2], 5, **masks)
    assert ((scores > -INF).sum(-1) > 5).any() and ((scores > -INF).sum(-1) == 5).any()
    for ours, expected in zip(results(attend, tensors, 5, **masks), results(attend_ordinarily, tensors, 5, **masks)):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)
    scores, _ = long.best_scores(*tensors[:2], 5, ties="break", **masks)
    assert scores.size(-1) == 5


@pytest.mark.parametrize("ties", ["keep", "break"])
@pytest.mark.parametrize("kind", MASKS)
def test_gradcheck(small_chunks, ties, kind):
    tensors = [tensor.requires_grad_() for tensor in inputs(2, 5, 9)]
    masks = random_masks(kind, 2, 5, 9, seed=1)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, 3, ties, **masks), tensors)


def test_queries_that_may_see_nothing(search):
    tensors = inputs(1, 4, 9, dtype=torch.float32)
    hide = torch.zeros(1, 1, 4, 9, dtype=torch.bool)
    hide[..., 1, :] = True
    output, *gradients = results(attend, tensors, 3, hidden=lambda sentences, queries: hide[sentences, :, queries])
    assert (output[:, :, 1] == 0).all() and (output[:, :, 0] != 0).all()
    assert (gradients[0][:, :, 1] == 0).all()
    for gradient in gradients:
        assert gradient.isfinite().all()


def test_k_below_1_is_an_error():
    with pytest.raises(ValueError, match="keep is 0"):
        attend(*inputs(1, 2, 3), 0)


def test_deterministic(search):
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (results(attend, inputs(2, 64, 300, dtype=torch.float32), 8) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    for a, b in zip(first, second):
        assert torch.equal(a, b)


# ---- the layer ----


def site_config(site="cross", **options):
    options.setdefault("topk", 3)
    return SparseAttentionConfig(**options).resolve()[site]


def build(site="encoder-self", dropout=0.0, **options):
    torch.manual_seed(0)
    layer = SparseMultiheadAttention(
        WIDTH,
        HEADS,
        site=site,
        config=site_config(site, **options),
        dropout=dropout,
        self_attention=site != "cross",
        encoder_decoder_attention=site == "cross",
    )
    with torch.no_grad():
        for name, bias in layer.named_parameters():
            if name.endswith("bias"):
                bias.normal_()
    return layer


def batch(site, tgt_len=20, src_len=33, padded=True):
    """Arguments of a full pass whose sentences are padded on either side."""
    torch.manual_seed(1)
    key = torch.randn(src_len, 3, WIDTH)
    query = torch.randn(tgt_len, 3, WIDTH) if site == "cross" else key
    padding = torch.zeros(3, src_len, dtype=torch.bool)
    padding[1, src_len // 2 :] = True
    padding[2, :5] = True
    masks = {"key_padding_mask": padding if padded else None, "need_weights": False}
    if site == "decoder-self":
        masks["attn_mask"] = torch.full((src_len, src_len), -INF).triu(1)
        masks["key_padding_mask"] = None
    return (query, key, key), masks


def layer_results(layer, args, masks):
    layer.zero_grad()
    args = [args[0].clone().requires_grad_(), args[1].clone().requires_grad_()]
    query, key = args if layer.site == "cross" else (args[0], args[0])
    output, weights = layer(query, key, key, **masks)
    assert weights is None
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(2))
    (output * probe).sum().backward()
    return [output, query.grad, key.grad] + [parameter.grad for parameter in layer.parameters()]


def was_long(layer, args, masks):
    with mock.patch.object(long, "best_scores", wraps=long.best_scores) as kernel:
        layer(*args, **masks)
    return kernel.call_count == 1


RESTRICTIONS = [("full", site) for site in SITES] + [
    (pattern, site)
    for pattern in PATTERNS
    for site in SITES
    if pattern not in ("full", "out-of-window") and (site != "cross" or pattern == "random")
]


@pytest.mark.parametrize("pattern, site", RESTRICTIONS)
def test_the_layer_gives_the_numbers_of_its_ordinary_path(small_chunks, pattern, site):
    options = {} if pattern == "full" else dict(attention_pattern=pattern, attention_span=8, pattern_sites=site)
    long_, short = (build(site, attention_kernel=kernel, **options) for kernel in ("long", "short"))
    args, masks = batch(site)
    assert was_long(long_, args, masks) and not was_long(short, args, masks)
    for ours, expected in zip(layer_results(long_, args, masks), layer_results(short, args, masks)):
        torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("ties", ["keep", "break"])
@pytest.mark.parametrize("asked", ["need_weights", "need_head_weights"])
def test_weights(small_chunks, ties, asked):
    args, masks = batch("cross", src_len=8)  # some sentences have fewer keys than k
    masks[asked] = True
    long_, short = (build("cross", attention_kernel=kernel, topk_ties=ties) for kernel in ("long", "short"))
    assert was_long(long_, args, masks)
    weights, expected = (layer(*args, **masks)[1] for layer in (long_, short))
    assert weights.requires_grad and weights.dtype == torch.float32
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("left", [False, True])
def test_causal_attention_with_padding(small_chunks, left):
    """As a language model's batches have it; left padding makes rows that see nothing."""
    args, masks = batch("decoder-self")
    padding = batch("cross")[1]["key_padding_mask"]
    masks["key_padding_mask"] = padding.flip(1) if left else padding
    long_, short = (build("decoder-self", attention_kernel=kernel) for kernel in ("long", "short"))
    for ours, expected in zip(layer_results(long_, args, masks), layer_results(short, args, masks)):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)


def test_every_site_has_its_own_k():
    args, masks = batch("cross")
    for k in (2, 5):
        config = SparseAttentionConfig(topk=7, cross_topk=k, attention_kernel="long").resolve()["cross"]
        layer = build("cross")
        layer.config = config
        with mock.patch.object(long, "best_scores", wraps=long.best_scores) as kernel:
            layer(*args, **masks)
        assert kernel.call_args[0][2] == k


def test_half_layers(small_chunks):
    args, masks = batch("encoder-self")
    args = [arg.bfloat16() for arg in args]
    long_, short = (build(attention_kernel=kernel).bfloat16()(*args, **masks)[0] for kernel in ("long", "short"))
    assert long_.dtype == torch.bfloat16
    torch.testing.assert_close(long_, short, rtol=0, atol=0.05)


# ---- when it is taken ----


def test_auto_takes_it_for_long_rows_alone():
    layer = build("cross", topk=8)
    for src_len, expected in ((255, False), (256, True)):
        args, masks = batch("cross", src_len=src_len)
        assert was_long(layer, args, masks) == expected
    assert not was_long(build("cross", topk=33), *batch("cross", src_len=512))  # too many keys to be cheaper
    assert was_long(build("cross", topk=32), *batch("cross", src_len=512))
    for device, expected in (("cpu", True), ("meta", False)):  # when it pays is known of CPUs only
        assert layer._rows_are_long(torch.empty(512, 1, WIDTH, device=device), None) == expected


def test_what_it_cannot_do_goes_the_ordinary_way():
    args, masks = batch("cross")
    layer = build("cross", attention_kernel="long")
    assert was_long(layer, args, masks)
    assert not was_long(layer, args, {**masks, "before_softmax": True})
    assert not was_long(layer, args, {**masks, "incremental_state": {}, "static_kv": True})
    layer.observer = lambda *args: None
    assert not was_long(layer, args, masks)
    for phase, training in (("train", False), ("generate", True)):
        layer = build("cross", attention_kernel="long", topk_phase=phase)
        assert not was_long(layer.train(training), args, masks)
        assert was_long(layer.train(not training), args, masks)
    config = site_config(attention_kernel="long")
    added = SparseMultiheadAttention(
        WIDTH, HEADS, site="encoder-self", config=config, self_attention=True, add_zero_attn=True
    )
    assert not was_long(added, (args[1],) * 3, masks)


@pytest.mark.parametrize("options, named", [
    ({"topk": 0}, "--topk 0"),
    ({"attention_mapping": "sparsemax"}, "--attention-mapping sparsemax"),
    ({"attention_pattern": "window", "attention_span": 8}, "--attention-mapping softmax"),
    ({"topk_order": "after"}, "--topk-order after"),
    ({"topk_straight_through": True}, "--topk-straight-through"),
])  # fmt: skip
def test_asking_for_it_where_there_is_none_is_an_error(options, named):
    with pytest.raises(OptionError) as error:
        SparseAttentionConfig(attention_kernel="long", **options).resolve()
    message = str(error.value)
    assert "--attention-kernel long" in message and named in message and "\n" not in message
    assert SparseAttentionConfig(attention_kernel="short", **options).resolve()


# ---- dropout ----


def test_dropout_falls_on_the_chosen_keys():
    """All values are 1, so the output is the sum of the weights that are left."""
    p, k, size = 0.3, 8, 300
    layer = build(dropout=p, attention_kernel="long", topk=k).train()
    x = torch.randn(size, 2, WIDTH)
    with torch.no_grad():
        for projection in (layer.q_proj, layer.k_proj):
            projection.weight.zero_()
        layer.k_proj.weight[:, 0] = 1  # all scores of a query are equal up to the sign of a key's first number:
        layer.q_proj.bias.fill_(1)  # queries alike, so each picks the same k keys
        layer.v_proj.weight.zero_()
        layer.v_proj.bias.fill_(1)
        layer.out_proj.weight.copy_(torch.eye(WIDTH))
        layer.out_proj.bias.zero_()
    torch.manual_seed(3)
    with mock.patch.object(long, "weighted_sum", wraps=long.weighted_sum) as kernel:
        output = layer(x, x, x, need_weights=False)[0]
    dropped = kernel.call_args[0][0]  # (B, H, T, K)
    layer.eval()
    with mock.patch.object(long, "weighted_sum", wraps=long.weighted_sum) as kernel:
        whole = layer(x, x, x, need_weights=False)[0]
    weights = kernel.call_args[0][0]
    draws = weights.numel()
    assert abs((dropped == 0).double().mean().item() - p) < 5 * math.sqrt(p * (1 - p) / draws)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], (weights / (1 - p))[kept])
    torch.testing.assert_close(whole, torch.ones_like(whole))
    assert abs(output.mean().item() - 1) < 5 * math.sqrt(p / (1 - p) * (weights**2).sum().item()) / (draws / k)
    assert not torch.allclose(output, whole)


def test_dropout_repeats_with_the_seed_and_has_its_gradient():
    layer = build(dropout=0.5, attention_kernel="long").double().train()
    x = torch.randn(7, 1, WIDTH, dtype=torch.float64, requires_grad=True)

    def output(x, seed=4):
        torch.manual_seed(seed)
        return layer(x, x, x, need_weights=False)[0]

    assert torch.equal(output(x), output(x)) and not torch.equal(output(x), output(x, seed=5))
    assert torch.autograd.gradcheck(output, x)


# ---- training ----


def test_activation_checkpointing_gives_the_same_gradients():
    args, masks = batch("encoder-self")
    gradients = []
    for wrap in (lambda layer: layer, checkpoint_wrapper):
        layer = build(dropout=0.3, attention_kernel="long").train()
        x = args[0].clone().requires_grad_()
        torch.manual_seed(6)
        with mock.patch.object(long, "best_scores", wraps=long.best_scores) as kernel:
            wrap(layer)(x, x, x, **masks)[0].pow(2).sum().backward()
        gradients.append([x.grad] + [parameter.grad for parameter in layer.parameters()])
    assert kernel.call_count == 2  # forward, and once more in backward
    for plain, checkpointed in zip(*gradients):
        assert torch.equal(plain, checkpointed)


def saved_bytes(layer, x):
    """What autograd keeps between forward and backward, each storage once."""
    sizes = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = layer(x, x, x, need_weights=False)[0]
    del output
    return sum(sizes.values())


def test_memory_for_backward_grows_with_length_and_not_with_its_square():
    layers = {kernel: build(dropout=0.1, attention_kernel=kernel) for kernel in ("long", "short")}
    size = {}
    for kernel, layer in layers.items():
        for length in (300, 600):
            size[kernel, length] = saved_bytes(layer, torch.randn(length, 1, WIDTH, requires_grad=True))
    assert size["long", 600] <= 2.1 * size["long", 300]
    assert size["short", 600] > 3 * size["short", 300]
    assert size["long", 600] < size["short", 600] / 8


def test_memory_does_not_grow_over_200_steps():
    """No tensor outlives its step."""
    import gc

    layer = build(dropout=0.1, attention_kernel="long").train()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)

    def step():
        x = torch.randn(40, 2, WIDTH)
        optimizer.zero_grad()
        layer(x, x, x, need_weights=False)[0].pow(2).mean().backward()
        optimizer.step()

    def tensors():
        gc.collect()
        return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())

    for _ in range(5):
        step()
    before = tensors()
    for _ in range(200):
        step()
    assert tensors() <= before
