"""Attention in incremental decoding: the caches of fairseq's module, filled and read with fewer copies."""

from typing import Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

IncrementalState = Optional[Dict[str, Dict[str, Optional[Tensor]]]]


class CachedMultiheadAttention(MultiheadAttention):
    """fairseq's attention with a cheaper incremental step; its states keep their names and shapes.

    What a step of beam search saves, with the results of fairseq's to rounding:

    - Self-attention projects query, key and value in one product. The joined weights live in the incremental
      state, so they are those of the moment when the sentence was begun, and training never sees them.
    - A change of beams waits for the next step, which copies the cache anyway to append its key: one copy, not two.
    - In cross-attention the beams of a sentence read the same keys and values where the decoder passes these once a
      sentence, or ``set_beam_size`` was called.
    - A padding mask without padding is dropped, and is converted once.

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
        """
        state = self._get_input_buffer(incremental_state)
        if self.self_attention:
            q, k, v = self._project(query, incremental_state)
            mask = self._append(state, k, v, key_padding_mask)
        else:
            q = self._split_heads(self.q_proj(query) * self.scaling)
            if "prev_key" not in state:
                self._encode_keys(state, key, key_padding_mask, query.size(1))
            mask = state["prev_key_padding_mask"]
        self._set_input_buffer(incremental_state, state)
        k, v = state["prev_key"], state["prev_value"]  # (B', H, S, D)

        scores = torch.bmm(group_beams(q, k.size(0)), k.flatten(0, 1).transpose(1, 2))  # (B'*H, B/B'*T, S)
        if mask is not None:
            per_head = scores.view(k.size(0), self.num_heads, -1, k.size(2))
            per_head.masked_fill_(mask[:, None, None].bool(), float("-inf"))
        scores = split_beams(scores, query.size(1), self.num_heads).flatten(0, 1)  # (B*H, T, S)
        if attn_mask is not None:
            scores = scores + attn_mask
        return scores, v.flatten(0, 1)

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> IncrementalState:
        """Beam search goes on with these rows of the batch: the beams ``new_order``, (B,)."""
        state = self._get_input_buffer(incremental_state)
        if "prev_key" not in state:
            return incremental_state
        if self.encoder_decoder_attention:
            self._reorder_sentences(state, new_order)
        elif self._joins_cache:
            waiting = state.get("order")
            state["order"] = new_order if waiting is None else waiting.index_select(0, new_order)
        else:
            return super().reorder_incremental_state(incremental_state, new_order)
        return self._set_input_buffer(incremental_state, state)

    def _split_heads(self, x: Tensor) -> Tensor:
        """(T, B, E) -> (B, H, T, D)"""
        return x.view(x.shape[:2] + (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)

    def _project(self, query: Tensor, incremental_state: IncrementalState) -> Tuple[Tensor, Tensor, Tensor]:
        """(T, B, E) -> scaled queries, keys and values, (B, H, T, D) each."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        joined = self.get_incremental_state(incremental_state, "projection")
        if joined is None:
            joined = {}
            if all(_is_plain(projection) for projection in projections):
                joined["weight"] = torch.cat([projection.weight for projection in projections])  # (3E, E)
                biases = [projection.bias for projection in projections]
                joined["bias"] = None if biases[0] is None else torch.cat(biases)
            self.set_incremental_state(incremental_state, "projection", joined)
        if joined:
            q, k, v = F.linear(query, joined["weight"], joined["bias"]).chunk(3, dim=-1)
        else:
            q, k, v = (projection(query) for projection in projections)
        return self._split_heads(q * self.scaling), self._split_heads(k), self._split_heads(v)

    def _append(self, state, k: Tensor, v: Tensor, key_padding_mask: Optional[Tensor]) -> Optional[Tensor]:
        """Put keys and values, (B, H, T, D), behind those in the state; returns the mask of all, (B, S)."""
        order, previous_mask = state.pop("order", None), state.get("prev_key_padding_mask")
        if order is not None and previous_mask is not None:
            previous_mask = previous_mask.index_select(0, order)
        if "prev_key" in state:
            k, v = appended((state["prev_key"], state["prev_value"]), order, (k, v))
        state["prev_key"], state["prev_value"] = k.contiguous(), v.contiguous()
        state["prev_key_padding_mask"] = self._append_prev_key_padding_mask(
            key_padding_mask, previous_mask, k.size(0), k.size(2), static_kv=False
        )
        return state["prev_key_padding_mask"]

    def _encode_keys(self, state, key: Tensor, mask: Optional[Tensor], bsz: int) -> None:
        """Project the encoder's output, once for the beams that share a row of it."""
        if key.size(1) == bsz and self.beam_size > 1:
            key, mask = key[:, :: self.beam_size], None if mask is None else mask[:: self.beam_size]
        state["prev_key"] = self._split_heads(self.k_proj(key)).contiguous()
        state["prev_value"] = self._split_heads(self.v_proj(key)).contiguous()
        # On a CPU it pays to look first; on a GPU looking would make the host wait for the device.
        unpadded = mask is None or (mask.device.type == "cpu" and not mask.any())
        state["prev_key_padding_mask"] = None if unpadded else mask.bool()
        state["beams"] = torch.tensor(bsz // key.size(1))

    def _reorder_sentences(self, state, new_order: Tensor) -> None:
        """Keep the rows of the sentences that are still there. Beams change places within a sentence only."""
        beams = int(state["beams"])
        if state["prev_key"].size(0) * beams == new_order.numel():
            return
        rows = new_order.view(-1, beams)[:, 0].div(beams, rounding_mode="floor")
        for name in ("prev_key", "prev_value", "prev_key_padding_mask"):
            if state[name] is not None:
                state[name] = state[name].index_select(0, rows)


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
