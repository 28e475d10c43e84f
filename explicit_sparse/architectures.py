"""Named architectures: the dimensions of the stock architecture of the same name, with sparse attention."""

from fairseq.models import register_model_architecture
from fairseq.models.transformer.transformer_legacy import (
    base_architecture,
    transformer_iwslt_de_en,
    transformer_wmt_en_de,
    transformer_wmt_en_de_big,
)

from . import transformer  # noqa: F401  registers the model that the architectures belong to

MODEL = "explicit_sparse_transformer"

register_model_architecture(MODEL, MODEL)(base_architecture)
register_model_architecture(MODEL, MODEL + "_iwslt_de_en")(transformer_iwslt_de_en)
register_model_architecture(MODEL, MODEL + "_wmt_en_de")(transformer_wmt_en_de)
register_model_architecture(MODEL, MODEL + "_wmt_en_de_big")(transformer_wmt_en_de_big)


@register_model_architecture(MODEL, MODEL + "_mini")
def mini(args):
    """Transformer base with 2+2 layers, for IWSLT17 Fr-En as in the authors' follow-up."""
    args.encoder_layers = getattr(args, "encoder_layers", 2)
    args.decoder_layers = getattr(args, "decoder_layers", 2)
    base_architecture(args)


@register_model_architecture(MODEL, MODEL + "_tiny")
def tiny(args):
    """2+2 layers of width 128: trains on one core in minutes, for the demo."""
    args.encoder_embed_dim = getattr(args, "encoder_embed_dim", 128)
    args.encoder_ffn_embed_dim = getattr(args, "encoder_ffn_embed_dim", 512)
    args.encoder_attention_heads = getattr(args, "encoder_attention_heads", 4)
    args.decoder_attention_heads = getattr(args, "decoder_attention_heads", 4)
    mini(args)
