"""Loads the trained models that a report is about, and says what they are."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq import checkpoint_utils, tasks
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from explicit_sparse import architectures  # noqa: F401  registers our models
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import ALPHA_MAX, ALPHA_MIN, SITES, SiteConfig

from .. import checkpoints, convert
from ..command import ToolError

_ATTENTION_OF = {"encoder-self": "encoder.layers.{}.self_attn", "decoder-self": "decoder.layers.{}.self_attn",
                 "cross": "decoder.layers.{}.encoder_attn"}  # fmt: skip


@dataclass
class System:
    """A trained model with what a report needs to know of it.

    Attributes:
        attentions: {site: its attention modules, by layer}.
    """

    name: str
    checkpoint: Path
    architecture: str
    model: torch.nn.Module
    task: Any
    attentions: Dict[str, List[SparseMultiheadAttention]]

    def describe(self) -> Dict[str, Any]:
        """What the report says about the system itself."""
        return {
            "name": self.name,
            "checkpoint": str(self.checkpoint),
            "architecture": self.architecture,
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "attention": {site: site_label(modules[0].config) for site, modules in self.attentions.items()},
        }

    def alphas(self, site: str) -> Optional[List[List[float]]]:
        """The learned alpha of every head, by layer; None where none is learned."""
        modules = self.attentions[site]
        if not all(hasattr(module, "pre_alpha") for module in modules):
            return None
        return [module.alpha.tolist() for module in modules]


def load_systems(paths: Sequence[Path], names: Sequence[str], data: Path) -> List[System]:
    """Load checkpoints and check that they go with the data and with each other.

    Args:
        paths: checkpoints of ours, or of fairseq's own Transformer.
        names: one for each, or none: then what their options say.
        data: folder made by fairseq-preprocess.

    Raises:
        ToolError: for what is no translation model, or was trained on another vocabulary.
    """
    if names and len(names) != len(paths):
        raise ToolError(f"--name is given {len(names)} times for {len(paths)} checkpoints: name each or none")
    systems = [_load(path, data) for path in paths]
    for system, name in zip(systems, names):
        system.name = name
    if len({system.name for system in systems}) < len(systems):
        if names:
            raise ToolError(f"two systems have the same name: {', '.join(names)}")
        for number, system in enumerate(systems, 1):
            system.name += f" ({number})"
    first = systems[0]
    for system in systems[1:]:
        languages = [(s.task.cfg.source_lang, s.task.cfg.target_lang) for s in (first, system)]
        if languages[0] != languages[1]:
            raise ToolError(
                f"{system.checkpoint} translates {'-'.join(languages[1])}, {first.checkpoint} "
                f"{'-'.join(languages[0])}: compare models of one direction"
            )
    return systems


def _load(path: Path, data: Path) -> System:
    state = read_checkpoint(path)
    architecture = convert.model_name(state)
    if "encoder.embed_tokens.weight" not in state["model"]:
        raise ToolError(f"{path}: no encoder ({architecture}); a report is about models that translate")
    if architecture in convert.COUNTERPART:
        # fairseq's own Transformer: the same parameters in our class, whose attention can be observed
        convert.to_sparse(state, topk=0)
        with tempfile.TemporaryDirectory() as folder:
            converted = os.path.join(folder, "converted.pt")
            torch.save(state, converted)
            model, task = _build(path, converted, data)
    else:
        model, task = _build(path, str(path), data)
    attentions = {
        site: [
            module for module in model.modules() if isinstance(module, SparseMultiheadAttention) and module.site == site
        ]
        for site in SITES
    }
    attentions = {site: modules for site, modules in attentions.items() if modules}
    if not attentions:
        raise ToolError(
            f"{path}: the model ({architecture}) holds no attention of this plugin; a Transformer of fairseq's own "
            "becomes one with python -m explicit_sparse.tools.convert IN.pt OUT.pt --to sparse"
        )
    name = system_label({site: modules[0].config for site, modules in attentions.items()})
    return System(name, path, architecture, model.eval(), task, attentions)


def read_checkpoint(path: Path) -> Dict[str, Any]:
    """The raw state of a fairseq checkpoint. Raises ToolError where it is none."""
    state = checkpoints.read(path)
    if not (state.get("cfg") or state.get("args")):
        raise ToolError(f"{path}: not a fairseq checkpoint, which has a model and its options")
    return state


def _build(path: Path, file: str, data: Path):
    state = checkpoint_utils.load_checkpoint_to_cpu(file, {})
    options = state["cfg"]["task"] if state.get("cfg") else state["args"]
    trained_on, options.data = options.data, str(data)
    try:
        task = tasks.setup_task(options)
    except Exception as error:  # fairseq raises plain Exception where it finds no language pair
        raise ToolError(f"{data}: not a folder of fairseq-preprocess for {path} ({error})") from error
    if not isinstance(task, TranslationTask):
        raise ToolError(
            f"{path}: trained on the task {type(task).__name__}; a report reads data of the translation task"
        )
    sides = (("encoder", "source", task.source_dictionary), ("decoder", "target", task.target_dictionary))
    for part, side, dictionary in sides:
        trained = state["model"][f"{part}.embed_tokens.weight"].size(0)
        language = getattr(task.cfg, f"{side}_lang")
        old, new = (Path(folder) / f"dict.{language}.txt" for folder in (str(trained_on), data))
        # A checkpoint holds no vocabulary: where the sizes agree, only its own training data can tell.
        if trained != len(dictionary) or (old.exists() and _symbols(old) != _symbols(new)):
            raise ToolError(
                f"{data} has another vocabulary than {path} was trained on ({side} side: {len(dictionary)} and "
                f"{trained} symbols); give the folder it was trained on, or data prepared with its dictionary"
            )
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([file], task=task, state=state)
    return models[0], task


def _symbols(dictionary: Path) -> List[str]:
    return [line.rsplit(" ", 1)[0] for line in dictionary.read_text(encoding="utf-8").splitlines()]


def site_label(config: SiteConfig) -> str:
    """What one attention site does, as the configurations name it: top-k 8, sparsemax, dense, window 8, …"""
    label = {
        "softmax": "dense",
        "topk": f"top-k {config.topk}" if config.topk_ratio is None else f"top-k 1/{config.topk_ratio:g}",
        "entmax15": "1.5-entmax",
        "entmax": "alpha-entmax" if config.entmax_alpha is None else f"{config.entmax_alpha:g}-entmax",
        "rela": "ReLA",
        "nm": "{}:{}".format(*config.nm),
    }.get(config.mapping, config.mapping)
    if config.mapping == "topk":
        label += " after softmax" if config.order == "after" else ""
        label += {"train": " in training only", "generate": " in generation only"}.get(config.phase, "")
    if config.pattern != "full":
        pattern = f"{config.pattern} {config.span}"
        label = pattern if label == "dense" else f"{label}, {pattern}"
    return label


def system_label(sites: Dict[str, SiteConfig]) -> str:
    """What a model is: one label where its sites agree, else those that are not dense with their sites."""
    labels = {site: site_label(config) for site, config in sites.items()}
    if len(set(labels.values())) == 1:
        return next(iter(labels.values()))
    return "; ".join(f"{label}, {site}" for site, label in labels.items() if label != "dense")


def alpha_course(paths: Sequence[Path]) -> List[Dict[str, Any]]:
    """alpha of every head in several checkpoints of one training, by update.

    Returns:
        [{"update", "sites": {site: [[alpha of each head] of each layer]}}, …], by growing update.

    Raises:
        ToolError: for a checkpoint without learned alpha or without a number of updates.
    """
    points = {}
    for path in paths:
        state = read_checkpoint(path)
        history = state.get("optimizer_history") or [{}]
        update = history[-1].get("num_updates")
        if update is None:
            raise ToolError(f"{path}: does not say after how many updates it was written")
        if update in points:
            raise ToolError(
                f"{path}: a second checkpoint after {update} updates; give each once, all of one training"
            )
        sites = {site: _alphas_of(state["model"], name) for site, name in _ATTENTION_OF.items()}
        points[update] = {site: alphas for site, alphas in sites.items() if alphas}
        if not points[update]:
            raise ToolError(f"{path}: learns no alpha; that is --attention-mapping entmax")
    return [{"update": update, "sites": points[update]} for update in sorted(points)]


def _alphas_of(parameters: Dict[str, Tensor], name: str) -> List[List[float]]:
    alphas: List[List[float]] = []
    while f"{name.format(len(alphas))}.pre_alpha" in parameters:
        raw = parameters[f"{name.format(len(alphas))}.pre_alpha"].float()
        alphas.append((1 + torch.sigmoid(raw)).clamp(ALPHA_MIN, ALPHA_MAX).tolist())
    return alphas
