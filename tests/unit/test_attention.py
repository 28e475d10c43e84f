"""The layer against fairseq's own, its returned weights, and inputs at the edge."""

import math

import pytest
import torch
from fairseq.modules import MultiheadAttention

from explicit_sparse.attention import ReLANorm, SparseMultiheadAttention
from explicit_sparse.config import MAPPINGS, OptionError, SiteConfig, SparseAttentionConfig

WIDTH, HEADS = 12, 3
every_mapping = pytest.mark.parametrize("mapping", MAPPINGS)


def site_config(**options):
    return SparseAttentionConfig(**options).resolve()["cross"]  # without patterns all sites are alike


def build(site="encoder-self", config=None, cls=SparseMultiheadAttention, **kwargs):
    kwargs.update(self_attention=site != "cross", encoder_decoder_attention=site == "cross")
    if cls is SparseMultiheadAttention:
        kwargs.update(site=site, config=config or site_config())
    torch.manual_seed(0)
    layer = cls(WIDTH, HEADS, **kwargs)
    with torch.no_grad():
        for name, bias in layer.named_parameters():
            if name.endswith("bias"):
                bias.normal_()
    return layer.eval()


def stock(site, **kwargs):
    """fairseq's own module, on its Python path, with the same weights."""
    layer = build(site, cls=MultiheadAttention, **kwargs)
    layer.skip_embed_dim_check = True
    return layer


def causal_mask(size):
    return torch.full((size, size), -math.inf).triu(1)


def padding_mask(*real, size):
    """(B, size), True = padding; real[b] are the first and last + 1 token of sentence b."""
    mask = torch.ones(len(real), size, dtype=torch.bool)
    for row, (first, end) in zip(mask, real):
        row[first:end] = False
    return mask


# ---- k >= S is fairseq's own attention ----

DENSE = {
    "softmax": site_config(topk=0),
    "k = S": site_config(topk=9),
    "k > S": site_config(topk=100, topk_ties="break"),
    "ratio 1": site_config(topk_ratio=1),
    "k > S, after": site_config(topk=100, topk_order="after"),
}
BATCHES = {
    "full": ("encoder-self", 9, None, False),
    "padded right": ("encoder-self", 9, padding_mask((0, 9), (0, 4), size=9), False),
    "padded left": ("encoder-self", 9, padding_mask((3, 9), (0, 9), size=9), False),
    "causal": ("decoder-self", 9, None, True),
    "causal, padded right": ("decoder-self", 9, padding_mask((0, 9), (0, 6), size=9), True),
    "cross": ("cross", 5, None, False),
    "cross, padded right": ("cross", 5, padding_mask((0, 9), (0, 4), size=9), False),
    "cross, padded left": ("cross", 5, padding_mask((3, 9), (0, 9), size=9), False),
}
dense = pytest.mark.parametrize("config", DENSE.values(), ids=DENSE)


@dense
@pytest.mark.parametrize("site, tgt_len, padding, causal", BATCHES.values(), ids=BATCHES)
def test_k_at_least_s_is_stock(config, site, tgt_len, padding, causal):
    """Bit for bit, gradients too, on fairseq's Python path; to 1e-6 on the path through torch."""
    ours, theirs = build(site, config), stock(site)
    ours.load_state_dict(theirs.state_dict())
    key = torch.randn(9, 2, WIDTH)
    query = torch.randn(tgt_len, 2, WIDTH) if site == "cross" else key
    masks = {"key_padding_mask": padding, "attn_mask": causal_mask(9) if causal else None}
    probe = torch.randn(tgt_len, 2, WIDTH)

    results = []
    for layer in (ours, theirs):
        layer.zero_grad()
        output, weights = layer(query, key, key, need_head_weights=True, **masks)
        (output * probe).sum().backward()
        results.append([output, weights] + [parameter.grad for _, parameter in sorted(layer.named_parameters())])
    for actual, expected in zip(*results):
        assert torch.equal(actual, expected)

    theirs.skip_embed_dim_check = False
    output, weights = theirs(query, key, key, need_weights=True, **masks)
    torch.testing.assert_close(results[0][0], output, rtol=0, atol=1e-6)
    torch.testing.assert_close(results[0][1].mean(0), weights, rtol=0, atol=1e-6)


