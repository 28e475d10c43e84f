"""Top-k softmax of short rows on a CPU, compiled: selection, exp and sum in one pass over the scores.

``short.cpp`` needs a C++ compiler (GCC or clang) when the package is installed and nothing else: no headers of torch's,
so it is built within seconds and survives torch's upgrades, and ctypes calls it in two microseconds. Where it is
missing, does not load or was built from another version of its source, :mod:`explicit_sparse.mappings` computes the same
with torch's own operations; :func:`status` says why. The environment variable ``EXPLICIT_SPARSE_KERNELS=0``, read
at import, switches it off.
"""

import ctypes
import os
import sysconfig
import zlib
from pathlib import Path
from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SOURCE = Path(__file__).with_name("short.cpp")
LIBRARY = Path(__file__).with_name("_short" + sysconfig.get_config_var("EXT_SUFFIX"))


def _load() -> Tuple[Optional[ctypes.CDLL], str]:
    """The library and "", or None and the reason."""
    if os.environ.get("EXPLICIT_SPARSE_KERNELS") == "0":
        return None, "EXPLICIT_SPARSE_KERNELS is 0"
    if not LIBRARY.exists():
        return None, "it was not built: no C++ compiler, or not installed with scripts/setup.sh"
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.source.restype = ctypes.c_int64
    except (OSError, AttributeError) as error:
        return None, "it does not load: {}".format(error)
    if SOURCE.exists() and library.source() != zlib.crc32(SOURCE.read_bytes()):
        return None, "it was built from another version of short.cpp; run scripts/setup.sh --force"
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for name in ("float", "double"):
        getattr(library, "forward_" + name).argtypes = [pointer] * 2 + [number] * 5
        getattr(library, "backward_" + name).argtypes = [pointer] * 3 + [number] * 3
        getattr(library, "forward_" + name).restype = getattr(library, "backward_" + name).restype = None
    return library, ""


_library, _reason = _load()
if _library is not None:
    _forward = {torch.float32: _library.forward_float, torch.float64: _library.forward_double}
    _backward = {torch.float32: _library.backward_float, torch.float64: _library.backward_double}
    MAX_KEYS, MAX_K = _library.max_keys(), _library.max_k()


def available() -> bool:
    """Whether the compiled kernel is in use."""
    return _library is not None


def status() -> str:
    """One line for the person who installs: "compiled kernel: yes", or no, the reason, and what is used instead."""
    return "compiled kernel: yes" if available() else "compiled kernel: no ({}); pure torch".format(_reason)


def takes(scores: Tensor, k: int) -> bool:
    """Whether :func:`topk_softmax` is there for these scores, and faster than torch's operations."""
    return (
        _library is not None
        and scores.device.type == "cpu"
        and scores.dtype in _forward
        and scores.size(-1) <= MAX_KEYS
        and k <= MAX_K
    )


def topk_softmax(scores: Tensor, k: int, exactly: bool) -> Tensor:
    """Softmax over the k largest scores of each row; see :func:`explicit_sparse.mappings.topk`.

    Args:
        scores: (..., S), float32 or float64, that :func:`takes` accepts; ``-inf`` = not allowed.
        k: between 1 and MAX_K; it may be larger than S.
        exactly: of equal scores the leftmost stay, k in all; otherwise every score >= the k-th largest stays.

    Returns:
        Weights (..., S), contiguous. A row of only ``-inf`` gives zeros with zero gradients; NaN or +inf makes
        its row NaN. Can be differentiated once.
    """
    if torch.is_grad_enabled() and scores.requires_grad:
        return _TopkSoftmax.apply(scores, k, exactly)
    return _weights(scores, k, exactly)


def _weights(scores: Tensor, k: int, exactly: bool) -> Tensor:
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    size = scores.size(-1)
    _forward[scores.dtype](
        scores.data_ptr(), weights.data_ptr(), scores.numel() // size, size, k, exactly, torch.get_num_threads()
    )
    return weights


class _TopkSoftmax(torch.autograd.Function):
    """Weights w with the gradient of a softmax, w * (g - sum(w * g)): where w is 0 so is the gradient."""

    @staticmethod
    def forward(ctx, scores, k, exactly):
        weights = _weights(scores, k, exactly)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_weights):
        (weights,) = ctx.saved_tensors
        grad_weights = grad_weights.contiguous()
        grad_scores = torch.empty_like(weights)
        size = weights.size(-1)
        _backward[weights.dtype](
            weights.data_ptr(),
            grad_weights.data_ptr(),
            grad_scores.data_ptr(),
            weights.numel() // size,
            size,
            torch.get_num_threads(),
        )
        return grad_scores, None, None
