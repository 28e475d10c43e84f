"""The steps from archives to binarised data, in order.

Each step's folder appears when it is complete, so a killed run continues at the step it was in; what a step
makes depends on its input and the options alone, so the result is the same. The finished folder appears all at once.
"""

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..command import ToolError
from . import manifest
from .binarise import binarise
from .datasets import Archive, Dataset, Part, Subset
from .extract import unpack, write_pairs
from .fetch import fetch, sha256
from .parallel import transform_files
from .segment import learn_sentencepiece, learn_subword_nmt, segmenter
from .steps import info, link_tree, locked, run_step
from .text import rejection, tokeniser

MODEL_FILE = {"subword-nmt": "codes", "sentencepiece": "spm.model"}


@dataclass(frozen=True)
class Options:
    """What the user chose; everything here that can change the result is in the manifest."""

    bpe: str
    vocab_size: int
    moses: Optional[Path]
    romanian: str
    variant: str
    verify: bool
    workers: int
    origins: Tuple[str, ...] = ()

    @property
    def tokenizer(self) -> str:
        return "moses" if self.moses else "sacremoses"


def prepare(dataset: Dataset, out: Path, options: Options, force: bool = False) -> None:
    """Make ``out``, or find that it is complete. Two calls at once: the second waits, then finds it complete.

    Raises
    ------
    ToolError : with what was wrong and what to do; ``out`` is then as it was before.
    """
    with locked(out.parent / f".{out.name}.lock"):
        work = out.parent / f".{out.name}.work"
        recipe = _recipe(dataset, options)
        before = manifest.of_ours(out, dataset.name, replace=force)
        if before is not None and not force:
            _check_same(before, recipe, out)
            shutil.rmtree(work, ignore_errors=True)
            info(f"{out}: prepared before")
            return
        _open_work(work, recipe)
        _Run(dataset, out, work, recipe, options).run()
        shutil.rmtree(work)


def _recipe(dataset: Dataset, options: Options) -> Dict[str, Any]:
    """All that decides the result, apart from the contents of the archives."""
    return {
        "bpe": options.bpe,
        "vocab_size": options.vocab_size,
        "tokenizer": options.tokenizer,
        "lowercase": dataset.lowercase,
        "normalise_punctuation": dataset.normalise_punctuation,
        "escape": dataset.escape,
        "joined_dictionary": dataset.joined_dictionary,
        "clean": list(dataset.clean),
        "romanian": options.romanian,
        "variant": options.variant,
        "verified": options.verify,
    }


def _check_same(before: Dict[str, Any], recipe: Dict[str, Any], out: Path) -> None:
    differences = [
        f"{name} {before['options'].get(name)!r} there, {value!r} now"
        for name, value in recipe.items()
        if before["options"].get(name) != value
    ]
    if differences:
        raise ToolError(
            f"{out} was prepared with other options ({'; '.join(differences)}). "
            "Give --force to make it anew, or another --out"
        )


def _open_work(work: Path, recipe: Dict[str, Any]) -> None:
    """Keep the finished steps of an earlier run only if it had the same recipe."""
    note = work / "recipe.json"
    text = json.dumps(recipe, sort_keys=True)
    if not (note.is_file() and note.read_text(encoding="utf-8") == text):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        note.write_text(text, encoding="utf-8")


def _open_text(path: Path):
    return open(path, "w", encoding="utf-8", newline="\n")


