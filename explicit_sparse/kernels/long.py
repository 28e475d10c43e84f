"""Top-k attention for long rows: after the selection, time and memory for k keys a query instead of S.

The (T, S) matrix of scores never exists as a whole. It is computed a chunk at a time, the best
scores of each row are kept with their keys, and the chunk is forgotten. What follows (softmax,
dropout) runs on (T, k), and both the product with the values and the whole backward pass touch
only the chosen keys: O(T k D) time, O(T k + chunk) memory.

    values, keys = best_scores(q, k, keep)     (B, H, T, K)
    weights = softmax(values)                  ordinary torch, float32
    output = weighted_sum(weights, v, keys)    (B, H, T, D)

Plain torch on any device; on a CPU a compiled search (``long.cpp``) finds the best of float32 scores where it was
built. Deterministic, as no sum here has an order that is left to chance.

Source: the chunks are those of "Memory-efficient Transformers via Top-k Attention", arXiv 2106.06899.
"""

import ctypes
from typing import Callable, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .library import is_plain, load

NEG_INF = float("-inf")
CHUNK = {"cpu": 2**18, "cuda": 2**26}  # scores at a time: a core's cache, and enough to fill a GPU
BLOCK = 8  # keys of which only the best is looked at first

_library, _ = load("long")
if _library is not None:
    _pointer, _number = ctypes.c_void_p, ctypes.c_int64
    _library.largest.argtypes = [_pointer, _number, _number, _number, _pointer, _pointer, _number]
    _library.largest.restype = None

# Which keys are hidden from these sentences' queries, beside attn_mask: (b, 1 or H, t, S), True = hidden.
Hidden = Callable[[slice, slice], Optional[Tensor]]


def pays(src_len: int, keep: int) -> bool:
    """Whether rows of this length are faster here than through a matrix of all scores.

    Measured on one core of an AMD EPYC (Zen 4), a module's forward and backward, 64 numbers a head, both paths with
    their compiled kernels. With 4,096 tokens a batch k = 8 is 1.3 times as fast at 256 keys, with a single sentence
    even at 300; k = 16 is even at about 400, 32 at 512, and 64 is ahead at 1024.
    """
    return src_len >= max(256, 16 * keep)


def best_scores(
    q: Tensor,
    k: Tensor,
    keep: int,
    ties: str = "keep",
    attn_mask: Optional[Tensor] = None,
    hidden: Optional[Hidden] = None,
) -> Tuple[Tensor, Tensor]:
    """The best scores s = q k^T + attn_mask of each query, and whose they are.

    Args:
        q: queries, already scaled, (B, H, T, D).
        k: keys, (B, H, S, D).
        keep: how many keys to keep, at least 1; more than S keeps all.
        ties: ``keep`` also keeps every score equal to the k-th, ``break`` does not
            (see :func:`explicit_sparse.mappings.topk`).
        attn_mask: (T, S), added to the scores, -inf = not allowed; gets no gradient.
        hidden: called with a slice of the sentences and a slice of the queries.

    Returns:
        Scores (B, H, T, K) in float32, or float64 for float64, and their keys (B, H, T, K) in int32.
        K is ``keep``, or more where ties need it. A row with fewer allowed keys is filled up with
        scores of -inf. Differentiable in q and k.

    Raises:
        ValueError: if keep < 1.
    """
    if keep < 1:
        raise ValueError("best_scores: keep is {}; it must be at least 1".format(keep))
    return _BestScores.apply(q, k, keep, ties, attn_mask, hidden)


def weighted_sum(weights: Tensor, v: Tensor, keys: Tensor) -> Tensor:
    """o_i = sum_j weights_ij v_keys(ij): weights times values, of the chosen keys alone.

    Args:
        weights: (B, H, T, K), in the dtype of v.
        v: values, (B, H, S, D).
        keys: (B, H, T, K), from :func:`best_scores`.

    Returns:
        (B, H, T, D) in the dtype of v. Differentiable in weights and v.
    """
    return _WeightedSum.apply(weights, v, keys)


class _BestScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, keep, ties, attn_mask, hidden):
        values, keys = _search(q, k, keep, ties, attn_mask, hidden)
        ctx.save_for_backward(q, k, keys)
        ctx.mark_non_differentiable(keys)
        return values, keys

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        q, k, keys = ctx.saved_tensors
        grad = grad.to(q.dtype)
        grad_q = _gather_sum(grad, k, keys) if ctx.needs_input_grad[0] else None
        grad_k = _scatter_sum(grad, q, keys, k.size(2)) if ctx.needs_input_grad[1] else None
        return grad_q, grad_k, None, None, None, None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights, v, keys):
        ctx.save_for_backward(weights, v, keys)
        return _gather_sum(weights, v, keys)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        weights, v, keys = ctx.saved_tensors
        grad_weights = _gather_dot(grad, v, keys) if ctx.needs_input_grad[0] else None
        grad_v = _scatter_sum(weights, grad, keys, v.size(2)) if ctx.needs_input_grad[1] else None
        return grad_weights, grad_v, None


