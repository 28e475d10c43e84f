"""What attention weights say, as pure functions on tensors: how sparse, where to, how heads differ.

Shapes: N queries (padding left out), H heads, S keys; B sentences, T queries of a sentence; "..." is any leading
dimensions. Weights are those that the model multiplied the values by; a key that is not allowed (padding, the future)
has weight exactly 0. Every function leaves its arguments alone and computes in their dtype.
"""

import unicodedata
from typing import Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

ROLES = ("previous", "next", "same", "word")
KINDS = ("end of sentence", "punctuation", "same position", "neighbour", "other")
TAIL_K = 8  # the paper's k

# The measures of compare_rows, in the words of a reader: A is the first system, B the second.
COMPARISON = {
    "outside_head": "A's weight on keys outside the support of a head of B (mean over heads)",
    "outside": "A's weight on keys that no head of B attends to",
    "moved": "weight that lies elsewhere in B than in A",
    "new": "B's weight on keys to which B attends and A does not",
    "lost": "A's weight on keys to which A attends and B does not",
}


def support(weights: Tensor) -> Tensor:
    """Number of keys with weight > 0: (..., S) -> (...)."""
    return (weights > 0).sum(-1)


def density(weights: Tensor, allowed: Tensor) -> Tensor:
    """Share of the allowed keys with weight > 0.

    density = |{s : w_s > 0}| / |{s : s allowed}|,   0 where nothing is allowed

    Args:
        weights: (..., S).
        allowed: (..., S) bool, True = the query may see the key.

    Returns:
        (...), in [0, 1].

    Source: arXiv 1909.00015, section 5 (attention density).
    """
    return support(weights).to(weights.dtype) / allowed.sum(-1).clamp(min=1).to(weights.dtype)


def normalised(weights: Tensor) -> Tensor:
    """Rows scaled to sum 1; rows without any weight stay 0: (..., S) -> (..., S).

    Matters to ReLA and to top-k after softmax, whose rows have other sums.
    """
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1)


def entropy(weights: Tensor) -> Tensor:
    """Shannon entropy of the rows scaled to sum 1, in nats; 0 for a row without any weight: (..., S) -> (...).

    H(p) = - sum_s p_s log p_s,   between 0 (one key) and log S (all keys alike)
    """
    p = normalised(weights)
    return -torch.xlogy(p, p).sum(-1)


def is_empty(weights: Tensor) -> Tensor:
    """Whether a query attends to nothing, as ReLA allows: (..., S) -> (...) bool."""
    return support(weights) == 0


def tail(weights: Tensor, k: int = TAIL_K) -> Tensor:
    """Weight outside a row's own k largest weights, what top-k selection would drop: (..., S) -> (...)."""
    best = weights.topk(min(k, weights.size(-1)), dim=-1).indices
    return weights.scatter(-1, best, 0).sum(-1)


def head_divergence(weights: Tensor) -> Tuple[Tensor, Tensor]:
    """Generalised Jensen-Shannon divergence between the heads of a layer, in nats.

    JS = H(1/H sum_h p_h) - 1/H sum_h H(p_h),   between 0 (heads agree) and log H (disjoint supports)

    with p_h the row of head h scaled to sum 1. A head that attends to nothing has no distribution and is left
    out of its query's divergence.

    Args:
        weights: (N, H, S).

    Returns:
        The divergence (N,), 0 where fewer than two heads attend, and where at least two do, (N,) bool.

    Source: arXiv 1909.00015, section 5 (head diversity).
    """
    heads = (~is_empty(weights)).sum(1)  # (N,)
    mean = normalised(weights).sum(1) / heads.clamp(min=1).unsqueeze(-1)  # (N, S)
    divergence = entropy(mean) - entropy(weights).sum(1) / heads.clamp(min=1)
    several = heads >= 2
    return divergence.clamp(min=0).masked_fill(~several, 0), several


def role_masks(query_positions: Tensor, key_positions: Tensor, words: Optional[Tensor] = None) -> Dict[str, Tensor]:
    """The keys that a head of a given role looks at.

    previous, next, same: the key one before, one after, or at the query's position; word: the other subwords of
    the query's own word.

    Args:
        query_positions: (B, T), counted from 0 at a sentence's first token; -1 = padding.
        key_positions: (B, S), likewise.
        words: (B, T), the number of the word each token belongs to, for self-attention, where T = S; None for
            attention to another sentence, which has no words in common.

    Returns:
        {role: (B, T, S) bool}

    Source: arXiv 1905.09418 (positional heads), arXiv 1909.00015, section 5 (the head that merges subwords).
    """
    real = (query_positions >= 0).unsqueeze(-1) & (key_positions >= 0).unsqueeze(-2)  # (B, T, S)
    offset = key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)
    masks = {"previous": (offset == -1) & real, "next": (offset == 1) & real, "same": (offset == 0) & real}
    if words is not None:
        masks["word"] = (words.unsqueeze(-1) == words.unsqueeze(-2)) & (offset != 0) & real
    return masks


