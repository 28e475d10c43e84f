"""Move a checkpoint between fairseq's own Transformer and ours.

    python -m explicit_sparse.tools.convert dense.pt sparse.pt --to sparse --topk 0
    python -m explicit_sparse.tools.convert dense.pt start.pt --to sparse --attention-mapping entmax
    python -m explicit_sparse.tools.convert sparse.pt dense.pt --to fairseq

The parameters have the same names, so only the model's name and options change: nothing is
computed, and a model with ``--topk 0`` translates exactly as before. Ours goes back to fairseq
only where every site is plain softmax: fairseq would run dense attention without a word.

alpha-entmax and ReLA have parameters of their own, which are new and untrained in the result: it is there to be trained
on, with ``fairseq-train --finetune-from-model start.pt``. A dense or top-k model of ours starts them in the same way.
"""

import argparse
import sys
from pathlib import Path
from typing import Dict, Optional

import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from torch import Tensor

from explicit_sparse import architectures  # noqa: F401  registers our models
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import MAPPINGS, OPTIONS, SITES, OptionError, SiteConfig, SparseAttentionConfig

from . import checkpoints
from .command import ToolError, command

# Model of fairseq's -> ours. Checkpoints hold every dimension, so the base name fits all sizes.
COUNTERPART = {
    "transformer": "explicit_sparse_transformer",
    "transformer_lm": "explicit_sparse_transformer_lm",
}


@command
def main(argv=None) -> None:
    """Parse the command line and convert one file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("input", type=Path, help="checkpoint to read")
    parser.add_argument("output", type=Path, help="checkpoint to write")
    parser.add_argument("--to", required=True, choices=["sparse", "fairseq"], help="whose model it becomes")
    parser.add_argument("--topk", type=int, help="with --to sparse: keys kept (default: 0, dense)")
    parser.add_argument("--attention-mapping", choices=MAPPINGS, help="with --to sparse: another mapping than top-k")
    parser.add_argument("--seed", type=int, default=1, help="of new parameters (default: %(default)s)")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    state = checkpoints.read(args.input)
    if not (state.get("cfg") or state.get("args")):
        raise ToolError(f"{args.input}: holds no options of its model; give a checkpoint that fairseq-train wrote")
    to_sparse(state, args.topk, args.attention_mapping) if args.to == "sparse" else to_fairseq(state)
    checkpoints.write(state, args.output)
    print("{} -> {}: {}".format(args.input, args.output, model_name(state)), file=sys.stderr)


def to_sparse(state: dict, topk: Optional[int] = None, mapping: Optional[str] = None) -> None:
    """Give a checkpoint of fairseq's Transformer, or a dense or top-k one of ours, another mapping of ours, in place.

    Args:
        topk: keys kept; where neither it nor a mapping is given, 0, which is dense.
        mapping: a name of :data:`explicit_sparse.config.MAPPINGS`. New parameters are drawn as a new model draws them.

    Raises:
        OptionError: if it is another model, or the options are impossible.
    """
    model = model_name(state)
    if model not in COUNTERPART and not (mapping and model in COUNTERPART.values()):
        raise OptionError("{}: not fairseq's own Transformer; cannot convert".format(model))
    given = {"topk": 0 if topk is None and mapping is None else topk, "attention_mapping": mapping}
    sites = SparseAttentionConfig(**given).resolve()
    for name, value in _new_parameters(state, sites).items():
        state["model"].setdefault(name, value)
    _rename(state, COUNTERPART.get(model, model), {**OPTIONS, **given})


def _new_parameters(state: dict, sites: Dict[str, SiteConfig]) -> Dict[str, Tensor]:
    """The parameters that the sites' mappings add to a Transformer, as they are at the beginning of a training."""
    added = {}
    for name, weight in state["model"].items():
        part, _, attention = name.partition(".layers.")
        if not name.endswith("attn.out_proj.weight"):
            continue
        site = "cross" if "encoder_attn" in attention else part.split(".")[-1] + "-self"
        if sites[site].mapping not in ("entmax", "rela"):
            continue
        module = SparseMultiheadAttention(
            weight.size(0),
            _entries(state)[part.split(".")[-1] + "_attention_heads"],
            site=site,
            config=sites[site],
            self_attention=site != "cross",
            encoder_decoder_attention=site == "cross",
        )
        prefix = name[: -len("out_proj.weight")]
        own = {key: value for key, value in module.state_dict().items() if key.startswith(("pre_alpha", "value_norm"))}
        added.update((prefix + key, value.to(weight.dtype)) for key, value in own.items())
    return added


def to_fairseq(state: dict) -> None:
    """Make a checkpoint of ours one of fairseq's Transformer, in place.

    Raises:
        OptionError: if it is not ours, or attends with anything else than softmax somewhere.
    """
    model = model_name(state)
    stock = {ours: theirs for theirs, ours in COUNTERPART.items()}
    if model not in stock:
        raise OptionError("{}: not a model of this plugin; cannot convert".format(model))
    sites = ("decoder-self",) if model.endswith("_lm") else SITES
    options = SparseAttentionConfig.from_model(argparse.Namespace(**_entries(state)))
    for site, config in options.resolve(sites).items():
        if config.mapping != "softmax" or config.pattern != "full":
            raise OptionError(
                "{}: attention at {} is {} with pattern {}, and fairseq knows dense softmax only; "
                "cannot convert".format(model, site, config.mapping, config.pattern)
            )
    _rename(state, stock[model], dict.fromkeys(OPTIONS))


def model_name(state: dict) -> str:
    """The registered model that a checkpoint's architecture belongs to."""
    entries = _entries(state)
    arch = entries.get("_name") or entries.get("arch")
    return ARCH_MODEL_NAME_REGISTRY.get(arch, arch)


def _entries(state: dict) -> dict:
    """The model's options as a dict to read and write; under ``cfg``, or in old checkpoints under ``args``."""
    options = state["cfg"]["model"] if state.get("cfg") else state["args"]
    return options if isinstance(options, dict) else vars(options)


def _rename(state: dict, name: str, sparse_options: dict) -> None:
    entries = _entries(state)
    for key, value in sparse_options.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
    for key in ("arch", "_name"):
        if key in entries:
            entries[key] = name


if __name__ == "__main__":
    sys.exit(main())
