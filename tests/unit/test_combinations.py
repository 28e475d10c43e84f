"""Every legal combination of mapping, pattern and site, against a reference that goes row by row.

The reference works on Python lists of (position, score) and shares nothing with the package but
the projections' weights.
"""

import math

import pytest
import torch

from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import MAPPINGS, PATTERNS, SITES, OptionError, SparseAttentionConfig

WIDTH, HEADS, SPAN, LAYER, SEED = 8, 2, 4, 2, 3
OPTIONS = {"topk": {"topk": 2}, "nm": {"nm": "1:3"}}  # of the mappings that have any


def is_legal(mapping, pattern, site):
    if site == "cross" and pattern not in ("full", "random"):
        return False
    return pattern != "out-of-window" or mapping == "softmax"


ALL = [(mapping, pattern, site) for mapping in MAPPINGS for pattern in PATTERNS for site in SITES]
LEGAL = [combination for combination in ALL if is_legal(*combination)]


def site_config(mapping, pattern, site):
    options = dict(OPTIONS.get(mapping, {}), attention_mapping=mapping, sparse_sites=site, pattern_seed=SEED)
    if pattern != "full":
        options.update(attention_pattern=pattern, attention_span=SPAN, pattern_sites=site)
    return SparseAttentionConfig(**options).resolve()[site]


def build(mapping, pattern, site):
    torch.manual_seed(0)
    layer = SparseMultiheadAttention(
        WIDTH,
        HEADS,
        site=site,
        config=site_config(mapping, pattern, site),
        self_attention=site != "cross",
        encoder_decoder_attention=site == "cross",
    )
    layer.layer = LAYER
    with torch.no_grad():
        layer.q_proj.weight.mul_(4)  # scores far apart, so that sparsemax and entmax drop keys
        for name, bias in layer.named_parameters():
            if name.endswith("bias"):
                bias.normal_()
    return layer.double().eval()


# ---- the reference ----


