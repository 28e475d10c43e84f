"""fairseq's checkpoint files, as all tools read and write them."""

import warnings
from pathlib import Path
from typing import Any, Dict, Mapping

import torch

from explicit_sparse import compat  # also lets torch load fairseq's checkpoints with its check on

from .command import ToolError
from .files import writing

# What fairseq hands to eval() where a translation model, its optimizer or its task is built.
EVALUATED = (
    *compat.EVALUATED,
    *("adam_betas", "adamax_betas", "adafactor_eps", "lamb_betas"),
    *("encoder_layers", "decoder_layers", "encoder_attention", "decoder_attention", "self_attention"),
    *("project_input", "gated_attention", "pretrained"),
    *("pipeline_balance", "pipeline_devices"),
    *("pipeline_encoder_balance", "pipeline_encoder_devices", "pipeline_decoder_balance", "pipeline_decoder_devices"),
)


def read(path: Path) -> Dict[str, Any]:
    """A checkpoint's state, on the CPU.

    torch refuses what is more than data; options that fairseq would evaluate as Python are refused here.

    Raises:
        ToolError: if the file is not there, empty, truncated, no checkpoint of fairseq's, or holds code.
    """
    path = Path(path)
    if not path.exists():
        raise ToolError(f"{path}: no such checkpoint")
    if path.is_dir():
        raise ToolError(f"{path}: is a folder; give a checkpoint, for example {path / 'checkpoint_best.pt'}")
    if path.stat().st_size == 0:
        raise ToolError(f"{path}: is empty: a copy that was interrupted? Remove it, or copy it again")
    with path.open("rb") as file:
        if file.read(40).startswith(b"version https://git-lfs.github.com"):
            raise ToolError(f"{path}: is a pointer of git-lfs, not the checkpoint; fetch it with git lfs pull")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of file formats that it then refuses
            state = torch.load(path, map_location="cpu", weights_only=hasattr(torch.serialization, "add_safe_globals"))
    except Exception as error:  # torch raises many kinds for what is no checkpoint
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ToolError(f"{path}: cannot be read as a checkpoint, truncated or not one ({reason[:200]})") from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        raise ToolError(f"{path}: not a fairseq checkpoint: it has no entry 'model'")
    for options in _groups(state):
        wrong = compat.no_literal(options, EVALUATED)
        if wrong:
            raise ToolError(f"{path}: {wrong}. Do not use this checkpoint unless you know who made it")
    return state


def write(state: Dict[str, Any], path: Path) -> None:
    """Write a checkpoint that appears under its name only when it is whole."""
    with writing(path, "wb") as file:
        torch.save(state, file)


def _groups(state: Dict[str, Any]):
    """Every group of options that a checkpoint holds, as dicts: new checkpoints have ``cfg``, old ones ``args``."""
    for options in [state.get("args"), *(state.get("cfg") or {}).values()]:
        options = vars(options) if hasattr(options, "__dict__") and not isinstance(options, Mapping) else options
        if isinstance(options, Mapping):
            yield options