@dense
def test_incremental_self_attention_is_stock(config):
    ours, theirs = build("decoder-self", config), stock("decoder-self")
    caches = {}, {}
    for step, query in enumerate(torch.randn(9, 2, WIDTH).split(1)):
        # padding enters and leaves the frame; fairseq caches the mask as float
        step_padding = torch.tensor([[False], [True]]) if step in (3, 4) else None
        results = [
            layer(query, query, query, step_padding, incremental_state=cache, need_head_weights=True)
            for layer, cache in zip((ours, theirs), caches)
        ]
        for actual, expected in zip(*results):
            assert torch.equal(actual, expected)


@dense
@pytest.mark.parametrize("beam", [1, 2])
def test_incremental_cross_attention_is_stock_with_shared_beams(config, beam):
    """set_beam_size: queries have batch 2 * beam, cached keys batch 2."""
    ours, theirs = build("cross", config), stock("cross")
    padding = padding_mask((3, 9), (0, 9), size=9).repeat_interleave(beam, dim=0)
    key = torch.randn(9, 2, WIDTH).repeat_interleave(beam, dim=1)
    caches = {}, {}
    for query in torch.randn(4, 2 * beam, WIDTH).split(1):
        results = []
        for layer, cache in zip((ours, theirs), caches):
            layer.set_beam_size(beam)
            results.append(
                layer(
                    query, key, key, padding, incremental_state=cache, static_kv=True, need_head_weights=True
                )
            )
        for actual, expected in zip(*results):
            assert torch.equal(actual, expected)
        assert ours._get_input_buffer(caches[0])["cache"].key.size(0) == 2
        # The same as without sharing
        unshared = build("cross", config)(query, key, key, padding)[0]
        torch.testing.assert_close(results[0][0], unshared, rtol=0, atol=1e-6)


def test_before_softmax_returns_what_fairseq_returns():
    ours, theirs = build(), stock("encoder-self")
    x = torch.randn(7, 2, WIDTH)
    for actual, expected in zip(ours(x, x, x, before_softmax=True), theirs(x, x, x, before_softmax=True)):
        assert torch.equal(actual, expected)


# ---- the returned weights are those that were used ----


def attended(layer, weights, key):
    """Weights (H, B, T, S) times the values of key, through the rest of the layer: (T, B, E)."""
    v = layer.v_proj(key).unflatten(-1, (HEADS, -1))  # (S, B, H, D)
    x = torch.einsum("hbts,sbhd->tbhd", weights.to(v.dtype), v).flatten(-2)
    return layer.out_proj(x if layer.value_norm is None else layer.value_norm(x))


@every_mapping
@pytest.mark.parametrize("site", ["encoder-self", "decoder-self", "cross"])
def test_weights_on_every_path(mapping, site):
    layer = build(site, site_config(attention_mapping=mapping, topk=3 if mapping == "topk" else None))
    key = torch.randn(9, 2, WIDTH)
    query = torch.randn(5, 2, WIDTH) if site == "cross" else key
    inputs = dict(
        key=key,
        value=key,
        key_padding_mask=None if site == "decoder-self" else padding_mask((3, 9), (0, 9), size=9),
        attn_mask=causal_mask(9) if site == "decoder-self" else None,
    )
    output, weights = layer(query, need_head_weights=True, **inputs)
    assert weights.shape == (HEADS, 2, query.size(0), 9)
    torch.testing.assert_close(output, attended(layer, weights, key))
    output_, mean = layer(query, need_weights=True, **inputs)
    torch.testing.assert_close(mean, weights.mean(0))
    output__, nothing = layer(query, need_weights=False, **inputs)
    assert nothing is None
    assert torch.equal(output, output_) and torch.equal(output, output__)

    if site == "encoder-self":
        return
    cache, inputs = {}, dict(inputs, incremental_state={}, attn_mask=None, static_kv=site == "cross")
    for t, step in enumerate(query.split(1)):
        if site == "decoder-self":
            inputs.update(key=step, value=step)
        flags = [dict(need_head_weights=True), dict(need_weights=True), dict(need_weights=False)][t % 3]
        step_output, step_weights = layer(step, **{**inputs, **flags, "incremental_state": cache})
        seen = t + 1 if site == "decoder-self" else 9
        torch.testing.assert_close(step_output[0], output[t])
        if "need_head_weights" in flags:
            torch.testing.assert_close(step_weights, weights[:, :, t : t + 1, :seen])
        elif flags["need_weights"]:
            torch.testing.assert_close(step_weights, weights.mean(0)[:, t : t + 1, :seen])
        else:
            assert step_weights is None


