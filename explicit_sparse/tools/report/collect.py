"""Runs models over sentences and adds up what their attention does; weights are kept for chosen sentences only."""

from collections import defaultdict
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from explicit_sparse.mappings import NEG_INF

from . import statistics as stats
from .alignment import align
from .models import System
from .sentences import Batch, symbols

BINS = 20

Place = Tuple[str, int]  # site, layer


class Queries(NamedTuple):
    """The real queries of one batch at one site, padding left out: N of them.

    Attributes:
        real: (B, T), which queries of the batch these are.
        kinds: {kind of key: (N, S) bool}.
        roles: {role: (N, S) bool}.
    """

    real: Tensor
    kinds: Dict[str, Tensor]
    roles: Dict[str, Tensor]


class Tally:
    """Sums over queries for one system, site and layer."""

    def __init__(self):
        self.queries = 0
        self.sums: Dict[str, Any] = defaultdict(float)  # {measure: (H,)}
        self.histogram: Any = 0  # (BINS,)
        self.divergence = self.divergence_queries = 0.0

    def add(self, weights: Tensor, allowed: Tensor, queries: Queries) -> None:
        """Count the queries of one batch: weights (N, H, S), allowed (N, S)."""
        self.queries += weights.size(0)
        every_head = allowed.unsqueeze(1)  # (N, 1, S)
        density = stats.density(weights, every_head)  # (N, H)
        measures = {
            "support": stats.support(weights),
            "density": density,
            "allowed": every_head.sum(-1).expand_as(density),
            "entropy": stats.entropy(weights),
            "empty": stats.is_empty(weights),
            "tail": stats.tail(weights),
            "weight": weights.sum(-1),
        }
        for kind, keys in queries.kinds.items():
            measures["kind " + kind] = (weights * keys.unsqueeze(1)).sum(-1)
        for name, values in measures.items():
            self.sums[name] = self.sums[name] + values.double().sum(0)
        for role, keys in queries.roles.items():
            for name, sums in zip(("role ", "all of "), stats.role_share(weights, keys, allowed)):
                self.sums[name + role] = self.sums[name + role] + sums.double()
        self.histogram = self.histogram + stats.histogram(density.flatten(), BINS)
        divergence, several = stats.head_divergence(weights)
        self.divergence += float(divergence.double().sum())
        self.divergence_queries += int(several.sum())

    def heads(self) -> List[Dict[str, Any]]:
        """The measures of each head."""
        return [self._measures(lambda sums, head=head: sums[head]) for head in range(len(self.sums["weight"]))]

    def mean(self) -> Dict[str, Any]:
        """The measures over all heads."""
        return self._measures(lambda sums: sums.mean())

    def _measures(self, of: Callable[[Tensor], Tensor]) -> Dict[str, Any]:
        def share(part: str, whole: str) -> Optional[float]:
            total = float(of(self.sums[whole]))
            return float(of(self.sums[part])) / total if total else None

        measures: Dict[str, Any] = {
            name: float(of(self.sums[name])) / self.queries
            for name in ("support", "density", "allowed", "entropy", "empty")
        }
        measures["tail"] = share("tail", "weight")
        measures["kinds"] = {kind: share("kind " + kind, "weight") for kind in stats.KINDS}
        measures["roles"] = {
            role: share("role " + role, "all of " + role) for role in stats.ROLES if "role " + role in self.sums
        }
        return measures

    def diversity(self) -> Optional[float]:
        """Mean divergence of the heads over the queries where at least two attend; None where none do."""
        return self.divergence / self.divergence_queries if self.divergence_queries else None


class PairTally:
    """Sums over queries of what the second system does otherwise than the first, at one site and layer."""

    def __init__(self):
        self.queries = 0
        self.sums: Dict[str, Dict[str, float]] = {name: dict.fromkeys(stats.KINDS, 0.0) for name in stats.COMPARISON}

    def add(self, first: Tensor, second: Tensor, coverage: Tensor, allowed: Tensor, queries: Queries) -> None:
        """Count one batch; all (N, S)."""
        self.queries += first.size(0)
        for name, by_key in stats.compare_rows(first, second, coverage, allowed).items():
            for kind, keys in queries.kinds.items():
                self.sums[name][kind] += float((by_key * keys).sum())

    def measures(self) -> Dict[str, Any]:
        """Mean over queries of each measure, in all and by the kind of key."""
        return {
            name: {
                "all": sum(by_kind.values()) / self.queries,
                "kinds": {kind: value / self.queries for kind, value in by_kind.items()},
            }
            for name, by_kind in self.sums.items()
        }


