"""Top-k softmax in one pass over the scores on a GPU: a Triton kernel behind the contract of ``mappings.topk``.

Off unless ``EXPLICIT_SPARSE_KERNELS=triton`` is set when the package is imported. It has been checked in Triton's
interpreter, against the plain torch code, and compiled for NVIDIA GPUs, but never run or timed on one: whether it
is faster there is for whoever has one to find out, with ``python benchmarks/mappings.py --device cuda``.

The threshold of a row, its k-th largest score, is found without sorting. The bits of a float, with all but the sign
flipped where it is negative, are a signed integer in the order of the floats; so the largest integer t for which
at least k scores are >= t is the threshold exactly, and its 32 bits are decided one by one, from the highest, by
counting. A row stays in registers throughout: the scores are read once and the weights are written once.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError(
        "EXPLICIT_SPARSE_KERNELS=triton needs Triton, which cannot be imported here ({}). "
        "pip install triton (torch's CUDA builds for Linux bring it), or unset the variable".format(error)
    ) from error

MAX_KEYS = 8192  # a row of more would not fit into the registers of one program
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def takes(scores: Tensor) -> bool:
    """Whether :func:`topk_softmax` is there for these scores: on CUDA, not float64, up to MAX_KEYS keys."""
    return scores.is_cuda and scores.dtype in _DTYPES and scores.size(-1) <= MAX_KEYS


def topk_softmax(scores: Tensor, k: int, exactly: bool) -> Tensor:
    """Softmax over the k largest scores of each row; see :func:`explicit_sparse.mappings.topk`.

    Args:
        scores: (..., S), ``-inf`` = not allowed; float32, or half or bfloat16, computed in float32. S <= MAX_KEYS.
        k: at least 1.
        exactly: of equal scores the leftmost stay, k in all; otherwise every score >= the k-th largest stays.

    Returns:
        Weights (..., S) in the dtype of ``scores``; a row of only ``-inf`` gives zeros, and NaN makes its row
        NaN. Differentiable once.
    """
    return _TopKSoftmax.apply(scores, k, exactly)


class _TopKSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, k, exactly):
        scores = scores.contiguous()
        weights = torch.empty_like(scores)
        _launch(_forward_kernel, scores, weights, k=k, EXACTLY=exactly)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        grad_scores = torch.empty_like(weights)
        _launch(_backward_kernel, weights, grad.contiguous(), grad_scores)
        return grad_scores, None, None


def _launch(kernel, *tensors, **arguments):
    """Run a kernel over all rows of tensors of one shape (..., S); short rows share a program."""
    keys = tensors[0].size(-1)
    if tensors[0].numel() == 0:
        return
    rows = tensors[0].numel() // keys
    block = triton.next_power_of_2(keys)
    block_rows = max(1, 1024 // block)
    with torch.cuda.device_of(tensors[0]):  # Triton launches on the current device
        kernel[(triton.cdiv(rows, block_rows),)](
            *tensors,
            rows,
            keys,
            **arguments,
            BLOCK_ROWS=block_rows,
            BLOCK_KEYS=block,
            num_warps=min(16, max(4, block // 512)),
        )


@triton.jit
def _forward_kernel(
    scores,
    weights,
    rows,
    keys,
    k,
    EXACTLY: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):
    at, inside = _block(rows, keys, BLOCK_ROWS, BLOCK_KEYS)  # (rows, keys)
    x = tl.load(scores + at, mask=inside, other=float("-inf")).to(tl.float32)
    x = tl.where(x == 0.0, 0.0, x)  # -0.0 and 0.0 are equal but differ in their bits
    bits = x.to(tl.int32, bitcast=True)
    image = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)

    positive = tl.sum((image >= 0).to(tl.int32), axis=1)
    threshold = tl.where(positive >= k, 0, -2147483648)  # (rows,): the highest bit is the sign
    for step in range(31):
        candidate = threshold | (1 << (30 - step))
        count = tl.sum((image >= candidate[:, None]).to(tl.int32), axis=1)
        threshold = tl.where(count >= k, candidate, threshold)

    if EXACTLY:
        above = image > threshold[:, None]
        equal = image == threshold[:, None]
        left = k - tl.sum(above.to(tl.int32), axis=1)
        kept = above | (equal & (tl.cumsum(equal.to(tl.int32), axis=1) <= left[:, None]))
    else:
        kept = image >= threshold[:, None]

    kept = kept | (x != x)  # a NaN of either sign: it makes its row NaN, as in a softmax
    top = tl.max(x, axis=1)
    top = tl.where(top == float("-inf"), 0.0, top)  # no key allowed: exp(-inf - 0) = 0, where -inf + inf is NaN
    unnormalised = tl.where(kept, tl.exp(x - top[:, None]), 0.0)
    total = tl.sum(unnormalised, axis=1)
    total = tl.where(total == 0.0, 1.0, total)
    tl.store(weights + at, (unnormalised / total[:, None]).to(weights.dtype.element_ty), mask=inside)


@triton.jit
def _backward_kernel(
    weights,
    grad,
    grad_scores,
    rows,
    keys,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):
    # Softmax over the kept keys: ds = p (g - sum(p g)), which is 0 wherever p is.
    at, inside = _block(rows, keys, BLOCK_ROWS, BLOCK_KEYS)
    p = tl.load(weights + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(p * g, axis=1)  # (rows,)
    tl.store(grad_scores + at, (p * (g - mean[:, None])).to(grad_scores.dtype.element_ty), mask=inside)


@triton.jit
def _block(rows, keys, BLOCK_ROWS: tl.constexpr, BLOCK_KEYS: tl.constexpr):
    """The offsets of this program's scores, (BLOCK_ROWS, BLOCK_KEYS), and which of them there are."""
    row = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)[:, None]
    key = tl.arange(0, BLOCK_KEYS)[None, :]
    return row * keys + key, (row < rows) & (key < keys)
