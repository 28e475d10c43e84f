"""Loads the compiled kernels, which setup.py builds where there is a C++ compiler.

The environment variable ``EXPLICIT_SPARSE_KERNELS``, read at import, chooses: ``0`` switches them off, ``triton`` adds
the kernel for GPUs, see :mod:`.triton_topk`.
"""

import ctypes
import os
import sysconfig
import zlib
from pathlib import Path
from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

HERE = Path(__file__).parent
NAMES = ("short", "long")


def load(name: str, folder: Path = HERE) -> Tuple[Optional[ctypes.CDLL], str]:
    """The library that was built from ``name``.cpp and "", or None and the reason."""
    source, library = folder / (name + ".cpp"), folder / ("_" + name + sysconfig.get_config_var("EXT_SUFFIX"))
    if os.environ.get("EXPLICIT_SPARSE_KERNELS") == "0":
        return None, "EXPLICIT_SPARSE_KERNELS is 0"
    if not library.exists():
        return None, "it was not built: no C++ compiler, or not installed with scripts/setup.sh"
    try:
        loaded = ctypes.CDLL(str(library))
        built_from = loaded.source()
    except (OSError, AttributeError) as error:
        return None, "it does not load: {}".format(error)
    if source.exists() and built_from & 0xFFFFFFFF != zlib.crc32(source.read_bytes()):
        return None, "it was built from another version of {}; run scripts/setup.sh --force".format(source.name)
    return loaded, ""


def is_plain(x: Tensor) -> bool:
    """Whether this is an ordinary tensor whose memory holds its numbers, and nothing watches what is done with it.

    Only then may a kernel read the memory, or a branch depend on the numbers. Subclasses, fake and meta tensors, vmap,
    tracing, torch.compile, dispatch modes and forward-mode differentiation go through torch's operations.
    """
    return (
        type(x) in (Tensor, Parameter)
        and x.device.type == "cpu"
        and x.layout is torch.strided
        and not x.is_neg()
        and not torch.jit.is_tracing()
        and not torch.compiler.is_compiling()
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and not torch._C._functorch.is_legacy_batchedtensor(x)  # autograd.grad with is_grads_batched
        and torch._C._len_torch_dispatch_stack() == 0
        and forward_ad._current_level < 0
    )


def status() -> str:
    """One line for the person who installs: whether the compiled kernels are in use, else why not."""
    reasons = [reason for _, reason in map(load, NAMES) if reason]
    return "compiled kernels: no ({}); pure torch".format(reasons[0]) if reasons else "compiled kernels: yes"
