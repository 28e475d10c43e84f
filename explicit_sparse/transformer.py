"""fairseq's Transformer with sparse attention: the ``build_*`` hooks, and what beam search needs to share keys.

The attention modules are built sparse from the start, never built dense and replaced: the random
numbers of the initialisation stay those of the stock model.
"""

import ast
from dataclasses import dataclass

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.distributed import fsdp_wrap
from fairseq.logging import metrics
from fairseq.models import register_model
from fairseq.models.transformer import (
    DEFAULT_MAX_TARGET_POSITIONS,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModel,
)
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.modules import AdaptiveInput, CharacterTokenEmbedder, FairseqDropout
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from fairseq.utils import eval_str_list

from .attention import SparseMultiheadAttention
from .compat import as_namespace, check_literals, disable_fast_path, fill_defaults, transformer_config
from .config import OPTIONS, SITES, SparseAttentionConfig
from .decoding import version_of


class SparseTransformerEncoderLayer(TransformerEncoderLayerBase):
    """Encoder layer whose self-attention is sparse (arXiv 1912.11637)."""

    def __init__(self, cfg, return_fc=False):
        super().__init__(cfg, return_fc=return_fc)
        disable_fast_path(self)

    def build_self_attention(self, embed_dim, cfg):
        return SparseMultiheadAttention(
            embed_dim,
            cfg.encoder.attention_heads,
            site="encoder-self",
            config=cfg.sparse_attention["encoder-self"],
            dropout=cfg.attention_dropout,
            self_attention=True,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
            xformers_att_config=cfg.encoder.xformers_att_config,
        )


class SparseTransformerDecoderLayer(TransformerDecoderLayerBase):
    """Decoder layer whose self-attention and cross-attention are sparse (arXiv 1912.11637)."""

    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        return SparseMultiheadAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            site="decoder-self",
            config=cfg.sparse_attention["decoder-self"],
            dropout=cfg.attention_dropout,
            add_bias_kv=add_bias_kv,
            add_zero_attn=add_zero_attn,
            self_attention=not cfg.cross_self_attention,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
            xformers_att_config=cfg.decoder.xformers_att_config,
        )

    def build_encoder_attention(self, embed_dim, cfg):
        return SparseMultiheadAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            site="cross",
            config=cfg.sparse_attention["cross"],
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
            xformers_att_config=cfg.encoder.xformers_att_config,
        )


class SparseTransformerEncoder(TransformerEncoderBase):
    """Transformer encoder of :class:`SparseTransformerEncoderLayer`."""

    def __init__(self, cfg, dictionary, embed_tokens, return_fc=False):
        super().__init__(cfg, dictionary, embed_tokens, return_fc=return_fc)
        _number_layers(self.layers)

    def build_encoder_layer(self, cfg):
        return _wrap(SparseTransformerEncoderLayer(cfg, return_fc=self.return_fc), cfg)

    def reorder_encoder_out(self, encoder_out, new_order):
        """As fairseq's, but nothing is copied, and the argument returned, where the rows stay what they are.

        So it is in beam search, where the beams of a sentence only change places. ``copies`` in the result tells the
        decoder which rows are one sentence's.
        """
        copies = Copies.of(encoder_out)
        rows = new_order.clone()
        if copies is not None:
            rows = copies.rows.index_select(0, new_order)
            if torch.equal(rows, copies.rows):
                return encoder_out
        reordered = super().reorder_encoder_out(encoder_out, new_order)
        original = encoder_out if copies is None else copies.original
        return dict(reordered, copies=[Copies(original, rows, reordered)])


class SparseTransformerDecoder(TransformerDecoderBase):
    """Transformer decoder of :class:`SparseTransformerDecoderLayer`."""

    def __init__(self, cfg, dictionary, embed_tokens, no_encoder_attn=False):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)
        _number_layers(self.layers)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return _wrap(SparseTransformerDecoderLayer(cfg, no_encoder_attn), cfg)

    def extract_features(self, prev_output_tokens, encoder_out, incremental_state=None, *args, **kwargs):
        """As fairseq's; beam search's first step hands each sentence to cross-attention once, for all its beams."""
        if incremental_state == {} and not self.cross_self_attention:
            copies = Copies.of(encoder_out)
            encoder_out = encoder_out if copies is None else copies.once_a_sentence(encoder_out)
        return super().extract_features(prev_output_tokens, encoder_out, incremental_state, *args, **kwargs)


