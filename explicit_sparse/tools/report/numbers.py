"""Turns what was collected into the numbers of report.json, and reads which heads the command line means."""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from explicit_sparse.config import SITES

from ..command import ToolError
from . import statistics as stats
from .alignment import ErrorRate, GoldLinks, as_links, write_pharaoh
from .collect import Collection
from .models import System
from .sentences import Sentence, symbols

AVERAGE = "average"


class MapChoice(NamedTuple):
    """A heat map to draw: head is a number or AVERAGE."""

    site: str
    layer: int
    head: Any


def parse_numbers(flag: str, value: str, available: Sequence[int], what: str) -> List[int]:
    """The numbers of a comma-separated list, each of them available.

    Raises:
        ToolError: for what is no number, or names what there is not.
    """
    chosen = []
    for word in value.split(","):
        if not word.strip().isdigit() or int(word) not in available:
            there = f"{available[0]} to {available[-1]}" if len(available) else "none"
            raise ToolError(f"{flag} {value}: no {what} {word.strip()!r}; there are {there}")
        chosen.append(int(word))
    return list(dict.fromkeys(chosen))


def choose_maps(systems: Sequence[System], sites: str, layers: str, heads: str) -> List[MapChoice]:
    """The heat maps that --site, --layer and --head ask for; every system must have them.

    Raises:
        ToolError: for an unknown site, layer or head.
    """
    available = [site for site in SITES if all(site in system.attentions for system in systems)]
    chosen_sites = available if sites == "all" else [site.strip() for site in sites.split(",")]
    maps = []
    for site in chosen_sites:
        if site not in available:
            raise ToolError(f"--site {sites}: no site {site!r}; there are {', '.join(available)}")
        depth = min(len(system.attentions[site]) for system in systems)
        width = min(module.num_heads for system in systems for module in system.attentions[site])
        if layers == "last":
            chosen_layers = [depth - 1]
        elif layers == "all":
            chosen_layers = list(range(depth))
        else:
            chosen_layers = parse_numbers("--layer", layers, range(depth), f"layer at {site}")
        chosen_heads: List[Any] = []
        for word in heads.split(","):
            if word.strip() == AVERAGE:
                chosen_heads.append(AVERAGE)
            elif word.strip() == "all":
                chosen_heads.extend(range(width))
            else:
                chosen_heads.extend(parse_numbers("--head", word, range(width), f"head at {site}"))
        maps.extend(MapChoice(site, layer, head) for layer in chosen_layers for head in dict.fromkeys(chosen_heads))
    return maps


def of_system(system: System, collection: Collection) -> Dict[str, Any]:
    """Everything about one model, by site, layer and head."""
    sites = {}
    for site, modules in system.attentions.items():
        tallies = [collection.tallies[system.name][site, layer] for layer in range(len(modules))]
        layers = [
            {"mean": tally.mean(), "diversity": tally.diversity(), "heads": tally.heads(), "queries": tally.queries}
            for tally in tallies
        ]
        alphas = system.alphas(site)
        if alphas:
            for layer, of_layer in zip(layers, alphas):
                for head, alpha in zip(layer["heads"], of_layer):
                    head["alpha"] = alpha
        sites[site] = {
            "mean": _mean([layer["mean"] for layer in layers]),
            "diversity": _mean([layer["diversity"] for layer in layers]),
            "layers": layers,
            "density_histogram": sum(tally.histogram for tally in tallies).tolist(),
            "best_heads": _best_heads(layers),
        }
    return dict(system.describe(), sites=sites)