# ---- the search for the best keys ----


def _search(q, k, keep, ties, attn_mask, hidden) -> Tuple[Tensor, Tensor]:
    """The forward pass of :func:`best_scores`, chunk by chunk."""
    bsz, heads, tgt_len, _ = q.shape
    src_len = k.size(2)
    keep = min(keep, src_len)
    budget = CHUNK.get(q.device.type, CHUNK["cuda"])
    queries = _at_most(budget // src_len, tgt_len)
    together = _at_most(budget // (src_len * queries), heads)
    sentences = _at_most(budget // (src_len * queries * together), bsz)

    values = q.new_full(
        (bsz, heads, tgt_len, keep), NEG_INF, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32
    )
    keys = torch.zeros(values.shape, dtype=torch.int32, device=q.device)
    for rows in _slices(tgt_len, queries):
        bias = None if attn_mask is None else attn_mask[rows]  # (t, S)
        for batch in _slices(bsz, sentences):
            hide = None if hidden is None else hidden(batch, rows)  # (b, 1 or H, t, S)
            end = _reach(bias, hide, src_len) if q.device.type == "cpu" else src_len
            if end == 0:
                continue
            for head in _slices(heads, together):
                scores = torch.matmul(q[batch, head, rows], k[batch, head, :end].transpose(-1, -2))  # (b, h, t, S)
                if bias is not None:
                    scores += bias[:, :end]
                scores = scores.to(values.dtype)
                if hide is not None:
                    hide_ = hide if hide.size(1) == 1 else hide[:, head]
                    scores.masked_fill_(hide_[..., :end], NEG_INF)
                best, found = _select(scores, keep, ties)
                width = best.size(-1)
                if width > values.size(-1):  # ties
                    values = F.pad(values, (0, width - values.size(-1)), value=NEG_INF)
                    keys = F.pad(keys, (0, width - keys.size(-1)))
                values[batch, head, rows, :width] = best
                keys[batch, head, rows, :width] = found
    return values, keys


def _select(scores: Tensor, keep: int, ties: str) -> Tuple[Tensor, Tensor]:
    """The ``keep`` largest scores of each row, with ``keep`` all that equal the last: (..., S) -> (..., K) twice."""
    size = scores.size(-1)
    if ties == "break" or keep >= size:
        return largest(scores, min(keep, size))
    values, keys = largest(scores, keep + 1)  # one more shows whether there are ties
    kth = values[..., keep - 1 : keep]
    if not ((values[..., keep:] == kth) & (kth != NEG_INF)).any():
        return values[..., :keep], keys[..., :keep]
    width = int(((scores >= kth) & (scores != NEG_INF)).sum(-1).amax())
    values, keys = largest(scores, max(width, keep))
    return values.masked_fill(values < kth, NEG_INF), keys


def largest(x: Tensor, k: int) -> Tuple[Tensor, Tensor]:
    """torch.topk, faster on long rows: the k largest numbers of each row, sorted, and their places in int32.

    Args:
        x: (..., S), contiguous.
        k: between 1 and S.

    Returns:
        Values and places, (..., k). The place of a number that is -inf is any.
    """
    if _library is None or not is_plain(x) or x.dtype != torch.float32:
        values, places = _largest_by_blocks(x, k)
        return values, places.int()
    values = x.new_empty(x.shape[:-1] + (k,))
    places = torch.empty(values.shape, dtype=torch.int32)
    size = x.size(-1)
    _library.largest(
        x.data_ptr(), x.numel() // size, size, k, values.data_ptr(), places.data_ptr(), torch.get_num_threads()
    )
    return values, places


def _largest_by_blocks(x: Tensor, k: int) -> Tuple[Tensor, Tensor]:
    """The k largest numbers of a row are in the k blocks with the largest maxima: torch.topk of blocks, then in them.

    Maxima over blocks take a fraction of the time of a selection: blocks are strided, so whole vectors are compared.
    """
    blocks = x.size(-1) // BLOCK
    if blocks < 4 * k:  # measured: with fewer blocks torch.topk of the whole row is as fast
        return x.topk(k, dim=-1)
    whole = x[..., : blocks * BLOCK].unflatten(-1, (BLOCK, blocks))  # block b: numbers b, b + blocks, …
    chosen = _largest_by_blocks(whole.amax(-2), k)[1]  # (..., k)
    members = whole.gather(-1, chosen.unsqueeze(-2).expand(whole.shape[:-1] + (k,)))  # (..., BLOCK, k)
    candidates = torch.cat([members.flatten(-2), x[..., blocks * BLOCK :]], dim=-1)
    values, place = candidates.topk(k, dim=-1)
    in_block = chosen.gather(-1, place % k) + torch.div(place, k, rounding_mode="floor") * blocks
    return values, torch.where(place < BLOCK * k, in_block, place + (blocks - k) * BLOCK)


def _reach(bias: Optional[Tensor], hide: Optional[Tensor], src_len: int) -> int:
    """1 + the last key that any of these queries may see; what lies behind need not be computed."""
    if bias is None and hide is None:
        return src_len
    seen = torch.ones(src_len, dtype=torch.bool) if bias is None else (bias != NEG_INF).any(0)
    if hide is not None:
        seen = seen & ~hide.all(-2).flatten(0, -2).all(0)
    seen = seen.nonzero()
    return int(seen[-1]) + 1 if len(seen) else 0


def _at_most(wanted: int, available: int) -> int:
    return max(1, min(wanted, available))


def _slices(size: int, step: int):
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


# ---- sums over the chosen keys ----


def _gather_sum(weights: Tensor, x: Tensor, keys: Tensor) -> Tensor:
    """o_i = sum_j weights_ij x_keys(ij): (B, H, T, K) weights, x (B, H, S, D) -> (B, H, T, D)."""
    bags = _flat(keys, x.size(2))  # (B*H*T, K)
    summed = F.embedding_bag(bags, _table(x), per_sample_weights=weights.reshape(bags.shape), mode="sum")
    return summed.view(keys.shape[:3] + x.shape[3:])


def _scatter_sum(weights: Tensor, x: Tensor, keys: Tensor, src_len: int) -> Tensor:
    """o_s = sum of weights_ij x_i over the ij with keys(ij) = s: x (B, H, T, D) -> (B, H, S, D).

    Sorting the pairs by key makes of it the same sum as above, in a fixed order.
    """
    by_key, order = torch.sort(_flat(keys, src_len).flatten(), stable=True)  # (B*H*T*K,)
    rows = keys.size(0) * keys.size(1) * src_len
    starts = torch.searchsorted(by_key, torch.arange(rows, dtype=by_key.dtype, device=by_key.device))
    queries = torch.div(order, keys.size(-1), rounding_mode="floor")
    summed = F.embedding_bag(
        queries.to(by_key.dtype),
        _table(x),
        starts.to(by_key.dtype),
        per_sample_weights=weights.reshape(-1)[order],
        mode="sum",
    )
    return summed.view(x.shape[:2] + (src_len,) + x.shape[3:])


def _gather_dot(x: Tensor, y: Tensor, keys: Tensor) -> Tensor:
    """o_ij = x_i · y_keys(ij): x (B, H, T, D), y (B, H, S, D) -> (B, H, T, K)."""
    bags, queries, table = _flat(keys, y.size(2)), _table(x), _table(y)
    dots = torch.empty(bags.shape, dtype=x.dtype, device=x.device)
    step = _at_most(CHUNK.get(x.device.type, CHUNK["cuda"]) // (bags.size(1) * x.size(3)), len(bags))
    for rows in _slices(len(bags), step):
        chosen = table.index_select(0, bags[rows].flatten()).view(-1, bags.size(1), x.size(3))  # (t, K, D)
        dots[rows] = chosen.mul_(queries[rows].unsqueeze(1)).sum(-1)
    return dots.view(keys.shape)


def _table(x: Tensor) -> Tensor:
    """All rows of all heads one below the other: (B, H, S, D) -> (B*H*S, D)."""
    return x.reshape(-1, x.size(-1))


def _flat(keys: Tensor, src_len: int) -> Tensor:
    """Keys of a head -> rows of :func:`_table`: (B, H, T, K) -> (B*H*T, K)."""
    heads = keys.size(0) * keys.size(1)
    dtype = torch.int32 if heads * max(src_len, keys.size(2)) < 2**31 else torch.int64
    first = torch.arange(heads, dtype=dtype, device=keys.device) * src_len
    return (keys.view(heads, -1) + first.unsqueeze(-1)).view(-1, keys.size(-1))
