"""The only file that knows how fairseq and torch differ from one release to another."""

import argparse
import ast
import logging
from typing import Iterable, Mapping, Optional

import torch

# This part of fairseq tells everybody who imports fairseq that tensorboardX is missing.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

try:
    import fairseq  # noqa: F401
    from fairseq.models.transformer import TransformerConfig
    from fairseq.modules import MultiheadAttention
except ImportError as error:
    raise ImportError(
        "explicit_sparse is a plugin for fairseq >= 0.12, which cannot be imported here ({}). "
        "Install it as the README's table says for your Python: "
        "pip install 'explicit-sparse-transformer[fairseq]', or bash scripts/setup.sh in a clone".format(error)
    ) from error
from omegaconf import OmegaConf, open_dict

from .config import OptionError

if not hasattr(MultiheadAttention, "_set_skip_embed_dim_check"):
    raise ImportError(
        "explicit_sparse needs fairseq >= 0.12: this one's MultiheadAttention always calls torch's own "
        "attention, which would ignore the sparse mapping. Found at {}".format(fairseq.__file__)
    )

if hasattr(torch.serialization, "add_safe_globals"):
    # torch >= 2.6 loads weights only. fairseq's checkpoints also hold the options as a Namespace,
    # which is plain data: allow that one class and leave the check on.
    torch.serialization.add_safe_globals([argparse.Namespace])


# What fairseq hands to eval() where a Transformer is built from its options.
EVALUATED = ("adaptive_softmax_cutoff", "adaptive_input_cutoff", "character_filters")


def no_literal(options: Mapping, names: Iterable[str]) -> Optional[str]:
    """What is wrong with the first of these options that fairseq would run as Python and is no plain value, or None."""
    for name in names:
        value = options.get(name)
        if isinstance(value, str) and value:
            try:
                ast.literal_eval(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return "its option {} is {!r}, which fairseq would run as Python; only plain numbers and lists are taken".format(
                    name, value[:80]
                )
    return None


def check_literals(options) -> None:
    """Refuse a model's options that fairseq would run as Python, such as those of a stranger's checkpoint.

    Raises:
        OptionError: naming the option and its value.
    """
    wrong = no_literal(vars(options), EVALUATED)
    if wrong:
        raise OptionError("the model cannot be built: " + wrong)


def as_namespace(options):
    """Flatten model options to a Namespace; Hydra's come as a DictConfig, argparse's as a Namespace already."""
    if OmegaConf.is_config(options):
        return argparse.Namespace(**OmegaConf.to_container(options, resolve=True, enum_to_str=True))
    return options


def fill_defaults(options, defaults) -> None:
    """Write the options of ours that Hydra did not mention into its DictConfig, and so into checkpoints.

    fairseq applies ``--model-overrides`` to a DictConfig only where the name is there already;
    others it drops without a word. Namespaces take any name and are left alone.
    """
    if OmegaConf.is_config(options):
        with open_dict(options):
            for name, value in defaults.items():
                if name not in options:
                    options[name] = value


def transformer_config(options) -> TransformerConfig:
    """fairseq's nested configuration, with our options kept as attributes on it.

    fairseq's own conversion reads ``vars(options)``, which does not hold the options of a DictConfig:
    ours would be lost without a word.
    """
    return TransformerConfig.from_namespace(as_namespace(options))


def disable_fast_path(encoder_layer) -> None:
    """Make fairseq 0.12.2 call the layer's attention in evaluation too.

    That release hands layers with loaded weights to a fused torch kernel, which would translate
    with dense attention whatever the layer's attention module is. Other releases ignore the flag.
    """
    encoder_layer.can_use_fastpath = False
