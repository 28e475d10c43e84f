"""Multi-head attention with a sparse mapping: fairseq's module with another way from scores to weights."""

import math
from typing import Callable, Dict, Optional, Tuple

import torch
from torch import Tensor, nn

from . import mappings, patterns
from .config import ALPHA_MAX, ALPHA_MIN, SITES, OptionError, SiteConfig
from .decoding import CachedMultiheadAttention, Fixed, group_beams, split_beams
from .kernels import long
from .kernels.library import is_plain


class SparseMultiheadAttention(CachedMultiheadAttention):
    """Multi-head attention whose queries choose among the keys.

    fairseq's own module computes the masked scores, or :mod:`.decoding` the same in incremental decoding, so
    projections, caches, padding and beams stay as they are there; then

        scores -> pattern (which keys are visible) -> mapping (weights) -> dropout -> weights V.

    Long rows in a full pass take another way to the same numbers, :mod:`.kernels.long`.

    Args:
        site: ``encoder-self``, ``decoder-self`` or ``cross``.
        config: what the options mean at this site.
        Others as for fairseq's MultiheadAttention.

    Shapes: Time x Batch x Channel, as in fairseq. T queries, S keys, B batch, H heads, D head width.

    Source: arXiv 1912.11637.
    """

    def __init__(self, embed_dim, num_heads, site: str, config: SiteConfig, **kwargs):
        super().__init__(embed_dim, num_heads, **kwargs)
        # Keeps fairseq's forward off F.multi_head_attention_forward, which knows softmax only.
        self.skip_embed_dim_check = True
        if self.use_xformers:
            raise OptionError("xFormers attention and sparse attention exclude each other; drop xformers_att_config")
        own_keys = self.self_attention or site == "cross"
        if config.pattern != "full" and not (own_keys and self.bias_k is None and not self.add_zero_attn):
            raise OptionError(
                "--attention-pattern {} compares positions of one sentence and does not go with "
                "--cross-self-attention or added keys".format(config.pattern)
            )
        self.site = site
        self.config = config
        self.num_updates = 0  # of the training so far
        self.layer = 0  # set by the encoder or decoder; the random patterns differ by layer
        self.observer: Optional[Callable[["SparseMultiheadAttention", Tensor, Tensor], None]] = None
        if config.mapping == "entmax" and config.entmax_alpha is None:
            self.pre_alpha = nn.Parameter(torch.randn(num_heads))
        self.value_norm = None
        if config.mapping == "rela":
            self.value_norm = ReLANorm(embed_dim, gated=config.rela_norm == "gated")

    @property
    def alpha(self) -> Tensor:
        """alpha of each head, (H,), in [1.01, 2]: 1 + sigmoid(pre_alpha), or the fixed --entmax-alpha."""
        if self.config.entmax_alpha is not None:
            return torch.full((self.num_heads,), self.config.entmax_alpha, device=self.q_proj.weight.device)
        return (1 + torch.sigmoid(self.pre_alpha.float())).clamp(ALPHA_MIN, ALPHA_MAX)

    def set_num_updates(self, num_updates: int) -> None:
        """Called through fairseq's model before each update and after a checkpoint was loaded."""
        self.num_updates = num_updates

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor],
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Optional[Tensor] = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """As fairseq's, with the weights that were really used returned on every path.

        Args:
            query: (T, B, E); key, value: (S, B, E).
            key_padding_mask: (B, S), True = padding.
            attn_mask: (T, S), added to the scores; -inf = not allowed.

        Returns:
            Output (T, B, E), and None, or the weights before dropout in float32: averaged over heads
            (B, T, S), or with ``need_head_weights`` (H, B, T, S).
        """
        if incremental_state is None and not before_softmax and self._rows_are_long(key, attn_mask):
            output, weights = self._attend_long(
                query, key, value, key_padding_mask, attn_mask, need_weights or need_head_weights
            )
            return self._as_asked(output, weights, need_weights, need_head_weights)
        if self.can_step(incremental_state, static_kv):
            scores, v = self.step(query, key, key_padding_mask, incremental_state, attn_mask)
        else:
            if incremental_state is not None:
                self.leave_cache(incremental_state)
            scores, v = super().forward(
                query,
                key,
                value,
                key_padding_mask=key_padding_mask,
                incremental_state=incremental_state,
                static_kv=static_kv,
                attn_mask=attn_mask,
                before_softmax=True,
            )
        # scores (B*H, T, S), v (B'*H, S, D); B' < B where beams share the encoder's keys
        if before_softmax:
            return scores, v

        tgt_len, bsz, _ = query.size()
        # float32 whatever the dtype of the model, as in fairseq's own softmax
        scores = scores.view(bsz, self.num_heads, tgt_len, -1).float()  # (B, H, T, S)
        weights = self._map(self._restrict(scores, incremental_state), scores)
        if self.observer is not None:
            self.observer(self, scores, weights)

        probs = self.dropout_module(weights.type_as(v))
        attended = torch.bmm(group_beams(probs, v.size(0) // self.num_heads), v)  # (B'*H, B/B'*T, D)
        attended = split_beams(attended, bsz, self.num_heads).permute(2, 0, 1, 3).flatten(2)  # (T, B, H*D)
        if self.value_norm is not None:
            attended = self.value_norm(attended)
        return self._as_asked(self.out_proj(attended), weights, need_weights, need_head_weights)

    @staticmethod
    def _as_asked(output: Tensor, weights: Optional[Tensor], need_weights: bool, need_head_weights: bool):
        """The output with the weights (B, H, T, S) in the form that the caller asked for."""
        if need_head_weights:
            return output, weights.transpose(0, 1)  # (H, B, T, S)
        return output, weights.mean(dim=1) if need_weights else None  # (B, T, S)

    def _map(self, scores: Tensor, unrestricted: Tensor) -> Tensor:
        """Scores after and before the pattern, (B, H, T, S) -> weights (B, H, T, S) by the site's mapping."""
        config = self.config
        if self._selects():
            return mappings.topk(
                scores,
                self._keys_kept(scores.size(-1)),
                ties=config.ties,
                order=config.order,
                renormalize=config.renormalize,
                straight_through=config.straight_through,
            )
        if config.mapping == "nm":
            return self._map_nm(scores, unrestricted)
        if config.mapping == "sparsemax":
            return mappings.sparsemax(scores)
        if config.mapping == "entmax15":
            return mappings.entmax15(scores)
        if config.mapping == "entmax":
            return mappings.entmax(scores, self.alpha.view(-1, 1, 1))
        if config.mapping == "rela":
            return mappings.rela(scores)
        return mappings.softmax(scores)

    def _selects(self) -> bool:
        """Whether top-k applies now: a phase of it may be switched off."""
        phases = ("both", "train" if self.training else "generate")
        return self.config.mapping == "topk" and self.config.phase in phases

    def _keys_kept(self, keys: int) -> int:
        """k in force for a row of ``keys`` keys; in training a schedule may change it."""
        k = self.config.keys_kept(keys)
        if self.training and self.config.schedule is not None:
            return self.config.schedule.keys_kept(k, keys, self.num_updates)
        return k

    def _map_nm(self, scores: Tensor, unrestricted: Tensor) -> Tensor:
        """N:M with groups counted from a sentence's first token: neither left padding nor a pattern moves them."""
        allowed = (unrestricted.detach()[:, 0] != mappings.NEG_INF).any(dim=1)  # (B, S)
        first = allowed.int().argmax(dim=-1)  # (B,)
        keys = torch.arange(scores.size(-1), device=scores.device)
        to_front = (keys + first.unsqueeze(-1)) % keys.numel()  # (B, S)
        back = (keys - first.unsqueeze(-1)) % keys.numel()
        rolled = scores.gather(-1, to_front[:, None, None].expand_as(scores))
        return mappings.nm(rolled, *self.config.nm).gather(-1, back[:, None, None].expand_as(scores))

    def _restrict(self, scores: Tensor, incremental_state) -> Tensor:
        """Hide the keys outside the site's pattern: (B, H, T, S) -> (B, H, T, S).

        Padding and the future are read off the scores, -inf in every head, which holds on all of
        fairseq's paths: full, incremental, cached cross-attention, shared beams.
        """
        if self.config.pattern == "full":
            return scores
        allowed = scores.detach()[:, 0] != mappings.NEG_INF  # (B, T, S)
        first = self._queries_before(incremental_state, scores.size(2)) if self.site == "cross" else 0
        visible = self._visible(allowed, allowed.any(dim=1), first, scores)
        return scores.masked_fill(~visible, mappings.NEG_INF)  # (B, 1 or H, T, S) over (B, H, T, S)

    def _visible(self, allowed: Tensor, real: Tensor, first: int, scores: Optional[Tensor] = None) -> Tensor:
        """The keys that the site's pattern shows: (B, 1 or H, T, S), True = visible.

        Args:
            allowed: keys that padding and the future leave to these queries, (B, T, S).
            real: keys that are tokens, (B, S).
            first: how many queries came before these.
            scores: (B, H, T, S), which out-of-window alone looks at.
        """
        pattern, span = self.config.pattern, self.config.span
        tgt_len = allowed.size(1)
        key_positions = real.long().cumsum(-1) - 1  # (B, S), from 0 at the first token
        n = allowed.long().sum(-1)  # (B, T)
        if self.site == "cross":
            query_positions = (first + torch.arange(tgt_len, device=allowed.device)).expand_as(n)
        elif self.site == "decoder-self":
            query_positions = n - 1
        else:
            query_positions = key_positions[:, first : first + tgt_len]
        q, k, n = query_positions[:, None, :, None], key_positions[:, None, None, :], n[:, None, :, None]

        if pattern == "block":
            return patterns.block(q, k, span)
        if pattern == "window":
            return patterns.window(q, k, n, span)
        if pattern == "dilated":
            return patterns.dilated(q, k, n, span)
        if pattern == "global":
            return patterns.global_(q, k, span)
        if pattern == "out-of-window":
            near = patterns.window(q, k, n, span // 2)
            return near | mappings.topk_mask(scores.masked_fill(near, mappings.NEG_INF), span // 2)
        priority = patterns.random_priority(q, k, self._random_seeds(allowed.device))
        if pattern == "random":
            return patterns.random(priority, allowed.unsqueeze(1), span)
        return patterns.bigbird(q, k, n, priority, allowed.unsqueeze(1), span)

    def _rows_are_long(self, key: Optional[Tensor], attn_mask: Optional[Tensor]) -> bool:
        """Whether a full pass goes through :mod:`.kernels.long`: with ``--attention-kernel`` auto, where it pays."""
        config = self.config
        possible = (
            config.kernel != "short"
            and self._selects()
            and config.order == "before"
            and not config.straight_through
            and self.observer is None
            and self.bias_k is None
            and not self.add_zero_attn
            and key is not None
            and self.beam_size == 1
            and not (attn_mask is not None and attn_mask.requires_grad)
        )
        if not possible or config.kernel == "long":
            return possible
        # The rule was measured on a CPU.
        return is_plain(key) and long.pays(key.size(0), self._keys_kept(key.size(0)))

    def _attend_long(self, query, key, value, key_padding_mask, attn_mask, need_weights: bool):
        """Output (T, B, E) as on the ordinary path, to rounding, from the k best scores of each row alone.

        The weights (B, H, T, S) are the second result where asked for, as fairseq does for the decoder's last
        cross-attention in training too; else None, and no such matrix is ever there.
        """
        if self.self_attention:
            key = value = query
        elif self.encoder_decoder_attention:
            value = key
        tgt_len, bsz, _ = query.size()
        src_len = key.size(0)

        def split_heads(x: Tensor) -> Tensor:
            return x.view(-1, bsz, self.num_heads, self.head_dim).permute(1, 2, 0, 3).contiguous()  # (B, H, L, D)

        q = split_heads(self.q_proj(query).mul_(self.scaling))
        k, v = split_heads(self.k_proj(key)), split_heads(self.v_proj(value))

        real = query.new_ones((bsz, src_len), dtype=torch.bool)
        if key_padding_mask is not None and key_padding_mask.dim():
            real = ~key_padding_mask.bool()
        seen = None if attn_mask is None else attn_mask != mappings.NEG_INF  # (T, S)

        def hidden(sentences: slice, queries: slice) -> Tensor:
            """(b, 1 or H, t or 1, S) for slices of B and T, True = hidden."""
            allowed = real[sentences].unsqueeze(1)  # (b, 1, S)
            if self.config.pattern == "full":
                return ~allowed.unsqueeze(1)
            is_token = real[sentences] if seen is None else real[sentences] & seen.any(0)
            allowed = allowed.expand(-1, queries.stop - queries.start, -1) if seen is None else allowed & seen[queries]
            return ~(self._visible(allowed, is_token, queries.start) & allowed.unsqueeze(1))

        restricted = key_padding_mask is not None or self.config.pattern != "full"
        scores, keys = long.best_scores(
            q,
            k,
            self._keys_kept(src_len),
            ties=self.config.ties,
            attn_mask=attn_mask,
            hidden=hidden if restricted else None,
        )  # (B, H, T, K)
        weights = mappings.softmax(scores)
        attended = long.weighted_sum(self.dropout_module(weights.type_as(v)), v, keys)  # (B, H, T, D)
        output = self.out_proj(attended.permute(2, 0, 1, 3).reshape(tgt_len, bsz, -1))  # (T, B, H*D)
        if not need_weights:
            return output, None
        everywhere = weights.new_zeros((bsz, self.num_heads, tgt_len, src_len))
        return output, everywhere.scatter_add(-1, keys.long(), weights)  # adds: a short row names a key twice, with 0

    def _random_seeds(self, device) -> Tensor:
        """One seed for each head, different at every site and in every layer: (H, 1, 1)."""
        heads = torch.arange(self.num_heads, device=device).view(-1, 1, 1)
        place = self.config.pattern_seed * len(SITES) + SITES.index(self.site)
        return (place * 1024 + self.layer) * 1024 + heads

    def _queries_before(self, incremental_state, tgt_len: int) -> int:
        """How many queries came before this call: 0 in a full pass, the step in incremental decoding.

        Self-attention can count its cached keys; the keys of cross-attention stay the same, so
        the step is kept beside them.
        """
        if incremental_state is None:
            return 0
        saved = self.get_incremental_state(incremental_state, "queries")
        before = 0 if saved is None else saved["seen"].count
        self.set_incremental_state(incremental_state, "queries", {"seen": Fixed(count=before + tgt_len)})
        return before


class ReLANorm(nn.Module):
    """RMSNorm of the attended values, which stands in for the missing normalisation of ReLA's weights.

    gated:  y = g * x / rms(x) * sigmoid(w * x), gain g starts at 1
    plain:  y = g * x / rms(x), with a small initial gain; here 1 / sqrt(width)

    over the full width of the concatenated heads, (..., E) -> (..., E), computed in float32
    for half and bfloat16.

    Source: arXiv 2104.07012, section 3.
    """

    def __init__(self, width: int, gated: bool = True, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        if gated:
            bound = math.sqrt(3.0 / width)  # Glorot's bound for a vector of this width
            self.gain = nn.Parameter(torch.ones(width))
            self.gate = nn.Parameter(torch.empty(width).uniform_(-bound, bound))
        else:
            self.gain = nn.Parameter(torch.full((width,), width**-0.5))
            self.gate = None

    def forward(self, x: Tensor) -> Tensor:
        y = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        normed = self.gain * y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.gate is not None:
            normed = normed * torch.sigmoid(self.gate * y)
        return normed.to(x.dtype)
