"""Fixed patterns: which keys a query may see at all, whatever their scores.

Pure functions of positions. A position counts the real tokens of a sentence from 0, so a
pattern does not depend on how a batch is padded. Arguments common to all of them:

    q: query positions, integer tensor broadcastable to (..., T, S), usually (..., T, 1)
    k: key positions, likewise, usually (..., 1, S)
    n: how many keys a query may see, (..., T, 1): the sentence's length, or q + 1 where the
       attention is causal
    span: how many keys the pattern shows a query

They return a boolean mask, True = visible. Masks for padding and the future stay with the
caller: keys at k >= n or behind padding are to be hidden as well.

Source: the comparison of "Top-k Selective Attention" (follow-up of arXiv 1912.11637);
Big Bird: arXiv 2007.14062.
"""

import torch
from torch import Tensor


def block(q: Tensor, k: Tensor, span: int) -> Tensor:
    """Sentences are cut into blocks of ``span`` tokens; a query sees its own block."""
    return torch.div(q, span, rounding_mode="floor") == torch.div(k, span, rounding_mode="floor")


def window(q: Tensor, k: Tensor, n: Tensor, span: int) -> Tensor:
    """The ``span`` keys nearest to the query (one more on its left where span is even).

    At the borders the window is moved inward and keeps its width; in causal attention, where
    n = q + 1, these are the last ``span`` keys.
    """
    last_start = (n - span).clamp(min=0)
    start = torch.minimum((q - span // 2).clamp(min=0), last_start)
    return (k >= start) & (k < start + span)


def dilated(q: Tensor, k: Tensor, n: Tensor, span: int) -> Tensor:
    """Every second key of a window twice as wide: the ``span`` nearest keys of the query's parity."""
    parity = q % 2
    thinned = torch.div(n - parity + 1, 2, rounding_mode="floor")  # keys of this parity
    half = window(
        torch.div(q, 2, rounding_mode="floor"), torch.div(k, 2, rounding_mode="floor"), thinned, span
    )
    return half & (k % 2 == parity)


def global_(q: Tensor, k: Tensor, span: int) -> Tensor:
    """The first ``span`` tokens are seen by all queries, and see all keys."""
    return (k < span) | (q < span)


def random(priority: Tensor, candidates: Tensor, span: int) -> Tensor:
    """``span`` random keys out of the candidates, or all of them where there are fewer.

    Args:
        priority: integers from :func:`random_priority`, (..., T, S); the smallest are drawn.
        candidates: boolean, broadcastable to (..., T, S).
    """
    span = min(span, priority.size(-1))
    priority = priority.masked_fill(~candidates, torch.iinfo(priority.dtype).max)
    drawn = priority.topk(span, dim=-1, largest=False).values[..., -1:]  # (..., T, 1)
    return (priority <= drawn) & candidates


def bigbird(q: Tensor, k: Tensor, n: Tensor, priority: Tensor, candidates: Tensor, span: int) -> Tensor:
    """A window of span/2, span/4 global tokens, and span/4 random keys out of the remaining ones."""
    fixed = window(q, k, n, span // 2) | global_(q, k, span // 4)
    return fixed | random(priority, candidates & ~fixed, span // 4)


def random_priority(q: Tensor, k: Tensor, seed: Tensor) -> Tensor:
    """A fixed pseudo-random integer in [0, 2^62) for each pair of positions.

    A hash rather than a generator: the draw depends on positions and seed only, so it is the
    same in training, in generation, one step at a time, and on every device.

    Args:
        seed: integer tensor broadcastable with q and k, e.g. (H, 1, 1) for a draw for each head.
    """
    x = _mix(seed)
    x = _mix(x ^ q)
    x = _mix(x ^ k)
    return x & (2**62 - 1)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64, on int64 that wraps around (constants as signed numbers)."""
    x = x + -7046029254386353131
    x = (x ^ _shift(x, 30)) * -4658895280553007687
    x = (x ^ _shift(x, 27)) * -7723592293110705685
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift; torch's own keeps the sign."""
    return (x >> bits) & (2 ** (64 - bits) - 1)