class _Run:
    """One preparation: the inputs and the folders of the steps so far."""

    def __init__(self, dataset: Dataset, out: Path, work: Path, recipe: Dict[str, Any], options: Options):
        self.dataset, self.out, self.work, self.recipe, self.options = dataset, out, work, recipe, options
        self.languages = (dataset.source_lang, dataset.target_lang)
        self.subsets: Dict[str, Optional[Subset]] = {"train": dataset.train, "valid": dataset.valid}
        for number, subset in enumerate(dataset.tests):
            self.subsets["test" + (str(number) if number else "")] = subset

    def run(self) -> None:
        raw = run_step(self.work, "1-raw", self.extract)
        tokens = run_step(self.work, "2-tokens", lambda folder: self.tokenise(raw, folder))
        clean = run_step(self.work, "3-clean", lambda folder: self.clean(raw, tokens, folder))
        model = run_step(self.work, "4-model", lambda folder: self.learn(clean / "tok", folder))
        subwords = run_step(self.work, "5-subwords", lambda folder: self.segment(clean / "tok", model, folder))
        binary = run_step(self.work, "6-bin", lambda folder: self.binarise(clean, subwords, folder))
        self.publish(raw, clean, model, binary)

    # ------------------------------------------------------------ steps

    def extract(self, folder: Path) -> None:
        """Text of every subset as it is in the archives, and a note of what was read."""
        inputs: Dict[str, Dict[str, Any]] = {}
        notes: Dict[str, Dict[str, int]] = {}
        counts: Dict[str, int] = {}
        local: Dict[Archive, Path] = {}
        chosen = {
            name: [self._available(part, local, inputs) for part in subset.parts]
            for name, subset in self.subsets.items()
            if subset is not None
        }
        members = self._members([part for parts in chosen.values() for part in parts], local, folder / "members")
        for name, parts in chosen.items():
            notes[name], counts[name] = {}, 0
            with _open_text(folder / f"{name}.{self.languages[0]}") as source_out:
                with _open_text(folder / f"{name}.{self.languages[1]}") as target_out:
                    for part in parts:
                        sides = (
                            members[part.archive, part.source],
                            members[part.target_archive or part.archive, part.target],
                        )
                        counts[name] += write_pairs(
                            sides, part.reader, (source_out, target_out), name == "train", notes[name]
                        )
            if not counts[name]:
                raise ToolError(f"{parts[0].source} and {parts[0].target}: no sentence found")
        shutil.rmtree(folder / "members")
        _write_json(folder / "notes.json", {"inputs": list(inputs.values()), "pairs": counts, "notes": notes})

    def _available(self, part: Part, local: Dict[Archive, Path], inputs: Dict[str, Dict[str, Any]]) -> Part:
        """The part itself, or the one to use instead where its files cannot be had."""
        try:
            target_archive = part.target_archive or part.archive
            for archive in (part.archive, target_archive):
                if archive not in local:
                    wanted = [(part.archive, part.source), (target_archive, part.target)]
                    folder = self.out.parent / ".downloads" / self.dataset.name
                    path, copy = fetch(
                        archive,
                        folder,
                        self.options.origins,
                        self.options.verify,
                        [member for place, member in wanted if place == archive],
                    )
                    local[archive] = path
                    inputs[copy.name] = {
                        "name": copy.name,
                        "url": copy.url,
                        "sha256": sha256(path),
                        "bytes": path.stat().st_size,
                    }
            return part
        except ToolError as error:
            if part.instead is None:
                raise
            try:
                return self._available(part.instead, local, inputs)
            except ToolError as second:
                raise ToolError(f"{error}\nand instead of it:\n{second}") from None

    def _members(
        self, parts: Sequence[Part], local: Dict[Archive, Path], folder: Path
    ) -> Dict[Tuple[Archive, str], Path]:
        wanted: Dict[Archive, List[str]] = {}
        for part in parts:
            wanted.setdefault(part.archive, []).append(part.source)
            wanted.setdefault(part.target_archive or part.archive, []).append(part.target)
        found = {}
        for number, (archive, names) in enumerate(wanted.items()):
            place = folder / str(number)
            place.mkdir(parents=True)
            for name, path in unpack(local[archive], list(dict.fromkeys(names)), place).items():
                expected = self.dataset.member_sha256.get(name)
                if expected and sha256(path) != expected:
                    message = f"{name} in {local[archive]} is not the published file (its sha256 is another)"
                    if self.options.verify:
                        raise ToolError(f"{message}; --unverified accepts it all the same")
                    info(f"warning: {message}")
                found[archive, name] = path
        return found

    def tokenise(self, raw: Path, folder: Path) -> None:
        """Tokens of every subset, before cleaning."""
        tasks = []
        for subset in self._raw_subsets():
            for language in self.languages:
                make = tokeniser(
                    language,
                    moses=self.options.moses,
                    tokenise=language not in self.dataset.pretokenised,
                    lowercase=self.dataset.lowercase,
                    normalise_punctuation=self.dataset.normalise_punctuation,
                    escape=self.dataset.escape,
                    straight_apostrophe=self.dataset.straight_apostrophe and subset.startswith("test"),
                    romanian_spelling=self.options.romanian or "keep",
                )
                tasks.append((make, raw / f"{subset}.{language}", folder / f"{subset}.{language}"))
        transform_files(tasks, self.options.workers)

    def clean(self, raw: Path, tokens: Path, folder: Path) -> None:
        """``tok/`` without the training pairs that cleaning drops, ``ref/``, and the split of train and valid."""
        tok, ref = folder / "tok", folder / "ref"
        tok.mkdir()
        ref.mkdir()
        dropped: Counter = Counter()
        counts: Dict[str, int] = Counter()
        every = self.dataset.valid_every
        names = [f"train.{language}" for language in self.languages]
        valid_outs = []
        if self.dataset.valid is None:
            valid_outs = [
                _open_text(place / f"valid.{language}") for place in (tok, ref) for language in self.languages
            ]
        train_outs = [_open_text(tok / name) for name in names]
        files = [open(place / name, encoding="utf-8", newline="\n") for place in (tokens, raw) for name in names]
        for lines in zip(*files):
            reason = rejection(lines[0][:-1], lines[1][:-1], self.dataset.clean)
            if reason is not None:
                dropped[reason] += 1
                continue
            counts["kept"] += 1
            is_valid = every and counts["kept"] % every == 0
            counts["valid" if is_valid else "train"] += 1
            # A training set has no references: nobody scores on it.
            for out, line in zip(valid_outs if is_valid else train_outs, lines):
                out.write(line)
        for file in valid_outs + train_outs + files:
            file.close()
        del counts["kept"]
        for subset in self._raw_subsets():
            if subset != "train":
                for language in self.languages:
                    shutil.copyfile(tokens / f"{subset}.{language}", tok / f"{subset}.{language}")
                    shutil.copyfile(raw / f"{subset}.{language}", ref / f"{subset}.{language}")
                counts[subset] = _read_json(raw / "notes.json")["pairs"][subset]
        self._check_counts(counts)
        _write_json(folder / "notes.json", {"pairs": {name: counts[name] for name in self.subsets}, "dropped": dropped})

    def _check_counts(self, counts: Dict[str, int]) -> None:
        for subset in ("train", "valid"):
            if not counts.get(subset):
                raise ToolError(f"nothing is left for {subset} after cleaning: is this the right data?")
        wrong = manifest.unexpected_counts(self.dataset, counts, self.options.tokenizer)
        message = "; ".join(f"{subset}: {what}" for subset, what in wrong.items())
        if wrong and self.options.verify:
            raise ToolError(f"{message}. The input is not the published data; --unverified accepts it all the same")
        if wrong:
            info(f"warning: {message}")

    def learn(self, tok: Path, folder: Path) -> None:
        """The subword model, from the training set alone."""
        texts = [tok / f"train.{language}" for language in self.languages]
        if self.options.bpe == "subword-nmt":
            learn_subword_nmt(texts, self.options.vocab_size, folder / "codes", self.options.workers)
        elif self.options.bpe == "sentencepiece":
            learn_sentencepiece(texts, self.options.vocab_size, folder / "spm.model")

    def segment(self, tok: Path, model: Path, folder: Path) -> None:
        make = segmenter(self.options.bpe, model / MODEL_FILE.get(self.options.bpe, ""))
        names = [f"{subset}.{language}" for subset in self.subsets for language in self.languages]
        transform_files([(make, tok / name, folder / name) for name in names], self.options.workers)

    def binarise(self, clean: Path, subwords: Path, folder: Path) -> None:
        counts = _read_json(clean / "notes.json")["pairs"]
        words = self.options.vocab_size if self.options.bpe == "none" else 0
        joined = self.dataset.joined_dictionary
        binarise(subwords, self.languages, counts, folder, self.options.workers, joined, dictionary_size=words)

    def publish(self, raw: Path, clean: Path, model: Path, binary: Path) -> None:
        """Put the results together aside; then they become ``out``, all at once."""
        final = self.work / "final"
        shutil.rmtree(final, ignore_errors=True)
        for source, place in ((binary, "bin"), (clean / "ref", "ref"), (clean / "tok", "tok"), (model, "")):
            link_tree(source, final / place)
        manifest.write(final, self._manifest(raw, clean))
        if self.out.exists():
            old = self.work / "replaced"
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self.out, old)
        os.rename(final, self.out)

    # ------------------------------------------------------------ notes

    def _raw_subsets(self) -> List[str]:
        return [name for name, subset in self.subsets.items() if subset is not None]

    def _manifest(self, raw: Path, clean: Path) -> Dict[str, Any]:
        read, kept = _read_json(raw / "notes.json"), _read_json(clean / "notes.json")
        subsets: Dict[str, Dict[str, Any]] = {}
        for name, subset in self.subsets.items():
            subsets[name] = {"pairs": kept["pairs"][name], **read["notes"].get(name, {})}
            if name == "train":
                left_out = read["notes"][name].get("not UTF-8", 0)
                subsets[name] = {"pairs": kept["pairs"][name], "read": read["pairs"][name] + left_out}
                subsets[name]["dropped or repaired"] = {**read["notes"][name], **kept["dropped"]}
                continue
            if subset is None:
                subsets[name]["name"] = f"one training pair in {self.dataset.valid_every}"
            elif subset.name:
                subsets[name]["name"] = subset.name
            subsets[name]["sha256_reference"] = sha256(clean / "ref" / f"{name}.{self.languages[1]}")
        tokenises = any(language not in self.dataset.pretokenised for language in self.languages)
        return {
            "format": manifest.FORMAT,
            "dataset": self.dataset.name,
            "source_lang": self.languages[0],
            "target_lang": self.languages[1],
            "bpe": self.options.bpe,
            "tokenizer": self.options.tokenizer if tokenises else "none",
            "lowercase": self.dataset.lowercase,
            "subsets": subsets,
            "inputs": read["inputs"],
            "options": self.recipe,
            "versions": manifest.versions(self.options.moses),
        }


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
