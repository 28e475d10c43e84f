"""Attention mappings: masked scores -> attention weights.

Every function here takes ``scores`` of any leading shape ``(..., S)`` whose last
dimension runs over the S keys, with ``-inf`` where a key may not be attended to, and
returns weights of the same shape and dtype. They all keep the same promises:

1. Masks come first, selection after: the weight of a ``-inf`` score is exactly 0.
2. A row of only ``-inf`` gives a row of zeros, and zero gradients.
3. half and bfloat16 scores are computed in float32; float64 stays float64.
4. The input is never modified, and k larger than the row means dense.
5. A row with fewer than k allowed keys keeps all of them.
"""

import os

import entmax as _entmax
import torch
import torch.nn.functional as F
from torch import Tensor

from .alpha_entmax import AlphaEntmax
from .kernels import short
from .kernels.library import is_plain

if os.environ.get("EXPLICIT_SPARSE_KERNELS") == "triton":  # only then: importing Triton takes a while
    from .kernels import triton_topk as _fused
else:
    _fused = None

NEG_INF = float("-inf")


def softmax(scores: Tensor) -> Tensor:
    """Dense softmax: p_j = exp(s_j) / sum_i exp(s_i).

    Args:
        scores: (..., S), ``-inf`` = not allowed.

    Returns:
        Weights (..., S) in the dtype of ``scores``; rows sum to 1, or to 0 where no key is allowed.
    """
    return _rowwise(lambda x: F.softmax(x, dim=-1), scores)


def topk(
    scores: Tensor,
    k: int,
    ties: str = "keep",
    order: str = "before",
    renormalize: bool = False,
    straight_through: bool = False,
) -> Tensor:
    """Explicit selection: each query attends to the k keys with the highest scores.

    With t the k-th largest score of a row,

        p = softmax(s'),   s'_j = s_j if s_j >= t else -inf.

    Short rows on a CPU go through the compiled kernel where there is one, see
    :mod:`explicit_sparse.kernels.short`: the same keys, the same weights to rounding. For CUDA there is
    :mod:`explicit_sparse.kernels.triton_topk`, where it is asked for.

    Args:
        scores: (..., S), ``-inf`` = not allowed.
        k: keys kept in each row, at least 1; k >= S is plain softmax.
        ties: ``keep`` is the paper's rule, every score >= t stays, so equal scores can keep
            more than k; ``break`` keeps exactly k, and which of the equal scores stay is not defined.
        order: select ``before`` the softmax (the paper) or ``after`` it: p_j = softmax(s)_j or 0.
        renormalize: with ``after``, divide what is left by its sum.
        straight_through: forward as above, backward as dense softmax (the idea of arXiv 1308.3432).

    Returns:
        Weights (..., S) in the dtype of ``scores``.

    Raises:
        ValueError: if k < 1.

    Source: Explicit Sparse Transformer, arXiv 1912.11637, section 3.
    """
    if k < 1:
        raise ValueError("topk: k is {}; it must be at least 1".format(k))
    if straight_through and scores.requires_grad:
        dense = softmax(scores)
        return topk(scores.detach(), k, ties, order, renormalize) + (dense - dense.detach())
    if k >= scores.size(-1):
        return softmax(scores)
    if _fused and order == "before" and _fused.takes(scores):
        return _fused.topk_softmax(scores, k, exactly=ties == "break")
    x = _at_least_float32(scores)
    if order == "before" and short.takes(x, k):
        return short.topk_softmax(x, k, exactly=ties == "break").to(scores.dtype)

    def select(x: Tensor) -> Tensor:
        kept = topk_mask(x, k, ties)
        if order == "before":
            return F.softmax(x.masked_fill(~kept, NEG_INF), dim=-1)
        weights = F.softmax(x, dim=-1) * kept
        if renormalize:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights

    return _rowwise(select, scores)


def topk_mask(scores: Tensor, k: int, ties: str = "keep") -> Tensor:
    """True where a score is among the k largest of its row; see :func:`topk` for ``ties``.

    ``-inf`` scores may be marked True in rows with fewer than k allowed keys: they stay ``-inf``.

    Args:
        scores: (..., S)
        k: between 1 and S.
    """
    k = min(k, scores.size(-1))
    best = scores.detach().topk(k, dim=-1)  # values, indices: (..., k)
    if ties == "keep":
        return ~(scores < best.values[..., -1:])  # NaN stays, and makes its row NaN as in a softmax
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best.indices, 1)