class LogsSchedule:
    """Where training follows a schedule, the log says which k is in force: of 100 keys, ``k_of_100``."""

    def set_num_updates(self, num_updates):
        super().set_num_updates(num_updates)
        for module in self.modules():
            if isinstance(module, SparseMultiheadAttention) and module.config.schedule is not None:
                k = module.config.schedule.keys_kept(module.config.keys_kept(100), 100, num_updates)
                metrics.log_scalar("k_of_100", k, weight=0, priority=700)  # weight 0: the last one, not a mean
                return


class AnswersToStockNames:
    """``--retain-dropout-modules`` reaches our modules under the names of fairseq's too, as its documentation has them."""

    STOCK_NAMES = {
        "SparseTransformerEncoder": "TransformerEncoder",
        "SparseTransformerDecoder": "TransformerDecoder",
        "SparseTransformerEncoderLayer": "TransformerEncoderLayerBase",
        "SparseTransformerDecoderLayer": "TransformerDecoderLayerBase",
        "SparseMultiheadAttention": "MultiheadAttention",
    }

    def make_generation_fast_(self, **kwargs):
        asked = kwargs.get("retain_dropout_modules")
        if asked is not None:
            names = {module.module_name for module in self.modules() if isinstance(module, FairseqDropout)} - {None}
            kept = [name for name in names if name in asked or self.STOCK_NAMES.get(name, name) in asked]
            kwargs["retain_dropout_modules"] = kept
        super().make_generation_fast_(**kwargs)


@register_model("explicit_sparse_transformer")
class ExplicitSparseTransformerModel(AnswersToStockNames, LogsSchedule, TransformerModel):
    """Explicit Sparse Transformer (arXiv 1912.11637): each query attends to its k best keys."""

    @classmethod
    def add_args(cls, parser):
        """fairseq's Transformer options and ours."""
        super().add_args(parser)
        gen_parser_from_dataclass(parser, SparseAttentionConfig(), delete_default=True)

    @classmethod
    def build_model(cls, args, task):
        """Build the model; raises :class:`OptionError` for impossible options before anything else."""
        fill_defaults(args, OPTIONS)
        args = as_namespace(args)
        check_literals(args)
        SparseAttentionConfig.from_model(args).resolve()
        return super().build_model(args, task)

    @classmethod
    def build_encoder(cls, args, src_dict, embed_tokens):
        return SparseTransformerEncoder(_sparse_config(args), src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        cfg = _sparse_config(args)
        return SparseTransformerDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)


@dataclass
class ExplicitSparseLanguageModelConfig(SparseAttentionConfig, TransformerLanguageModelConfig):
    """fairseq's language model options and ours."""