def test_weights_are_those_before_dropout_and_the_output_uses_those_after_it():
    layer = build(config=site_config(topk=4), dropout=0.5).train()
    x = torch.randn(9, 2, WIDTH)
    torch.manual_seed(1)
    output, weights = layer(x, x, x, need_head_weights=True)
    torch.testing.assert_close(weights.sum(-1), torch.ones(HEADS, 2, 9))
    torch.manual_seed(1)
    dropped = torch.nn.functional.dropout(weights.transpose(0, 1), 0.5).transpose(0, 1)
    torch.testing.assert_close(output, attended(layer, dropped, x))
    evaluated, same = layer.eval()(x, x, x, need_head_weights=True)
    assert torch.equal(weights, same) and not torch.allclose(output, evaluated)
    torch.testing.assert_close(evaluated, attended(layer, weights, x))


def test_dropout_draws_the_random_numbers_of_stock():
    ours, theirs = build(config=site_config(topk=100), dropout=0.3).train(), stock("encoder-self", dropout=0.3).train()
    x = torch.randn(9, 2, WIDTH)
    outputs = []
    for layer in (ours, theirs):
        torch.manual_seed(5)
        outputs.append(layer(x, x, x)[0])
    assert torch.equal(*outputs)


@pytest.mark.parametrize("phase, training, sparse", [
    ("both", True, True), ("both", False, True),
    ("train", True, True), ("train", False, False),
    ("generate", True, False), ("generate", False, True),
])  # fmt: skip
def test_phase(phase, training, sparse):
    layer = build(config=site_config(topk=3, topk_phase=phase)).train(training)
    x = torch.randn(9, 2, WIDTH)
    weights = layer(x, x, x, need_head_weights=True)[1]
    assert ((weights > 0).sum(-1) == (3 if sparse else 9)).all()


# ---- inputs at the edge ----


@every_mapping
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_fully_masked_sentence(mapping, dtype):
    """Its rows attend to nothing: the output is the bias, and all gradients are finite."""
    layer = build(config=site_config(attention_mapping=mapping)).to(dtype)
    x = torch.randn(6, 2, WIDTH, dtype=dtype, requires_grad=True)
    padding = padding_mask((0, 0), (0, 4), size=6)
    output, weights = layer(x, x, x, padding, need_head_weights=True)
    assert output.dtype == dtype and weights.dtype == torch.float32
    assert (weights[:, 0] == 0).all() and (weights[..., 4:] == 0).all()
    torch.testing.assert_close(output[:, 0], layer.out_proj.bias.expand(6, WIDTH))
    output.float().pow(2).sum().backward()
    for name, tensor in [("input", x)] + list(layer.named_parameters()):
        assert tensor.grad is not None and tensor.grad.isfinite().all(), name


