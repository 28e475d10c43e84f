"""alpha-entmax by Newton's method, with its exact gradients.

With z_j = max((alpha - 1) s_j - tau, 0) and q = 1 / (alpha - 1), the weights are p_j = z_j^q, and the threshold
tau is where they sum to 1: where the q-norm of z is 1. That norm is convex in tau and falls to 0, so Newton's
method from below climbs to the root without passing it:

    tau <- tau + (S - S^(2 - alpha)) / sum_j p_j / z_j,    S = sum_j p_j.

It ends after 3 to 10 passes over a row, where halving an interval takes one for every bit. alpha = 2 is sparsemax,
where the norm is piecewise linear and the steps are the rounds of its active-set algorithm.

Source: arXiv 1905.05702 (the mapping), 1909.00015 (the gradient with respect to alpha).
"""

import torch
from torch import Tensor

# Four or five do for attention's rows; the cap only keeps rounding errors from going round in circles.
MOST_STEPS = 50


class AlphaEntmax(torch.autograd.Function):
    """(scores, alpha) -> weights, all of dimension S last.

    Args:
        scores: (..., S), float32 or float64, at least one finite in each row; ``-inf`` gets weight 0.
        alpha: (..., 1), in (1, 2], expanded to the rows of ``scores``.

    Returns:
        Weights (..., S); each row sums to 1.
    """

    @staticmethod
    def forward(ctx, scores: Tensor, alpha: Tensor) -> Tensor:
        weights = _solve(scores, alpha)
        ctx.save_for_backward(weights, alpha)
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor):
        weights, alpha = ctx.saved_tensors
        # How weights answer to their scores; on the support only, since 0^0 = 1 at alpha = 2.
        slope = (weights ** (2 - alpha)).masked_fill(weights == 0, 0)  # (..., S)
        share = slope / slope.sum(-1, keepdim=True)
        scores_gradient = alpha_gradient = None
        if ctx.needs_input_grad[0]:
            scores_gradient = slope * (gradient - (gradient * share).sum(-1, keepdim=True))
        if ctx.needs_input_grad[1]:
            logs = torch.xlogy(weights, weights)  # p log p, 0 where p = 0
            by_alpha = (weights - share) / (alpha - 1) ** 2
            by_alpha -= (logs - share * logs.sum(-1, keepdim=True)) / (alpha - 1)
            alpha_gradient = (gradient * by_alpha).sum(-1, keepdim=True)  # (..., 1)
        return scores_gradient, alpha_gradient


def _solve(scores: Tensor, alpha: Tensor) -> Tensor:
    x = (scores - scores.amax(-1, keepdim=True)) * (alpha - 1)  # (..., S), the best at 0
    exponent = 1 / (alpha - 1)
    enough = torch.finfo(x.dtype).eps
    tau = torch.full_like(alpha, -1)  # (..., 1): here the best key alone has weight 1
    for _ in range(MOST_STEPS):
        z = (x - tau).clamp_(min=0)
        weights = z**exponent
        total = weights.sum(-1, keepdim=True)
        slope = (weights / z).nan_to_num_(0).sum(-1, keepdim=True)  # 0 / 0 off the support
        step = (total - total ** (2 - alpha)) / slope
        if not (step > enough).any():
            break
        tau = tau + step
    return weights / total