def nm(scores: Tensor, n: int, m: int) -> Tensor:
    """Dynamic N:M sparsity: of every m consecutive keys the n with the highest scores, then softmax.

    A group that is cut short, by the end of the row or by a mask, keeps all its allowed keys.
    So S < m is plain softmax, and a causal row sees the same keys whether its future is
    masked or absent. Of equal scores the leftmost stay: exactly n are kept.

    Args:
        scores: (..., S), ``-inf`` = not allowed.
        n, m: 1 <= n < m.

    Returns:
        Weights (..., S) in the dtype of ``scores``.

    Source: arXiv 2203.00091.
    """
    if not 1 <= n < m:
        raise ValueError("nm: {}:{}; needs 1 <= N < M".format(n, m))
    size = scores.size(-1)
    if size < m:
        return softmax(scores)

    def select(x: Tensor) -> Tensor:
        padded = F.pad(x.detach(), (0, -size % m), value=NEG_INF)
        groups = padded.view(padded.shape[:-1] + (padded.size(-1) // m, m))  # (..., G, m)
        best = torch.sort(groups, dim=-1, descending=True, stable=True).indices[..., :n]
        kept = torch.zeros_like(groups, dtype=torch.bool).scatter(-1, best, 1)
        kept = kept | (groups == NEG_INF).any(-1, keepdim=True)  # a cut group stays dense
        return F.softmax(x.masked_fill(~kept.flatten(-2)[..., :size], NEG_INF), dim=-1)

    return _rowwise(select, scores)


def sparsemax(scores: Tensor) -> Tensor:
    """Sparsemax: the point of the simplex nearest to the scores, argmin_p ||p - s||^2.

    Exact, by sorting (entmax package). Shapes and guarantees as in the module's docstring.

    Raises:
        FloatingPointError: if a score is NaN or +inf.

    Source: arXiv 1602.02068.
    """
    return _rowwise(lambda x: _entmax.sparsemax(x, dim=-1), _finite(scores, "sparsemax"))


def entmax15(scores: Tensor) -> Tensor:
    """1.5-entmax, half way between softmax and sparsemax; exact, by sorting (entmax package).

    p_j = max(s_j / 2 - tau, 0)^2, with tau such that the weights sum to 1.

    Raises:
        FloatingPointError: if a score is NaN or +inf.

    Source: arXiv 1905.05702.
    """
    return _rowwise(lambda x: _entmax.entmax15(x, dim=-1), _finite(scores, "entmax15"))


def entmax(scores: Tensor, alpha: Tensor) -> Tensor:
    """alpha-entmax, by Newton's method; differentiable in scores and in alpha.

    p_j = max((alpha - 1) s_j - tau, 0)^(1 / (alpha - 1)), with tau such that the weights sum to 1:
    alpha -> 1 is softmax, 1.5 is 1.5-entmax, 2 is sparsemax.

    Args:
        scores: (..., S), ``-inf`` = not allowed.
        alpha: in (1, 2], broadcastable to (..., 1): for one alpha a head give (H, 1, 1) with scores (B, H, T, S).

    Returns:
        Weights (..., S) in the dtype of ``scores``.

    Raises:
        FloatingPointError: if a score is NaN or +inf.

    Source: arXiv 1909.00015 (learned alpha), 1905.05702. The method: :mod:`explicit_sparse.alpha_entmax`.
    """

    def solve(x: Tensor) -> Tensor:
        return AlphaEntmax.apply(x, alpha.to(x.dtype).expand(x.shape[:-1] + (1,)))

    return _rowwise(solve, _finite(scores, "entmax"))


def rela(scores: Tensor) -> Tensor:
    """Rectified linear attention: p_j = max(s_j, 0). Rows do not sum to 1, and may be all zero.

    The layer normalises the attended values instead: see :class:`explicit_sparse.attention.ReLANorm`.

    Source: arXiv 2104.07012.
    """
    return F.relu(scores)  # relu(-inf) = 0, with gradient 0


def _at_least_float32(scores: Tensor) -> Tensor:
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def _rowwise(mapping, scores: Tensor) -> Tensor:
    """Apply a mapping that needs an allowed key in every row: promises 2 and 3 for all of them.

    Rows without one are made finite before the mapping and zeroed after it. Zeroing alone
    would keep the output clean, but NaN would still reach the gradients. Such rows are rare:
    on a CPU it pays to look first, on a GPU looking would make the host wait for the device, and a trace would keep
    what it saw.
    """
    x = _at_least_float32(scores)
    empty = x.detach().amax(-1, keepdim=True) == NEG_INF  # (..., 1)
    if is_plain(x) and not empty.any():
        weights = mapping(x)
    else:
        weights = mapping(x.masked_fill(empty, 0.0)).masked_fill(empty, 0.0)
    return weights.to(scores.dtype)


def _finite(scores: Tensor, name: str) -> Tensor:
    """Refuse NaN and +inf: the sorting algorithms would read outside the row (on CUDA: kill the process)."""
    if scores.device.type == "cpu" and not is_plain(scores):
        return scores  # under vmap, in a trace or as a fake tensor there are no numbers to look at
    if not (scores.detach().amax(-1) < float("inf")).all():  # NaN compares False
        raise FloatingPointError(
            "{}: the attention scores hold NaN or +inf, so training has diverged before this layer; "
            "lower --lr, raise --warmup-updates or clip with --clip-norm".format(name)
        )
    return scores