@every_mapping
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_equal_scores(mapping, dtype):
    """Every key has the same score, so all are among the best; N:M alone has to choose."""
    layer = build("cross", site_config(attention_mapping=mapping, topk=2 if mapping == "topk" else None)).to(dtype)
    key = torch.randn(1, 1, WIDTH, dtype=dtype).expand(5, 2, WIDTH)
    query = torch.randn(3, 2, WIDTH, dtype=dtype)
    output, weights = layer(query, key, key, need_head_weights=True)
    if mapping == "rela":
        assert torch.equal(weights, weights[..., :1].expand_as(weights))
    elif mapping == "nm":  # 2 of the first 4, and all of the tail
        assert ((weights > 0).sum(-1) == 3).all()
        torch.testing.assert_close(weights[..., 4], torch.full((HEADS, 2, 3), 1 / 3))
    else:
        torch.testing.assert_close(weights, torch.full((HEADS, 2, 3, 5), 0.2))
    output.float().pow(2).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name


@every_mapping
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (4, 1), (5, 3)], ids=str)
def test_any_number_of_queries_and_keys(mapping, shape):
    layer = build("cross", site_config(attention_mapping=mapping))
    tgt_len, src_len = shape
    key, query = torch.randn(src_len, 2, WIDTH), torch.randn(tgt_len, 2, WIDTH)
    output, weights = layer(query, key, key, need_head_weights=True)
    assert output.shape == query.shape and weights.shape == (HEADS, 2, tgt_len, src_len)
    if src_len == 1 and mapping != "rela":
        torch.testing.assert_close(weights, torch.ones_like(weights))
        torch.testing.assert_close(output, layer.out_proj(layer.v_proj(key)).expand_as(output))
    output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_selects_in_float32(dtype):
    """The scores of a half model are rounded, so ties can keep more than k: never less, and never the wrong keys."""
    layer = build(config=site_config(topk=3)).to(dtype)
    x = torch.randn(40, 8, WIDTH, dtype=dtype)
    scores, _ = layer(x, x, x, before_softmax=True)
    weights = layer(x, x, x, need_head_weights=True)[1].transpose(0, 1).flatten(0, 1)
    kept = weights > 0
    assert (kept.sum(-1) >= 3).all()
    assert torch.equal(kept, scores >= scores.topk(3, dim=-1).values[..., -1:])
    torch.testing.assert_close(weights.sum(-1), torch.ones(8 * HEADS, 40))  # summed in float32


def test_large_half_scores_do_not_overflow():
    layer = build(config=site_config(topk=3)).half()
    x = torch.randn(9, 2, WIDTH).half() * 60
    output, weights = layer(x, x, x, padding_mask((0, 5), (2, 9), size=9), need_head_weights=True)
    assert output.isfinite().all() and weights.isfinite().all()


@pytest.mark.parametrize("kdim", [None, 20])
def test_keys_of_another_width_and_other_lengths(kdim):
    layer = build("cross", site_config(topk=4), kdim=kdim, vdim=kdim)
    key = torch.randn(3, 2, kdim or WIDTH)  # fewer keys than k, more queries than keys
    output, weights = layer(torch.randn(11, 2, WIDTH), key, key, need_head_weights=True)
    assert output.shape == (11, 2, WIDTH) and (weights > 0).all()


# ---- alpha ----


def entmax_layer(**options):
    return build(config=site_config(attention_mapping="entmax", **options))


def test_alpha_is_one_plus_sigmoid_of_its_parameter_for_each_head():
    layer = entmax_layer()
    assert dict(layer.named_parameters())["pre_alpha"].shape == (HEADS,)
    with torch.no_grad():
        layer.pre_alpha.copy_(torch.tensor([-100.0, 0.0, 100.0]))
    torch.testing.assert_close(layer.alpha, torch.tensor([1.01, 1.5, 2.0]))


def test_fixed_alpha_adds_no_parameter():
    layer = entmax_layer(entmax_alpha=1.3)
    assert set(dict(layer.named_parameters())) == set(dict(stock("encoder-self").named_parameters()))
    torch.testing.assert_close(layer.alpha, torch.full((HEADS,), 1.3))