@register_model("explicit_sparse_transformer_lm", dataclass=ExplicitSparseLanguageModelConfig)
class ExplicitSparseLanguageModel(AnswersToStockNames, LogsSchedule, TransformerLanguageModel):
    """Decoder-only Explicit Sparse Transformer, the counterpart of fairseq's ``transformer_lm``."""

    @classmethod
    def build_model(cls, args, task):
        """As fairseq's, which names its dense decoder outright and so cannot be called here."""
        args = as_namespace(args)
        cfg = _sparse_config(args, sites=("decoder-self",))
        if args.decoder_layers_to_keep:
            cfg.decoder.layers = len(args.decoder_layers_to_keep.split(","))
        if cfg.max_target_positions is None:
            cfg.max_target_positions = getattr(args, "tokens_per_sample", None) or DEFAULT_MAX_TARGET_POSITIONS
        if args.tie_adaptive_weights and not (
            args.adaptive_input
            and args.adaptive_input_factor == args.adaptive_softmax_factor
            and args.adaptive_input_cutoff == args.adaptive_softmax_cutoff
            and args.decoder_input_dim == args.decoder_output_dim
        ):
            raise ValueError(
                "--tie-adaptive-weights needs --adaptive-input with the same factor, cutoff and width as the softmax's"
            )
        embed_tokens = cls._build_embedding(args, task.source_dictionary)
        return cls(SparseTransformerDecoder(cfg, task.target_dictionary, embed_tokens, no_encoder_attn=True))

    @classmethod
    def _build_embedding(cls, args, dictionary):
        """Characters, adaptive, or one vector a token, as fairseq's language model offers."""
        if args.character_embeddings:
            return CharacterTokenEmbedder(
                dictionary,
                ast.literal_eval(args.character_filters),
                args.character_embedding_dim,
                args.decoder_embed_dim,
                args.char_embedder_highway_layers,
            )
        if args.adaptive_input:
            return AdaptiveInput(
                len(dictionary),
                dictionary.pad(),
                args.decoder_input_dim,
                args.adaptive_input_factor,
                args.decoder_embed_dim,
                eval_str_list(args.adaptive_input_cutoff, type=int),
                args.quant_noise_pq,
                args.quant_noise_pq_block_size,
            )
        return cls.build_embedding(args, dictionary, args.decoder_input_dim)


def _sparse_config(args, sites=SITES):
    """fairseq's configuration with ``sparse_attention``: what our options mean at each site."""
    check_literals(args)
    cfg = transformer_config(args)
    # fairseq-train sets torch's seed to --seed in every process, just before it builds the model
    cfg.sparse_attention = SparseAttentionConfig.from_model(cfg).resolve(sites, seed=torch.initial_seed())
    return cfg


class Copies:
    """That the rows of an encoder's output are copies, and of which sentences; true while nobody has edited either.

    Args:
        original: the encoder's output, one row a sentence, B'.
        rows: which of them each row of the copy repeats, (B,).
        copy: the output that fairseq's ``reorder_encoder_out`` made of it.
    """

    def __init__(self, original, rows, copy):
        self.original, self.rows, self.copy = original, rows, copy
        self.versions = [version_of(tensor) for tensor in self._tensors()]

    def _tensors(self):
        return [*_read_by_attention(self.original), *_read_by_attention(self.copy)]

    @classmethod
    def of(cls, encoder_out):
        """What is known of this output's rows; None where it cannot be proven."""
        (copies,) = (encoder_out or {}).get("copies") or [None]
        if copies is None or None in copies.versions:
            return None
        given, copied = _read_by_attention(encoder_out), _read_by_attention(copies.copy)
        same = len(given) == len(copied) and all(a is b for a, b in zip(given, copied))
        unedited = copies.versions == [version_of(tensor) for tensor in copies._tensors()]
        return copies if same and unedited else None

    def once_a_sentence(self, encoder_out):
        """The output without the copies for beams, where every sentence has as many; else unchanged."""
        kept, counts = self.rows.unique_consecutive(return_counts=True)
        if counts.unique().numel() != 1:
            return encoder_out
        beams = self.rows.numel() // kept.numel()
        return dict(
            encoder_out,
            encoder_out=[output[:, ::beams] for output in encoder_out["encoder_out"]],  # (S, B', E)
            encoder_padding_mask=[mask[::beams] for mask in encoder_out["encoder_padding_mask"]],  # (B', S)
        )


def _read_by_attention(encoder_out):
    """The tensors of an encoder's output that cross-attention reads."""
    return [*encoder_out["encoder_out"], *encoder_out["encoder_padding_mask"]]


def _wrap(layer, cfg):
    """Activation checkpointing and FSDP around a layer, as fairseq's encoder and decoder do it."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


def _number_layers(layers):
    for index in range(len(layers)):  # iterating would leave layers out where layer drop is on
        for module in layers[index].modules():
            if isinstance(module, SparseMultiheadAttention):
                module.layer = index