class Collection:
    """Everything that is added up while models read the same sentences.

    Args:
        systems: the models; each further one is compared with the first.
        device: where they run.
        subwords: how the (source, target) tokens are cut.
        maps: indices of the sentences whose weights are kept, at every site and layer.
        aligners: {system: the layers whose cross-attention aligns words, each with whether by the shifted query}.

    Attributes:
        sources: {system: {aligner: {sentence: source word of each target word, (H + 1, words)}}}; the last row is
            that of the heads' average.
    """

    def __init__(
        self,
        systems: Sequence[System],
        device: torch.device,
        subwords: Tuple[str, str],
        maps: Iterable[int] = (),
        aligners: Optional[Dict[str, List[Tuple[int, bool]]]] = None,
    ):
        self.systems = list(systems)
        self.device = device
        self.subwords = subwords
        self.mapped = set(maps)
        self.aligners = aligners or {}
        self.tallies: Dict[str, Dict[Place, Tally]] = {system.name: defaultdict(Tally) for system in systems}
        self.pairs: Dict[str, Dict[Place, PairTally]] = {system.name: defaultdict(PairTally) for system in systems[1:]}
        # {(system, sentence, site, layer): weights (H, T, S), allowed (T, S)}
        self.maps: Dict[Tuple[str, int, str, int], Tuple[Tensor, Tensor]] = {}
        self.sources: Dict[str, Dict[Tuple[int, bool], Dict[int, Tensor]]] = {
            system.name: {aligner: {} for aligner in self.aligners.get(system.name, ())} for system in systems
        }
        task = systems[0].task
        self._dictionaries = task.source_dictionary, task.target_dictionary
        # (V,) bool each: which tokens are punctuation
        self._punctuation = [torch.tensor([stats.is_punctuation(s) for s in d.symbols]) for d in self._dictionaries]

    def words(self, tokens: Tensor, side: int) -> List[int]:
        """The number of the word of each token; side 0 = source, 1 = target."""
        return stats.word_numbers(symbols(self._dictionaries[side], tokens), self.subwords[side])

    def read(self, batch: Batch) -> None:
        """Run every system over one batch and add up what its attention did."""
        sites = self._queries(batch)
        averages: Dict[Place, Tuple[Tensor, Tensor]] = {}  # of the first system: (N, S), allowed (N, S)

        for system in self.systems:

            def observe(module, scores, weights, system=system):  # (B, H, T, S)
                place = (module.site, module.layer)
                queries = sites[module.site]
                weights, allowed = weights.detach().cpu(), (scores[:, 0] != NEG_INF).cpu()  # allowed (B, T, S)
                self._keep(system, place, batch, weights, allowed)
                rows, allowed = weights.transpose(1, 2)[queries.real], allowed[queries.real]  # (N, H, S), (N, S)
                self.tallies[system.name][place].add(rows, allowed, queries)
                if system is self.systems[0]:
                    averages[place] = rows.mean(1), allowed
                elif place in averages:
                    coverage = (rows > 0).to(rows.dtype).mean(1)
                    first, allowed = averages[place]
                    self.pairs[system.name][place].add(first, rows.mean(1), coverage, allowed, queries)

            modules = [module for of_site in system.attentions.values() for module in of_site]
            for module in modules:
                module.observer = observe
            try:
                with torch.no_grad():
                    system.model(
                        src_tokens=batch.source.to(self.device),
                        src_lengths=batch.source_lengths.to(self.device),
                        prev_output_tokens=batch.previous.to(self.device),
                    )
            finally:
                for module in modules:
                    module.observer = None

    def _queries(self, batch: Batch) -> Dict[str, Queries]:
        """What queries and keys are, at each site of one batch."""
        pad, eos = self._dictionaries[0].pad(), self._dictionaries[0].eos()

        def side(tokens: Tensor, number: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
            real = tokens != pad  # (B, L)
            positions = torch.arange(tokens.size(1)).expand_as(tokens).masked_fill(~real, -1)
            words = torch.full_like(tokens, -1)
            for row, length in enumerate(real.sum(1).tolist()):
                words[row, :length] = torch.tensor(self.words(tokens[row, :length], number))
            return positions, tokens == eos, self._punctuation[number][tokens], words

        source, target = side(batch.source, 0), side(batch.previous, 1)
        sites = {}
        for site, queries, keys in (
            ("encoder-self", source, source), ("decoder-self", target, target), ("cross", target, source)
        ):  # fmt: skip
            real = queries[0] >= 0
            kinds = stats.kind_masks(keys[1], keys[2], queries[0], keys[0])
            roles = stats.role_masks(queries[0], keys[0], words=None if site == "cross" else queries[3])
            if site == "decoder-self":
                del roles["next"]  # the decoder does not see what comes
            sites[site] = Queries(real, *({n: mask[real] for n, mask in masks.items()} for masks in (kinds, roles)))
        return sites

    def _keep(self, system: System, place: Place, batch: Batch, weights: Tensor, allowed: Tensor) -> None:
        """Word alignments, and the weights of the sentences chosen for pictures."""
        site, layer = place
        aligners = [a for a in self.aligners.get(system.name, ()) if site == "cross" and a[0] == layer]
        for row, sentence in enumerate(batch.sentences):
            if not aligners and sentence.index not in self.mapped:
                continue
            queries = len(sentence.source if site == "encoder-self" else sentence.target)
            keys = len(sentence.target if site == "decoder-self" else sentence.source)
            own = weights[row, :, :queries, :keys]  # (H, T, S)
            if sentence.index in self.mapped:
                key = (system.name, sentence.index, site, layer)
                self.maps[key] = own.clone(), allowed[row, :queries, :keys].clone()
            if aligners:
                words = self.words(sentence.source[:-1], 0), self.words(sentence.target[:-1], 1)
                with_average = torch.cat([own, own.mean(0, keepdim=True)])  # (H + 1, T, S)
                for _, shifted in aligners:
                    sources = align(with_average, *words, shifted).short()
                    self.sources[system.name][layer, shifted][sentence.index] = sources
