"""The patterns as pictures: one line a query, one column a key, 1 = visible."""

import pytest
import torch

from explicit_sparse import patterns
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import SiteConfig

SIZE = 8


def positions(causal, size=SIZE):
    """q (T, 1), k (1, S), n (T, 1) and which keys are not in the future (T, S)."""
    q, k = torch.arange(size).view(-1, 1), torch.arange(size).view(1, -1)
    n = q + 1 if causal else torch.full_like(q, size)
    return q, k, n, k < n


def picture(mask):
    return ["".join("1" if visible else "0" for visible in row) for row in mask.tolist()]


def draw(name, span, causal):
    q, k, n, allowed = positions(causal)
    if name == "block":
        visible = patterns.block(q, k, span)
    elif name == "global":
        visible = patterns.global_(q, k, span)
    else:
        visible = getattr(patterns, name)(q, k, n, span)
    return picture(visible & allowed)


PICTURES = {
    ("block", 3, False): """
        11100000
        11100000
        11100000
        00011100
        00011100
        00011100
        00000011
        00000011""",
    ("block", 3, True): """
        10000000
        11000000
        11100000
        00010000
        00011000
        00011100
        00000010
        00000011""",
    ("window", 3, False): """
        11100000
        11100000
        01110000
        00111000
        00011100
        00001110
        00000111
        00000111""",
    ("window", 4, False): """
        11110000
        11110000
        11110000
        01111000
        00111100
        00011110
        00001111
        00001111""",
    ("window", 3, True): """
        10000000
        11000000
        11100000
        01110000
        00111000
        00011100
        00001110
        00000111""",
    ("dilated", 3, False): """
        10101000
        01010100
        10101000
        01010100
        00101010
        00010101
        00101010
        00010101""",
    ("dilated", 3, True): """
        10000000
        01000000
        10100000
        01010000
        10101000
        01010100
        00101010
        00010101""",
    ("dilated", 2, False): """
        10100000
        01010000
        10100000
        01010000
        00101000
        00010100
        00001010
        00000101""",
    ("global", 2, False): """
        11111111
        11111111
        11000000
        11000000
        11000000
        11000000
        11000000
        11000000""",
    ("global", 2, True): """
        10000000
        11000000
        11000000
        11000000
        11000000
        11000000
        11000000
        11000000""",
}


@pytest.mark.parametrize("name, span, causal", PICTURES, ids=str)
def test_pictures(name, span, causal):
    assert draw(name, span, causal) == PICTURES[name, span, causal].split()


@pytest.mark.parametrize("name", ["block", "window", "dilated", "global"])
@pytest.mark.parametrize("causal", [False, True])
def test_span_of_the_sentence_or_more_shows_everything_the_pattern_can(name, causal):
    allowed = positions(causal)[-1]
    q, k = positions(causal)[:2]
    reachable = allowed & (q % 2 == k % 2) if name == "dilated" else allowed
    assert draw(name, SIZE, causal) == draw(name, 1000, causal) == picture(reachable)


# ---- random ----


def draw_random(span, causal=False, seed=7, size=SIZE):
    q, k, _, allowed = positions(causal, size)
    return patterns.random(patterns.random_priority(q, k, torch.tensor(seed)), allowed, span)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("span", [1, 3, 7, 8, 20])
def test_random_shows_as_many_keys_as_asked_or_all_there_are(causal, span):
    allowed = positions(causal)[-1]
    drawn = draw_random(span, causal)
    assert torch.equal(drawn.sum(-1), allowed.sum(-1).clamp(max=span))
    assert not (drawn & ~allowed).any()


def test_random_draws_are_fixed_for_ever():
    """A trained model needs at generation the keys that it saw in training."""
    assert picture(draw_random(3)) == [
        "00100011",
        "01000011",
        "10100010",
        "01100001",
        "10100010",
        "10000110",
        "00110100",
        "00011010",
    ]
    torch.manual_seed(99)  # the generator of the model's weights and of dropout plays no part
    assert torch.equal(draw_random(3), draw_random(3))


def test_random_of_a_causal_row_is_drawn_from_its_past():
    """In incremental decoding the future is absent, in training it is masked: the draw is the same."""
    q, k, _, _ = positions(True)
    whole = draw_random(3, causal=True)
    for t in range(SIZE):
        priority = patterns.random_priority(q[t : t + 1], k[:, : t + 1], torch.tensor(7))
        step = patterns.random(priority, torch.ones(1, t + 1, dtype=torch.bool), 3)
        assert torch.equal(step[0], whole[t, : t + 1])


def test_random_prefers_no_key():
    """Over many seeds and queries each of 8 keys is drawn in 3/8 of the cases."""
    seeds = torch.arange(500).view(-1, 1, 1)
    q, k, _, allowed = positions(False)
    drawn = patterns.random(patterns.random_priority(q, k, seeds), allowed, 3)
    rates = drawn.double().mean(0)
    assert (rates - 3 / 8).abs().max() < 0.09  # standard deviation 0.022
    assert (drawn.double().mean((0, 1)) - 3 / 8).abs().max() < 0.03


