"""Attention in incremental decoding: the caches of fairseq's module, filled and read with fewer copies."""

from typing import Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

IncrementalState = Optional[Dict[str, Dict[str, Optional[Tensor]]]]


class Fixed:
    """What an incremental state holds beside rows of the batch.

    fairseq's states are tensors whose first dimension is the batch, and public decoders reorder every value of every
    state by hand. Such a loop leaves this as it is.
    """

    def __init__(self, **values):
        self.__dict__.update(values)

    def index_select(self, dim, index):
        return self

    def __getitem__(self, index):
        return self

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return args[0] if function is torch.index_select else NotImplemented


class CachedMultiheadAttention(MultiheadAttention):
    """fairseq's attention with a cheaper incremental step.

    What a step of beam search saves, with the results of fairseq's to rounding:

    - Self-attention projects query, key and value in one product. The joined weights live in the incremental
      state, so they are those of the moment when the sentence was begun, and training never sees them.
    - A change of beams waits for the next step, which copies the cache anyway to append its key: one copy, not two.
    - In cross-attention the beams of a sentence read the same keys and values where the decoder passes these once a
      sentence, or ``set_beam_size`` was called.
    - A padding mask without padding is dropped, and is converted once.

    A state holds ``rows``, (B,), and ``cache``: row b of the batch reads row ``rows[b]`` of the cache. A reorder changes
    ``rows`` alone, whether this module makes it or a caller's own loop over the tensors of the state; the next step
    looks what became of them. A state that a caller set in fairseq's form (``prev_key``, ...) is understood too.

    Shapes: T queries of a step, S keys, H heads, D head width; B sentences times beams. Keys and values have a batch
    of B' <= B, in which each row belongs to B / B' consecutive queries.
    """

    def can_step(self, incremental_state: IncrementalState, static_kv: bool) -> bool:
        """Whether this call is a step of incremental decoding that :meth:`step` knows."""
        return incremental_state is not None and (static_kv if self.encoder_decoder_attention else self._joins_cache)

    @property
    def _joins_cache(self) -> bool:
        return self.self_attention and self.bias_k is None and not self.add_zero_attn

    def step(
        self,
        query: Tensor,
        key: Optional[Tensor],
        key_padding_mask: Optional[Tensor],
        incremental_state: IncrementalState,
        attn_mask: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor]:
        """Append to the cache, and compare the queries with all of it.

        Args:
            query: (T, B, E); key: the encoder's (S, B or B', E), read at the first step of cross-attention only.
            key_padding_mask: (B or B', S) in cross-attention, (B, T) in self-attention; True = padding.
            attn_mask: (T, S), added to the scores.

        Returns:
            Masked scores (B*H, T, S), and values (B'*H, S, D).

        Raises:
            ValueError: where the state was left with another number of rows than the queries have.
        """
        cache, rows = _read(self._get_input_buffer(incremental_state))
        if rows is not None and rows.shape != query.shape[1:2]:
            raise ValueError(
                "the incremental state has rows of shape {} for a batch of {}; after a change of the batch, call "
                "decoder.reorder_incremental_state_scripting(state, rows)".format(tuple(rows.shape), query.size(1))
            )
        if self.self_attention:
            q, k, v = self._project(query, incremental_state)
            cache = self._append(cache, rows, k, v, key_padding_mask)
        else:
            q = self._split_heads(self.q_proj(query) * self.scaling)
            if cache is None:
                cache = self._encode_keys(key, key_padding_mask, query.size(1))
            elif not _untouched(cache, rows):
                cache = regrouped(cache, rows)
        self._set_input_buffer(incremental_state, {"rows": cache.rows, "cache": cache})
        k, v = cache.key, cache.value  # (B', H, S, D)

        scores = torch.bmm(group_beams(q, k.size(0)), k.flatten(0, 1).transpose(1, 2))  # (B'*H, B/B'*T, S)
        if cache.mask is not None:
            per_head = scores.view(k.size(0), self.num_heads, -1, k.size(2))
            per_head.masked_fill_(cache.mask[:, None, None].bool(), float("-inf"))
        scores = split_beams(scores, query.size(1), self.num_heads).flatten(0, 1)  # (B*H, T, S)
        if attn_mask is not None:
            scores = scores + attn_mask
        return scores, v.flatten(0, 1)

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> IncrementalState:
        """Beam search goes on with these rows of the batch: ``new_order``, (B,)."""
        state = self._get_input_buffer(incremental_state)
        if "cache" not in state:
            return super().reorder_incremental_state(incremental_state, new_order)
        rows = state["rows"].index_select(0, new_order)
        # Beams mostly change places within their sentence, which cross-attention need not hear of.
        if self.self_attention or not torch.equal(rows, state["rows"]):
            self._set_input_buffer(incremental_state, dict(state, rows=rows))
        return incremental_state

    def leave_cache(self, incremental_state: IncrementalState) -> None:
        """Give the state fairseq's form, for a call that goes fairseq's way."""
        cache, rows = _read(self._get_input_buffer(incremental_state))
        if rows is not None:
            names = {"prev_key": cache.key, "prev_value": cache.value, "prev_key_padding_mask": cache.mask}
            state = {name: None if held is None else held.index_select(0, rows) for name, held in names.items()}
            self._set_input_buffer(incremental_state, state)

    def _split_heads(self, x: Tensor) -> Tensor:
        """(T, B, E) -> (B, H, T, D)"""
        return x.view(x.shape[:2] + (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)

    def _project(self, query: Tensor, incremental_state: IncrementalState) -> Tuple[Tensor, Tensor, Tensor]:
        """(T, B, E) -> scaled queries, keys and values, (B, H, T, D) each."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        state = self.get_incremental_state(incremental_state, "projection")
        if state is None:
            joined = Fixed(weight=None, bias=None)
            if all(_is_plain(projection) for projection in projections):
                joined.weight = torch.cat([projection.weight for projection in projections])  # (3E, E)
                biases = [projection.bias for projection in projections]
                joined.bias = None if biases[0] is None else torch.cat(biases)
            state = {"joined": joined}
            self.set_incremental_state(incremental_state, "projection", state)
        joined = state["joined"]
        if joined.weight is not None:
            q, k, v = F.linear(query, joined.weight, joined.bias).chunk(3, dim=-1)
        else:
            q, k, v = (projection(query) for projection in projections)
        return self._split_heads(q * self.scaling), self._split_heads(k), self._split_heads(v)

    def _append(
        self, cache: Optional[Fixed], rows: Optional[Tensor], k: Tensor, v: Tensor, key_padding_mask: Optional[Tensor]
    ) -> Fixed:
        """The rows of the cache with keys and values, (B, H, T, D), behind them."""
        previous_mask, in_order = None, None
        if cache is not None:
            previous_mask, order = cache.mask, None if _untouched(cache, rows) else rows
            if order is not None and previous_mask is not None:
                previous_mask = previous_mask.index_select(0, order)
            if _vouched_for(cache) and cache.rows.numel() == k.size(0):
                in_order = cache.rows
            k, v = appended((cache.key, cache.value), order, (k, v))
        mask = self._append_prev_key_padding_mask(key_padding_mask, previous_mask, k.size(0), k.size(2), static_kv=False)
        return _cache(k.contiguous(), v.contiguous(), mask, in_order)

    def _encode_keys(self, key: Tensor, mask: Optional[Tensor], bsz: int) -> Fixed:
        """Project the encoder's output, once for the beams that share a row of it."""
        if key.size(1) == bsz and self.beam_size > 1:
            key, mask = key[:, :: self.beam_size], None if mask is None else mask[:: self.beam_size]
        # On a CPU it pays to look first; on a GPU looking would make the host wait for the device.
        unpadded = mask is None or (mask.device.type == "cpu" and not mask.any())
        k, v = (self._split_heads(project(key)).contiguous() for project in (self.k_proj, self.v_proj))
        rows = torch.arange(bsz, device=key.device).div(bsz // key.size(1), rounding_mode="floor")
        return _cache(k, v, None if unpadded else mask.bool(), rows)


def _cache(key: Tensor, value: Tensor, mask: Optional[Tensor], rows: Optional[Tensor] = None) -> Fixed:
    """Keys and values, (B', H, S, D), a mask, (B', S), and the rows that the batch reads, (B,): by default each its own."""
    if rows is None:
        rows = torch.arange(key.size(0), device=key.device)
    return Fixed(key=key, value=value, mask=mask, rows=rows, version=version_of(rows))


def _read(state: Dict[str, Optional[Tensor]]) -> Tuple[Optional[Fixed], Optional[Tensor]]:
    """The cache of a state, and the rows of it that are wanted; None and None at the first step."""
    if "cache" in state:
        return state["cache"], state["rows"]
    if "prev_key" not in state:
        return None, None
    cache = _cache(state["prev_key"], state["prev_value"], state.get("prev_key_padding_mask"))
    return cache, cache.rows


def _untouched(cache: Fixed, rows: Tensor) -> bool:
    """Whether the rows are still those with which the cache was written, as far as that can be known unseen."""
    return rows is cache.rows and _vouched_for(cache)


def _vouched_for(cache: Fixed) -> bool:
    return cache.version is not None and version_of(cache.rows) == cache.version


def version_of(tensor: Tensor) -> Optional[int]:
    """torch's count of the changes made in place; None in inference mode, where it keeps none."""
    return None if tensor.is_inference() else tensor._version


def regrouped(cache: Fixed, rows: Tensor) -> Fixed:
    """A cache whose rows each belong to equally many consecutive rows of the batch, for any choice of rows, (B,)."""
    kept, counts = rows.unique_consecutive(return_counts=True)
    if counts.unique().numel() > 1:
        kept = rows
    if not torch.equal(kept, torch.arange(cache.key.size(0), device=rows.device)):
        mask = None if cache.mask is None else cache.mask.index_select(0, kept)
        cache = _cache(cache.key.index_select(0, kept), cache.value.index_select(0, kept), mask)
    beams = rows.numel() // max(kept.numel(), 1)
    own = torch.arange(rows.numel(), device=rows.device).div(beams, rounding_mode="floor")
    return _cache(cache.key, cache.value, cache.mask, own)


def appended(caches: Sequence[Tensor], order: Optional[Tensor], steps: Sequence[Tensor]) -> List[Tensor]:
    """The rows ``order`` of each cache, (B, H, S, D), with its new steps, (B'', H, T, D), behind: (B'', H, S+T, D)."""
    if order is None:
        return [torch.cat(pair, dim=2) for pair in zip(caches, steps)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*caches, *steps)):
        return [torch.cat([cache.index_select(0, order), new], dim=2) for cache, new in zip(caches, steps)]
    _, heads, old_len, width = caches[0].shape
    # Rows of (B*H, S, D): what is copied is then contiguous, which a CPU does twice as fast as rows of (B, H, S, D).
    rows = torch.add(torch.arange(heads, device=order.device), order.unsqueeze(-1), alpha=heads).view(-1)  # (B''*H,)
    grown = []
    for cache, new in zip(caches, steps):
        both = cache.new_empty(rows.numel(), old_len + new.size(2), width)
        torch.index_select(cache.flatten(0, 1), 0, rows, out=both[:, :old_len])
        both = both.view(new.shape[:2] + both.shape[1:])
        both[:, :, old_len:] = new
        grown.append(both)
    return grown


def group_beams(x: Tensor, sentences: int) -> Tensor:
    """(B, H, T, *) -> (B'*H, B/B'*T, *): beams that share keys become further queries to them."""
    if x.size(0) == sentences:
        return x.flatten(0, 1)
    bsz, heads, _, width = x.shape
    return x.view((sentences, bsz // sentences) + x.shape[1:]).transpose(1, 2).reshape(sentences * heads, -1, width)


def split_beams(x: Tensor, bsz: int, heads: int) -> Tensor:
    """The inverse of :func:`group_beams`: (B'*H, B/B'*T, *) -> (B, H, T, *)."""
    if x.size(0) == bsz * heads:
        return x.view(bsz, heads, -1, x.size(-1))
    sentences = x.size(0) // heads
    x = x.view(sentences, heads, bsz // sentences, -1, x.size(-1))  # (B', H, B/B', T, *)
    return x.transpose(1, 2).reshape(bsz, heads, -1, x.size(-1))


def _is_plain(projection: nn.Module) -> bool:
    """Whether it is weight and bias and nothing else: no quantisation, no hook."""
    return type(projection) is nn.Linear and not projection._forward_hooks and not projection._forward_pre_hooks
