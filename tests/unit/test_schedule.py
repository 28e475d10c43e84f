"""Training schedules of top-k: which k is in force at which update, and that nothing outside training sees them."""

import math

import pytest
import torch

from explicit_sparse import mappings
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import OptionError, SparseAttentionConfig
from explicit_sparse.schedule import Schedule

KEYS = 100


def layer(seed=1, **options):
    torch.manual_seed(0)
    config = SparseAttentionConfig(**options).resolve(seed=seed)["encoder-self"]
    return SparseMultiheadAttention(16, 2, site="encoder-self", config=config, self_attention=True)


def support(attention, updates, keys=KEYS):
    """How many keys each query keeps after so many updates."""
    attention.set_num_updates(updates)
    x = torch.randn(keys, 1, 16, generator=torch.Generator().manual_seed(1))
    _, weights = attention(x, x, x, need_head_weights=True)
    counts = (weights > 0).sum(-1)
    assert counts.min() == counts.max()
    return int(counts.max())


# ---- k at each update ----


def test_warmup_is_dense_for_exactly_n_updates():
    attention = layer(topk=8, topk_warmup_updates=3)
    assert [support(attention, t) for t in range(6)] == [KEYS, KEYS, KEYS, 8, 8, 8]


def test_annealing_goes_from_the_whole_row_to_k_by_a_constant_factor():
    attention = layer(topk=1, topk_anneal_updates=2)
    assert [support(attention, t) for t in range(4)] == [100, 10, 1, 1]
    kept = [Schedule(anneal_updates=50).keys_kept(8, 100, t) for t in range(60)]
    assert kept[0] == 100 and kept[50:] == [8] * 10
    assert all(kept[t] == math.ceil(100 * 0.08 ** (t / 50)) for t in range(50))
    assert all(a >= b for a, b in zip(kept, kept[1:]))


def test_annealing_starts_where_the_warmup_ends():
    together = Schedule(warmup_updates=7, anneal_updates=50)
    alone = Schedule(anneal_updates=50)
    assert [together.keys_kept(8, 100, t) for t in range(7)] == [100] * 7
    assert [together.keys_kept(8, 100, t + 7) for t in range(60)] == [alone.keys_kept(8, 100, t) for t in range(60)]


def test_annealing_follows_each_rows_own_length_and_leaves_short_rows_dense():
    schedule = Schedule(anneal_updates=2)
    assert schedule.keys_kept(4, 64, 1) == 16
    assert schedule.keys_kept(4, 16, 1) == 8
    assert [schedule.keys_kept(8, 5, t) for t in range(3)] == [5, 5, 5]


def test_dense_share_draws_from_seed_and_update_alone():
    def dense(seed, updates=2000):
        return [Schedule(dense_share=0.25, seed=seed).keys_kept(8, 100, t) == 100 for t in range(updates)]

    torch.manual_seed(5)
    first = dense(1)
    assert first == dense(1)
    assert torch.initial_seed() == 5
    assert 0.22 < sum(first) / len(first) < 0.28
    assert first != dense(2) and first[1:] != dense(2)[:-1]  # no seed repeats another's draws a step later


def test_dense_share_is_one_draw_for_all_layers_and_for_each_part_of_a_batch():
    layers = [layer(topk=8, topk_dense_share=0.5) for _ in range(2)]
    draws = [{support(attention, t) for attention in layers for _ in range(2)} for t in range(20)]
    assert all(len(draw) == 1 for draw in draws)
    assert {8, KEYS} == set.union(*draws)


def test_ratio_is_scheduled_like_k():
    attention = layer(topk_ratio=4, topk_warmup_updates=1)
    assert [support(attention, t) for t in range(2)] == [KEYS, 25]


def test_the_long_way_follows_the_schedule():
    attention = layer(topk=4, topk_anneal_updates=2, attention_kernel="long")
    assert [support(attention, t) for t in range(3)] == [100, 20, 4]