def hashed(value):
    """SplitMix64's finaliser on Python's integers."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) % 2**64
    return value ^ value >> 31


def drawn(query, candidates, count, place):
    site, head = place
    seed = ((SEED * 3 + SITES.index(site)) * 1024 + LAYER) * 1024 + head
    return sorted(candidates, key=lambda key: hashed(hashed(hashed(seed) ^ query) ^ key) % 2**62)[:count]


def nearest(query, candidates, count):
    return sorted(candidates, key=lambda key: (abs(key - query), key))[:count]


def visible_keys(pattern, query, scores, place):
    """The positions that a query at this position sees of the keys 0, 1, … with these scores."""
    keys = range(len(scores))
    if pattern == "full":
        return set(keys)
    if pattern == "block":
        return {key for key in keys if key // SPAN == query // SPAN}
    if pattern == "window":
        return set(nearest(query, keys, SPAN))
    if pattern == "dilated":
        return set(nearest(query, [key for key in keys if (key - query) % 2 == 0], SPAN))
    if pattern == "global":
        return {key for key in keys if key < SPAN or query < SPAN}
    if pattern == "random":
        return set(drawn(query, keys, SPAN, place))
    if pattern == "bigbird":
        seen = set(nearest(query, keys, SPAN // 2)) | {key for key in keys if min(key, query) < SPAN // 4}
        return seen | set(drawn(query, set(keys) - seen, SPAN // 4, place))
    assert pattern == "out-of-window"
    near = set(nearest(query, keys, SPAN // 2))
    return near | set(sorted(set(keys) - near, key=lambda key: -scores[key])[: SPAN // 2])


def softmax(scores):
    """Weights of {key: score}."""
    total = sum(math.exp(score) for score in scores.values())
    return {key: math.exp(score) / total for key, score in scores.items()}


def alpha_entmax(scores, alpha):
    def weights(tau):
        return {
            key: max((alpha - 1) * score - tau, 0) ** (1 / (alpha - 1)) for key, score in scores.items()
        }

    high = (alpha - 1) * max(scores.values())
    low = high - 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(weights(middle).values()) >= 1 else (low, middle)
    return weights(low)


def mapped(mapping, scores, length, alpha):
    """Weights of the visible keys {key: score} in a row of this length."""
    if mapping == "topk":
        best = sorted(scores, key=lambda key: -scores[key])[:2]
        return softmax({key: scores[key] for key in best})
    if mapping == "nm":
        kept = {}
        for start in range(0, length, 3):
            group = {key: scores[key] for key in range(start, start + 3) if key in scores}
            if len(group) == 3:
                best = max(group, key=group.get)
                group = {best: group[best]}
            kept.update(group)
        return softmax(kept)
    if mapping in ("sparsemax", "entmax15", "entmax"):
        return alpha_entmax(scores, {"sparsemax": 2.0, "entmax15": 1.5, "entmax": alpha}[mapping])
    if mapping == "rela":
        return {key: max(score, 0.0) for key, score in scores.items()}
    return softmax(scores)


def reference(layer, mapping, pattern, query, key, padding, causal):
    """Output (T, B, E), weights (H, B, T, S) and which keys are visible, likewise; padding queries hold NaN."""
    tgt_len, bsz, _ = query.shape
    src_len, width = key.size(0), WIDTH // HEADS
    q, k, v = layer.q_proj(query) * width**-0.5, layer.k_proj(key), layer.v_proj(key)
    weights = torch.full((HEADS, bsz, tgt_len, src_len), math.nan, dtype=torch.float64)
    visible = torch.zeros_like(weights, dtype=torch.bool)
    attended = torch.full((tgt_len, bsz, WIDTH), math.nan, dtype=torch.float64)
    for b in range(bsz):
        tokens = [s for s in range(src_len) if not padding[b, s]]
        for t in range(tgt_len):
            if layer.self_attention and padding[b, t]:
                continue
            position = tokens.index(t) if layer.self_attention else t
            keys = tokens[: position + 1] if causal else tokens
            for h in range(HEADS):
                part = slice(h * width, (h + 1) * width)
                scores = [torch.dot(q[t, b, part], k[s, b, part]).item() for s in keys]
                seen = visible_keys(pattern, position, scores, (layer.site, h))
                alpha = 1 + 1 / (1 + math.exp(-layer.pre_alpha[h].item())) if mapping == "entmax" else None
                row = mapped(mapping, {j: scores[j] for j in seen}, len(scores), alpha)
                weights[h, b, t] = 0
                attended[t, b, part] = 0
                for j in seen:
                    visible[h, b, t, keys[j]] = True
                for j, weight in row.items():
                    weights[h, b, t, keys[j]] = weight
                    attended[t, b, part] += weight * v[keys[j], b, part]
            if mapping == "rela":
                x, norm = attended[t, b], layer.value_norm
                rms = math.sqrt(sum(e * e for e in x.tolist()) / WIDTH + 1e-6)
                attended[t, b] = norm.gain * x / rms / (1 + torch.exp(-norm.gate * x))
    return layer.out_proj(attended), weights, visible


def causal_mask(size):
    return torch.full((size, size), -math.inf, dtype=torch.float64).triu(1)


def batch(site):
    """Query, key (the same for self-attention) and padding: none, left, right, and a single word."""
    torch.manual_seed(1)
    key = torch.randn(10, 4, WIDTH, dtype=torch.float64)
    query = torch.randn(6, 4, WIDTH, dtype=torch.float64) if site == "cross" else key
    padding = torch.zeros(4, 10, dtype=torch.bool)
    padding[1, :3] = padding[2, 6:] = padding[3, 1:] = True
    return query, key, padding


combinations = pytest.mark.parametrize("mapping, pattern, site", LEGAL)


# ---- the tests ----


def test_illegal_combinations_are_errors_and_no_others():
    assert len(LEGAL) == 114
    for combination in ALL:
        if is_legal(*combination):
            config = site_config(*combination)
            assert (config.mapping, config.pattern) == combination[:2]
        else:
            with pytest.raises(OptionError):
                site_config(*combination)


@combinations
def test_equal_to_the_reference(mapping, pattern, site):
    layer = build(mapping, pattern, site)
    query, key, padding = batch(site)
    causal = site == "decoder-self"
    with torch.no_grad():
        expected, expected_weights, visible = reference(layer, mapping, pattern, query, key, padding, causal)
    output, weights = layer(
        query,
        key,
        key,
        padding,
        attn_mask=causal_mask(query.size(0)) if causal else None,
        need_head_weights=True,
    )

    assert (weights[~visible & ~expected_weights.isnan()] == 0).all()  # nothing outside pattern or mask
    assert (weights.permute(1, 0, 2, 3)[padding[:, None, None].expand(-1, HEADS, query.size(0), -1)] == 0).all()
    real = ~expected.isnan().any(-1)  # (T, B): queries that are no padding
    torch.testing.assert_close(output[real], expected[real], rtol=1e-5, atol=1e-5)
    real = ~expected_weights.isnan()
    torch.testing.assert_close(weights.double()[real], expected_weights[real], rtol=1e-5, atol=1e-5)

    assert output.isfinite().all() and weights.isfinite().all()
    (output * torch.randn_like(output)).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


def reordered(order, cache, layer, *histories):
    layer.reorder_incremental_state(cache, order)
    return [history.index_select(1, order) for history in histories]


@pytest.mark.parametrize("mapping, pattern", [c[:2] for c in LEGAL if c[2] == "decoder-self"])
def test_incremental_decoder_equals_the_full_pass(mapping, pattern):
    """Two sentences with three beams, reordered before each step, as beam search does."""
    layer = build(mapping, pattern, "decoder-self")
    torch.manual_seed(2)
    cache, history = {}, torch.empty(0, 6, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        for step in range(10):
            if step:
                order = torch.cat([torch.randint(0, 3, (3,)), torch.randint(3, 6, (3,))])
                (history,) = reordered(order, cache, layer, history)
            query = torch.randn(1, 6, WIDTH, dtype=torch.float64)
            history = torch.cat([history, query])
            output, weights = layer(query, query, query, incremental_state=cache, need_head_weights=True)
            full, full_weights = layer(
                history, history, history, attn_mask=causal_mask(step + 1), need_head_weights=True
            )
            torch.testing.assert_close(weights, full_weights[:, :, -1:], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(output, full[-1:], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shared_keys", [False, True], ids=["repeated keys", "shared keys"])
@pytest.mark.parametrize("mapping, pattern", [c[:2] for c in LEGAL if c[2] == "cross"])
def test_incremental_cross_attention_equals_the_full_pass(mapping, pattern, shared_keys):
    """Three sentences with two beams; the second sentence is finished half way and leaves the batch."""
    layer = build(mapping, pattern, "cross")
    if shared_keys:  # the cache holds a sentence's keys once for all of its beams
        layer.set_beam_size(2)
    torch.manual_seed(2)
    key = torch.randn(9, 3, WIDTH, dtype=torch.float64).repeat_interleave(2, dim=1)
    padding = torch.zeros(6, 9, dtype=torch.bool)
    padding[2:4, 5:] = padding[4:, :4] = True
    cache, history = {}, torch.empty(0, 6, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        for step in range(6):
            if step == 3:
                order = torch.tensor([1, 1, 5, 4])
            else:
                order = torch.arange(history.size(1)).view(-1, 2).flip(1).flatten()  # swap the beams
            if step:
                history, key = reordered(order, cache, layer, history, key)
                padding = padding[order]
            query = torch.randn(1, history.size(1), WIDTH, dtype=torch.float64)
            history = torch.cat([history, query])
            output, weights = layer(
                query, key, key, padding, incremental_state=cache, static_kv=True, need_head_weights=True
            )
            full, full_weights = layer(history, key, key, padding, need_head_weights=True)
            assert weights.shape == (HEADS, history.size(1), 1, 9)
            torch.testing.assert_close(weights, full_weights[:, :, -1:], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(output, full[-1:], rtol=1e-5, atol=1e-6)
            if shared_keys:
                assert layer._get_input_buffer(cache)["cache"].key.size(0) == history.size(1) // 2


@pytest.mark.parametrize("options", [{"topk": 2}, {"topk": 2, "topk_ties": "break"}, {"topk": 2, "topk_order": "after"}])
def test_incremental_decoding_with_the_variants_of_topk(options):
    layer = build("topk", "full", "decoder-self")
    layer.config = SparseAttentionConfig(**options).resolve()["decoder-self"]
    x = torch.randn(9, 2, WIDTH, dtype=torch.float64)
    cache = {}
    with torch.no_grad():
        steps = torch.cat([layer(step, step, step, incremental_state=cache)[0] for step in x.split(1)])
        torch.testing.assert_close(steps, layer(x, x, x, attn_mask=causal_mask(9))[0], rtol=1e-5, atol=1e-6)
