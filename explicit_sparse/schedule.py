"""How many keys top-k keeps in training, update by update."""

import random
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Schedule:
    """k at an update of the training; outside training the schedule is never asked.

    With K the final k, S the keys of a row and t the updates done before this one:

        t < W                dense, k = S
        W <= t < W + A       k = ceil(S^(1 - f) K^f),  f = (t - W) / A
        from then on         k = K

    and whatever t says, an update is dense with probability P. So k falls by the same factor at each update of the
    annealing, from the whole row to K. An update's draw depends on nothing but the seed and t: it is the same in every
    process, in every part of a batch (``--update-freq``), and in a resumed training.

    Args:
        warmup_updates: W, ``--topk-warmup-updates``.
        anneal_updates: A, ``--topk-anneal-updates``.
        dense_share: P, ``--topk-dense-share``.
        seed: fairseq's ``--seed``.
    """

    warmup_updates: int = 0
    anneal_updates: int = 0
    dense_share: float = 0.0
    seed: int = 1

    def keys_kept(self, k: int, keys: int, update: int) -> int:
        """k for a row of ``keys`` keys when ``update`` updates have been done; ``keys`` is dense."""
        if k >= keys or update < self.warmup_updates or self._draw(update) < self.dense_share:
            return keys
        annealed = update - self.warmup_updates
        if annealed >= self.anneal_updates:
            return k
        return ceil(keys * (k / keys) ** (annealed / self.anneal_updates))

    def _draw(self, update: int) -> float:
        """Uniform in [0, 1)."""
        return random.Random("{} {}".format(self.seed, update)).random()