def _best_heads(layers: Sequence[Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """{role: the head that gives the role's keys the largest share of its weight}."""
    best: Dict[str, Dict[str, Any]] = {}
    for number, layer in enumerate(layers):
        for head, measures in enumerate(layer["heads"]):
            for role, share in measures["roles"].items():
                if share is not None and (role not in best or share > best[role]["share"]):
                    best[role] = {"layer": number, "head": head, "share": share}
    return best


def of_pair(first: System, second: System, collection: Collection) -> Dict[str, Any]:
    """Where the second model attends and the first does not, by site and layer; layers that both have."""
    sites = {}
    for site in first.attentions:
        if site in second.attentions:
            depth = min(len(first.attentions[site]), len(second.attentions[site]))
            layers = [collection.pairs[second.name][site, layer].measures() for layer in range(depth)]
            sites[site] = {"mean": _mean(layers), "layers": layers}
    return {"A": first.name, "B": second.name, "sites": sites}


def _mean(values: Sequence[Any]) -> Any:
    """Mean of numbers, or of dictionaries of such, entry by entry; what is None counts nowhere."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], dict):
        return {name: _mean([value[name] for value in known]) for name in known[0]}
    return sum(known) / len(known)


def choose_aligners(
    systems: Sequence[System], choice: Optional[str], shift: bool, gold: bool
) -> Dict[str, List[Tuple[int, bool]]]:
    """The layers whose cross-attention aligns words, each with whether by the shifted query.

    With a gold alignment all are measured, ordinary and shifted; else one is taken: as --align says, or the last layer
    but one, as arXiv 1909.02074 found best on average.

    Raises:
        ToolError: for a layer or head that some model does not have.
    """
    aligners = {}
    for system in systems:
        modules = system.attentions.get("cross", [])
        if choice is not None:
            _parse_aligner(system, choice)
        if gold:
            aligners[system.name] = [(layer, shifted) for layer in range(len(modules)) for shifted in (False, True)]
        elif modules:
            layer = max(len(modules) - 2, 0) if choice is None else _parse_aligner(system, choice)[0]
            aligners[system.name] = [(layer, shift)]
    return aligners


def _parse_aligner(system: System, choice: str) -> Tuple[int, Any]:
    """(layer, head or AVERAGE) of --align."""
    modules = system.attentions.get("cross", [])
    layer, _, head = choice.partition(":")
    [number] = parse_numbers("--align", layer, range(len(modules)), "layer of cross-attention")
    if not head:
        return number, AVERAGE
    heads = range(modules[number].num_heads)
    return number, parse_numbers("--align", head, heads, f"head in layer {number} of cross-attention")[0]


def of_alignment(
    systems: Sequence[System], collection: Collection, choice: Optional[str], gold: Dict[int, GoldLinks]
) -> List[Dict[str, Any]]:
    """Which head aligns words in each system, and with a gold alignment the error rate of every head.

    Raises:
        ToolError: if a gold link names a word that the sentence does not have.
    """
    results = []
    for system in systems:
        by_aligner = collection.sources.get(system.name, {})
        rates = []
        for (layer, shifted), sources in by_aligner.items():
            heads: List[Any] = [*range(system.attentions["cross"][layer].num_heads), AVERAGE]
            for row, head in enumerate(heads):
                entry = {"layer": layer, "head": head, "shifted": shifted}
                if gold:
                    rate = ErrorRate()
                    for index, words in sources.items():
                        rate.add(as_links(words[row]), gold[index])
                    entry["aer"] = rate.value
                rates.append(entry)
        wanted = [
            rate for rate in rates if choice is None or (rate["layer"], rate["head"]) == _parse_aligner(system, choice)
        ]
        if gold and wanted:
            chosen = min(wanted, key=lambda rate: rate["aer"])
        else:
            chosen = next((rate for rate in wanted if choice is not None or rate["head"] == AVERAGE), None)
        if chosen:
            file = "alignment/{}.pharaoh".format(file_name(system.name))
            results.append(dict(chosen, system=system.name, file=file, candidates=rates if gold else []))
    return results


def check_gold(gold: Dict[int, GoldLinks], sentences: Iterable[Sentence], collection: Collection, file: str) -> None:
    """Refuse gold links to words that are not there, as of a file that counts from 1.

    Raises:
        ToolError: naming the first such link.
    """
    for sentence in sentences:
        source = collection.words(sentence.source[:-1], 0)[-1] + 1
        target = collection.words(sentence.target[:-1], 1)[-1] + 1
        for link in sorted(gold[sentence.index].possible):
            if link[0] >= source or link[1] >= target:
                raise ToolError(
                    f"--gold {file}, line {sentence.index + 1}: link {link[0]}-{link[1]}, but the sentence has "
                    f"{source} source and {target} target words; links count from 0, source word first"
                )


def alignment_files(report: Dict[str, Any], collection: Collection, lines: int) -> Dict[str, str]:
    """{file: its text}: a line for each sentence of the text, empty where it was not read."""
    files = {}
    for entry in report["alignment"]:
        sources = collection.sources[entry["system"]][entry["layer"], entry["shifted"]]
        row = -1 if entry["head"] == AVERAGE else entry["head"]
        links = [as_links(sources[i][row]) if i in sources else frozenset() for i in range(lines)]
        files[entry["file"]] = write_pharaoh(links)
    return files


def of_maps(
    collection: Collection, sentences: Sequence[Sentence], choices: Sequence[MapChoice], words: bool
) -> List[Dict[str, Any]]:
    """The weights of the chosen heat maps with their labels.

    Queries of cross-attention are labelled with the token that they predict, those of the decoder's self-attention with
    the token that they read, so that its diagonal is a token's weight on itself.

    Returns:
        [{"sentence", "site", "layer", "head", "queries", "keys", "panels": [{"system", "weights"}]}, …]; a weight is
        None where the key is not allowed.
    """
    task = collection.systems[0].task
    dictionaries = task.source_dictionary, task.target_dictionary
    maps = []
    for sentence in sorted((s for s in sentences if s.index in collection.mapped), key=lambda s: s.index):
        previous = torch.cat([sentence.target[-1:], sentence.target[:-1]])  # what the decoder reads
        for site, layer, head in choices:
            queries, keys = {
                "encoder-self": ((sentence.source, 0), (sentence.source, 0)),
                "decoder-self": ((previous, 1), (previous, 1)),
                "cross": ((sentence.target, 1), (sentence.source, 0)),
            }[site]
            labels = [symbols(dictionaries[side], tokens) for tokens, side in (queries, keys)]
            numbers = [collection.words(tokens, side) for tokens, side in (queries, keys)]
            panels = []
            for system in collection.systems:
                weights, allowed = collection.maps[system.name, sentence.index, site, layer]
                weights = weights.mean(0) if head == AVERAGE else weights[head]
                if words:
                    weights = stats.join_words(weights, *numbers)
                    allowed = stats.join_words(allowed.to(weights), *numbers) > 0
                panels.append({"system": system.name, "weights": _rounded(weights, allowed)})
            if words:
                labels = [
                    _joined(of_side, number, collection.subwords[side])
                    for of_side, number, (_, side) in zip(labels, numbers, (queries, keys))
                ]
            maps.append(
                {
                    "sentence": sentence.index, "site": site, "layer": layer, "head": head,
                    "queries": labels[0], "keys": labels[1], "panels": panels,
                }  # fmt: skip
            )
    return maps


def _rounded(weights, allowed) -> List[List[Optional[float]]]:
    """Four digits, so that a small weight stays apart from 0; None where not allowed."""
    return [
        [float(f"{w:.4g}") if a else None for w, a in zip(row, may)]
        for row, may in zip(weights.tolist(), allowed.tolist())
    ]


def _joined(tokens: Sequence[str], numbers: Sequence[int], subwords: str) -> List[str]:
    words = [""] * (numbers[-1] + 1)
    for token, number in zip(tokens, numbers):
        if subwords == "subword-nmt" and token.endswith("@@"):
            token = token[:-2]
        words[number] += token.lstrip("\u2581") if subwords == "sentencepiece" else token
    return words


def file_name(name: str) -> str:
    """A system's name as part of a file's name: top-k 8 -> top-k_8."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name).strip(".") or "system"