def test_after_the_softmax_a_dense_update_is_plain_softmax():
    attention = layer(topk=4, topk_order="after", topk_warmup_updates=1)
    dense = layer(topk=0)
    x = torch.randn(KEYS, 1, 16)
    assert torch.equal(attention(x, x, x)[0], dense(x, x, x)[0])
    attention.set_num_updates(1)
    assert not torch.equal(attention(x, x, x)[0], dense(x, x, x)[0])


# ---- outside training ----


@pytest.mark.parametrize(
    "options", [{"topk_warmup_updates": 100}, {"topk_anneal_updates": 100}, {"topk_dense_share": 0.999}]
)
def test_evaluation_never_sees_the_schedule(options):
    scheduled, plain = layer(topk=8, **options).eval(), layer(topk=8).eval()
    x = torch.randn(KEYS, 1, 16)
    assert support(scheduled, 0) == 8
    assert torch.equal(scheduled(x, x, x)[0], plain(x, x, x)[0])


def test_the_state_holds_nothing_of_the_schedule():
    assert layer(topk_warmup_updates=5).state_dict().keys() == layer().state_dict().keys()


# ---- options ----


@pytest.mark.parametrize(
    "options, named",
    [
        ({"topk_warmup_updates": -1}, "--topk-warmup-updates -1"),
        ({"topk_anneal_updates": -5}, "--topk-anneal-updates -5"),
        ({"topk_anneal_updates": 2.5}, "--topk-anneal-updates 2.5.*whole number"),
        ({"topk_dense_share": 1}, "--topk-dense-share 1.*below 1.*--topk-phase generate"),
        ({"topk_dense_share": -0.1}, "--topk-dense-share -0.1"),
        ({"topk_dense_share": float("nan")}, "--topk-dense-share nan"),
        ({"topk_dense_share": "half"}, "--topk-dense-share 'half'.*a number"),
        ({"topk_warmup_updates": 5, "topk_phase": "generate"}, "--topk-warmup-updates 5.*--topk-phase generate"),
        ({"topk_warmup_updates": 5, "attention_mapping": "sparsemax"}, "--topk-warmup-updates 5.*sparsemax"),
        ({"topk_dense_share": 0.5, "attention_mapping": "softmax"}, "--topk-dense-share 0.5.*softmax"),
    ],
)
def test_impossible_schedules_name_the_option(options, named):
    with pytest.raises(OptionError, match=named):
        SparseAttentionConfig(**options).resolve()


def test_without_a_schedule_there_is_none():
    assert layer().config.schedule is None


# ---- which keys get a gradient ----


def scores_with_gradient(**options):
    """The keys of one row that get a gradient, for a loss that reads one weight that stays."""
    scores = torch.arange(6.0).requires_grad_()
    weights = mappings.topk(scores, 2, **options)
    weights[5].backward()
    return scores.grad.ne(0).nonzero().flatten().tolist()


def test_before_the_softmax_only_selected_keys_get_a_gradient():
    assert scores_with_gradient() == [4, 5]


def test_after_the_softmax_all_keys_get_a_gradient_from_a_selected_one():
    assert scores_with_gradient(order="after") == [0, 1, 2, 3, 4, 5]


def test_after_the_softmax_and_renormalised_only_selected_keys_get_a_gradient():
    """Dividing by the sum of the selected cancels the sum over all keys: it is the softmax of the selected again."""
    scores = torch.randn(6, dtype=torch.float64).requires_grad_()
    (after,) = torch.autograd.grad(mappings.topk(scores, 2, order="after", renormalize=True).square().sum(), scores)
    (before,) = torch.autograd.grad(mappings.topk(scores, 2).square().sum(), scores)
    torch.testing.assert_close(after, before)


def test_straight_through_all_keys_get_the_gradient_of_the_softmax():
    assert scores_with_gradient(straight_through=True) == [0, 1, 2, 3, 4, 5]