@pytest.mark.parametrize("sign", [1, -1])
def test_alpha_stays_in_range_after_a_huge_step(sign):
    layer = entmax_layer()
    x = torch.randn(9, 2, WIDTH)
    probe = torch.randn(9, 2, WIDTH)
    (layer(x, x, x)[0] * probe * sign).sum().backward()
    assert (layer.pre_alpha.grad != 0).all()
    torch.optim.SGD([layer.pre_alpha], lr=1e3).step()
    assert ((layer.alpha >= 1.01) & (layer.alpha <= 2)).all()
    output, weights = layer(x, x, x, need_head_weights=True)
    assert output.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(HEADS, 2, 9))


def test_alpha_of_each_head_equals_a_loop_over_layers_with_fixed_alpha():
    layer = entmax_layer()
    x = torch.randn(9, 2, WIDTH)
    weights = layer(x, x, x, need_head_weights=True)[1]
    for head, alpha in enumerate(layer.alpha.tolist()):
        fixed = entmax_layer(entmax_alpha=alpha)
        fixed.load_state_dict({n: t for n, t in layer.state_dict().items() if n != "pre_alpha"})
        torch.testing.assert_close(weights[head], fixed(x, x, x, need_head_weights=True)[1][head])


# ---- ReLA ----


@pytest.mark.parametrize("norm", ["gated", "plain"])
def test_rela_layer_equals_a_ten_line_reference(norm):
    layer = build(config=site_config(attention_mapping="rela", rela_norm=norm)).double()
    x = torch.randn(7, 1, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        layer.value_norm.gain.normal_()
        output = layer(x, x, x, padding_mask((0, 5), size=7))[0]

        heads = []
        for q, k, v in zip(*(f(x[:, 0]).chunk(HEADS, dim=-1) for f in (layer.q_proj, layer.k_proj, layer.v_proj))):
            weights = (q @ k.t() / math.sqrt(WIDTH // HEADS)).clamp(min=0)
            weights[:, 5:] *= 0
            heads.append(weights @ v)
        z = torch.cat(heads, dim=-1)
        y = layer.value_norm.gain * z / (z.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
        if norm == "gated":
            y = y * torch.sigmoid(layer.value_norm.gate * z)
    torch.testing.assert_close(output[:, 0], layer.out_proj(y), rtol=0, atol=1e-5)


def test_rela_norm_at_the_start():
    gated, plain = ReLANorm(64), ReLANorm(64, gated=False)
    assert (gated.gain == 1).all() and gated.gate.abs().max() <= math.sqrt(3 / 64) and gated.gate.std() > 0
    assert (plain.gain == 1 / 8).all() and plain.gate is None
    zeros = torch.zeros(2, 64, requires_grad=True)  # a query that attends to nothing
    for norm in (gated, plain):
        norm(zeros).sum().backward()
        assert (norm(zeros) == 0).all() and zeros.grad.isfinite().all()


# ---- construction ----


@every_mapping
def test_parameters_are_those_of_stock_and_the_mappings_own(mapping):
    layer = build(config=site_config(attention_mapping=mapping))
    names = set(dict(layer.named_parameters())) - set(dict(stock("encoder-self").named_parameters()))
    assert names == {"entmax": {"pre_alpha"}, "rela": {"value_norm.gain", "value_norm.gate"}}.get(mapping, set())


@pytest.mark.parametrize("kwargs", [{"add_bias_kv": True}, {"add_zero_attn": True}], ids=str)
def test_patterns_refuse_added_keys(kwargs):
    with pytest.raises(OptionError, match="--attention-pattern window"):
        build(config=SiteConfig(pattern="window", span=4), **kwargs)


def test_observer_sees_scores_and_weights():
    layer, seen = build(config=site_config(topk=3)), []
    layer.observer = lambda *args: seen.append(args)
    x = torch.randn(9, 2, WIDTH)
    weights = layer(x, x, x, need_head_weights=True)[1]
    ((module, scores, observed),) = seen
    assert module is layer and scores.shape == observed.shape == (2, HEADS, 9, 9)
    assert torch.equal(observed.transpose(0, 1), weights)