def test_priorities_are_not_negative_and_hardly_ever_equal():
    q, k = torch.arange(300).view(-1, 1), torch.arange(300).view(1, -1)
    priority = patterns.random_priority(q, k, torch.tensor(1))
    assert priority.min() >= 0 and priority.max() < 2**62
    assert priority.unique().numel() == 300 * 300


# ---- Big Bird ----


@pytest.mark.parametrize("causal", [False, True])
def test_bigbird_is_window_global_and_random_keys(causal):
    q, k, n, allowed = positions(causal)
    priority = patterns.random_priority(q, k, torch.tensor(3))
    visible = patterns.bigbird(q, k, n, priority, allowed, 4) & allowed
    # Window 2, global 1; each row but the first, which sees all, has one random key in addition.
    fixed = {
        False: """
            11111111
            11000000
            11100000
            10110000
            10011000
            10001100
            10000110
            10000011""",
        True: """
            10000000
            11000000
            11100000
            10110000
            10011000
            10001100
            10000110
            10000011""",
    }[causal].split()
    added = torch.tensor([[int(v) - int(f) for v, f in zip(*rows)] for rows in zip(picture(visible), fixed)])
    assert (added >= 0).all()
    assert added.sum(-1).tolist() == ([0, 0, 0, 1, 1, 1, 1, 1] if causal else [0, 1, 1, 1, 1, 1, 1, 1])


# ---- as the layer applies them ----


def layer_of(pattern, span, heads=1, width=SIZE, site="encoder-self", layer=0, seed=1):
    attention = SparseMultiheadAttention(
        width, heads, site=site, config=SiteConfig(pattern=pattern, span=span, pattern_seed=seed), self_attention=True
    )
    attention.layer = layer
    return attention.eval()


def look(attention, x, padding=None, causal=False):
    """Which keys the layer's heads attend to: (H, B, T, S)."""
    mask = torch.full((x.size(0),) * 2, float("-inf")).triu(1) if causal else None
    _, weights = attention(x, x, x, padding, attn_mask=mask, need_head_weights=True)
    return weights > 0


def with_scores(attention, scores):
    """Set the projections so that x = identity gives exactly these scores."""
    with torch.no_grad():
        attention.k_proj.weight.copy_(torch.eye(SIZE))
        attention.q_proj.weight.copy_(scores.t() / attention.scaling)
        attention.k_proj.bias.zero_()
        attention.q_proj.bias.zero_()
    return torch.eye(SIZE).unsqueeze(1)


def test_out_of_window_is_a_window_of_half_and_the_best_of_the_rest():
    # All rows like the late keys, and key 0 somewhat.
    scores = torch.tensor([5.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0]).repeat(SIZE, 1)
    attention = layer_of("out-of-window", 4)
    x = with_scores(attention, scores)
    assert picture(look(attention, x)[0, 0]) == [
        "11000011",
        "11000011",
        "01100011",
        "00110011",
        "00011011",
        "00001111",
        "10000111",
        "10000111",
    ]
    attention = layer_of("out-of-window", 4, site="decoder-self")
    x = with_scores(attention, scores)
    assert picture(look(attention, x, causal=True)[0, 0]) == [
        "10000000",
        "11000000",
        "11100000",
        "11110000",
        "10111000",
        "10011100",
        "10001110",
        "10000111",
    ]


def test_random_keys_differ_by_head_layer_and_seed():
    x = torch.randn(12, 1, 16)
    seen = look(layer_of("random", 4, heads=4, width=16), x)[:, 0]
    assert (seen.sum(-1) == 4).all()
    others = [
        look(layer_of("random", 4, heads=4, width=16, layer=1), x)[:, 0],
        look(layer_of("random", 4, heads=4, width=16, seed=2), x)[:, 0],
    ]
    draws = list(seen) + [head for other in others for head in other]
    assert len({str(picture(draw)) for draw in draws}) == 12
    assert torch.equal(seen, look(layer_of("random", 4, heads=4, width=16), x)[:, 0])


@pytest.mark.parametrize("pattern", ["block", "window", "dilated", "global", "random", "bigbird", "out-of-window"])
@pytest.mark.parametrize("site", ["encoder-self", "decoder-self"])
def test_padding_on_either_side_moves_nothing(pattern, site):
    causal = site == "decoder-self"
    attention = layer_of(pattern, 4, heads=2, width=16, site=site)
    x = torch.randn(10, 1, 16)
    alone = look(attention, x, causal=causal)[:, 0]
    for left in (0, 1, 5):
        padded = torch.randn(15, 1, 16)
        padded[left : left + 10] = x
        is_padding = torch.ones(1, 15, dtype=torch.bool)
        is_padding[0, left : left + 10] = False
        seen = look(attention, padded, is_padding, causal)[:, 0, left : left + 10]
        assert torch.equal(seen[:, :, left : left + 10], alone)
        assert seen.sum() == alone.sum()


@pytest.mark.parametrize("pattern", ["block", "window", "dilated", "global", "random", "bigbird", "out-of-window"])
@pytest.mark.parametrize("size", [1, 2])
def test_sentences_shorter_than_the_span(pattern, size):
    attention = layer_of(pattern, 8, heads=2, width=16)
    seen = look(attention, torch.randn(size, 3, 16))
    assert seen.sum().item() == 2 * 3 * (size if pattern == "dilated" else size**2)