def role_share(weights: Tensor, mask: Tensor, allowed: Tensor) -> Tuple[Tensor, Tensor]:
    """Weight on a role's keys, and all the weight of the queries that have such a key.

    The first query has no previous key, and a word of one subword nothing to merge: such queries say nothing
    about the role. The head's share is the first sum over the second.

    Args:
        weights: (N, H, S).
        mask: (N, S), from :func:`role_masks`.
        allowed: (N, S), True = the query may see the key.

    Returns:
        Two sums for each head, (H,).
    """
    mask = mask & allowed
    having = mask.any(-1)  # (N,)
    on_role = (weights * mask.unsqueeze(1)).sum((0, 2))
    return on_role, weights[having].sum((0, 2))


def kind_masks(eos: Tensor, punctuation: Tensor, query_positions: Tensor, key_positions: Tensor) -> Dict[str, Tensor]:
    """Every key as one of five kinds; where two fit, the first of KINDS.

    Args:
        eos, punctuation: (B, S) bool, what the key's token is.
        query_positions, key_positions: (B, T), (B, S), counted from 0 at a sentence's first token; -1 = padding.

    Returns:
        {kind: (B, T, S) bool}, disjoint; together all keys but padding. In attention to another sentence the same
        position means as many tokens from its beginning.
    """
    key = key_positions.unsqueeze(-2)  # (B, 1, S)
    distance = (key - query_positions.unsqueeze(-1)).abs()  # (B, T, S)
    fits = (eos.unsqueeze(-2), punctuation.unsqueeze(-2), distance == 0, distance == 1, distance >= 0)
    left = (key >= 0).expand_as(distance)
    masks = {}
    for kind, fit in zip(KINDS, fits):
        masks[kind] = left & fit
        left = left & ~fit
    return masks


def is_punctuation(token: str) -> bool:
    """Whether a token is punctuation and symbols only (Unicode categories P and S), subword marks aside."""
    bare = token.replace("@@", "").replace("\u2581", "")
    return bool(bare) and all(unicodedata.category(character)[0] in "PS" for character in bare)


def word_numbers(tokens: Sequence[str], subwords: str, special: Sequence[str] = ("</s>",)) -> List[int]:
    """The number of the word each token belongs to, counted from 0.

    Args:
        tokens: of one sentence.
        subwords: ``subword-nmt`` (a token that goes on ends with @@), ``sentencepiece`` (a word begins with U+2581), or
            ``none`` (each token is a word).
        special: symbols that are words by themselves.
    """
    numbers: List[int] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if before is None or token in special or before in special or subwords == "none":
            begins = True
        elif subwords == "subword-nmt":
            begins = not before.endswith("@@")
        else:
            begins = token.startswith("\u2581")
        numbers.append(numbers[-1] + begins if numbers else 0)
    return numbers


def join_words(weights: Tensor, queries: Sequence[int], keys: Sequence[int]) -> Tensor:
    """Weights between words from weights between their subwords.

    The weights of a word's key subwords are added up, those of its query subwords averaged: rows keep their sum.

    Args:
        weights: (..., T, S).
        queries, keys: the number of the word of each subword, from :func:`word_numbers`; T and S of them.

    Returns:
        (..., query words, key words)

    Source: arXiv 1906.04341, section 4.
    """
    query_words, key_words = _membership(queries, weights), _membership(keys, weights)
    return query_words / query_words.sum(-1, keepdim=True) @ weights @ key_words.t()


def _membership(numbers: Sequence[int], like: Tensor) -> Tensor:
    """(words, subwords): 1 where the subword belongs to the word."""
    of = torch.as_tensor(numbers, device=like.device)
    return (torch.arange(int(of[-1]) + 1, device=like.device).unsqueeze(-1) == of).to(like)


def compare_rows(first: Tensor, second: Tensor, coverage: Tensor, allowed: Tensor) -> Dict[str, Tensor]:
    """Key by key, how two models share out the attention of the same query.

    Heads of two trainings have no common order, so averages over heads are compared. A model *attends* to a key where
    it gives it more than 1/n, n the number of allowed keys: more than a query without any preference would.

    Args:
        first, second: (N, S), weights averaged over heads; rows are scaled to sum 1.
        coverage: (N, S), the share of the second's heads with weight > 0 on the key.
        allowed: (N, S) bool.

    Returns:
        {measure: (N, S)}; summed over keys it is the measure of the query:
        outside_head   first_s (1 - coverage_s): outside the support of a head of the second, mean over its heads
        outside        first_s [coverage_s = 0]: outside the support of every head of the second
        moved          1/2 |first_s - second_s|: total variation distance
        new            second_s [second_s > 1/n >= first_s]
        lost           first_s [first_s > 1/n >= second_s]
    """
    first, second = normalised(first), normalised(second)
    uniform = 1 / allowed.sum(-1, keepdim=True).clamp(min=1).to(first.dtype)
    return {
        "outside_head": first * (1 - coverage),
        "outside": first * (coverage == 0),
        "moved": (first - second).abs() / 2,
        "new": second * ((second > uniform) & (first <= uniform)),
        "lost": first * ((first > uniform) & (second <= uniform)),
    }


def histogram(values: Tensor, bins: int) -> Tensor:
    """Counts of values in [0, 1] in equal bins, each with its upper edge; 0 goes to the first: (n,) -> (bins,)."""
    index = (values.double() * bins - 1e-6).ceil().long() - 1  # 1e-6: float32 may lie a little above an edge
    return torch.bincount(index.clamp(0, bins - 1), minlength=bins)
