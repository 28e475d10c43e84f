"""Shows what the attention of trained models does.

    python -m explicit_sparse.tools.report CHECKPOINT --data DIR --out DIR

Feeds sentences through one or more models and writes pictures, every number (report.json) and one page with all of it
(report.html). What each number is: docs/report.md.
"""

import argparse
import json
import logging
import os
import platform
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from explicit_sparse.config import SITES
from explicit_sparse.version import __version__

from . import numbers
from . import page
from .collect import Collection
from .sentences import (
    Sentence,
    detect_subwords,
    make_batches,
    read_source_lines,
    read_subset,
    translate,
    what_is_wrong,
)
from ..command import ToolError, command
from .alignment import GoldLinks, read_gold
from .models import System, alpha_course, load_systems

_EPILOG = """\
examples:
  python -m explicit_sparse.tools.report runs/demo/topk8/seed1/average.pt --data prepared/demo/bin --out report
  python -m explicit_sparse.tools.report runs/demo/dense/seed1/average.pt runs/demo/topk8/seed1/average.pt --compare \\
    --data prepared/demo/bin --sentences 3,17 --site cross,encoder-self --head all --out report

Sentences, layers and heads are counted from 0. The models read the reference translation (teacher forcing), or with
--own-output, and always with --input, what the first of them translates itself. Needs matplotlib and jinja2.
"""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m explicit_sparse.tools.report",
        description="Reports and plots of what the attention of trained models does.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="CHECKPOINT", type=Path, help="a model; with --compare two or more")
    add("--data", required=True, metavar="DIR", type=Path, help="folder made by fairseq-preprocess")
    add(
        "--out", required=True, metavar="DIR", type=Path, help="the report's folder; a report already there is replaced"
    )
    add("--compare", action="store_true", help="compare each further model with the first")
    add("--name", metavar="NAME", action="append", default=[], help="call the model so; once for each, in their order")

    text = parser.add_argument_group("sentences")
    add = text.add_argument
    add("--gen-subset", metavar="NAME", help="part of the data (default: test)")
    add(
        "--input",
        metavar="FILE",
        type=Path,
        help="instead: source lines, tokenised and cut into subwords like the data",
    )
    add("--own-output", action="store_true", help="read the first model's own translation, not the reference")
    add("--beam", metavar="N", type=int, default=5, help="of its translation (default: 5)")
    add("--max-sentences", metavar="N", type=int, default=1000, help="take the first N (default: 1000)")
    add("--max-tokens", metavar="N", type=int, default=4000, help="tokens a batch (default: 4000)")
    add("--cpu", action="store_true", help="do not use a GPU")

    maps = parser.add_argument_group("heat maps")
    add = maps.add_argument
    add("--sentences", metavar="LIST", help="which, as in 0,17 (default: a short, a middling and a long one)")
    add("--site", metavar="LIST", default="cross", help=f"of {', '.join(SITES)}, or all (default: cross)")
    add("--layer", metavar="LIST", default="last", help="as in 0,5, or last, or all (default: last)")
    add("--head", metavar="LIST", default="average", help="as in 0,3,average, or all (default: average)")
    add("--words", action="store_true", help="join subwords to words")

    more = parser.add_argument_group("alpha and word alignment")
    add = more.add_argument
    add("--course", metavar="CHECKPOINT", nargs="+", type=Path, default=[],
        help="checkpoints of one training: how its learned alpha went")  # fmt: skip
    add("--gold", metavar="FILE", type=Path,
        help="gold alignment of the subset in Pharaoh format (3-4 sure, 3?4 possible)")  # fmt: skip
    add("--align", metavar="LAYER[:HEAD]",
        help="cross-attention that aligns words; without HEAD the average of its heads "
        "(default: with --gold the best of all, else the average of the last layer but one)")  # fmt: skip
    add("--shift", action="store_true",
        help="without --gold: align a token by the query that reads it, not predicts it")  # fmt: skip
    return parser


@command
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line; returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(map(str, argv))
    arguments = make_parser().parse_args(argv)
    for name in ("fairseq", "matplotlib", "fontTools"):  # fairseq turns on everybody's messages
        logging.getLogger(name).setLevel(logging.ERROR)
    page.require_libraries()
    check(arguments)
    report = make_report(arguments, shlex.join(["python", "-m", "explicit_sparse.tools.report", *argv]))
    sys.stdout.write(page.summary(report))
    print(f"\n{arguments.out / 'report.html'}")
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Refuse what the command line asks for in vain. Raises ToolError."""
    if len(arguments.checkpoints) > 1 and not arguments.compare:
        raise ToolError(f"{len(arguments.checkpoints)} checkpoints: give --compare to compare them, or one")
    if arguments.compare and len(arguments.checkpoints) < 2:
        raise ToolError("--compare needs two checkpoints or more")
    if arguments.input and arguments.gen_subset:
        raise ToolError("--input and --gen-subset exclude each other: give one")
    if arguments.gold and (arguments.input or arguments.own_output):
        raise ToolError("--gold speaks of the reference: leave out --input and --own-output")
    for name in ("beam", "max_sentences", "max_tokens"):
        if getattr(arguments, name) < 1:
            raise ToolError(f"--{name.replace('_', '-')} {getattr(arguments, name)}: must be at least 1")
    if not arguments.out.name:
        raise ToolError(f"--out {arguments.out}: give a folder of its own")
    for folder in (arguments.out, arguments.out.parent):
        if folder.exists() and not folder.is_dir():
            raise ToolError(f"--out {arguments.out}: {folder} is a file")
    if arguments.out.exists() and any(arguments.out.iterdir()) and not (arguments.out / "report.json").exists():
        raise ToolError(f"--out {arguments.out}: holds other files than a report; give a new folder")


def make_report(arguments: argparse.Namespace, command: str) -> Dict[str, Any]:
    """Collect, draw and write; returns what report.json holds.

    Raises:
        ToolError: for what keeps the report from being made; nothing is written then.
    """
    began = time.time()
    systems = load_systems(arguments.checkpoints, arguments.name, arguments.data)
    chosen_maps = numbers.choose_maps(systems, arguments.site, arguments.layer, arguments.head)
    course = alpha_course(arguments.course) if arguments.course else []
    device = torch.device("cuda" if torch.cuda.is_available() and not arguments.cpu else "cpu")
    for system in systems:
        system.model.to(device)

    notes: List[str] = []
    everything, sentences = read_sentences(arguments, systems, notes)
    gold = read_gold_of(arguments, everything)
    mapped = choose_sentences(arguments, everything, sentences)
    own_output = arguments.own_output or arguments.input is not None
    if own_output:
        sentences = translate(
            systems[0], sentences, arguments.beam, device, arguments.max_tokens, Progress("translated", len(sentences))
        )
        sentences = readable(sentences, systems, notes, "after translation, ")
        if not sentences:
            raise ToolError(f"{systems[0].checkpoint} translates nothing: every translation is empty")
        mapped = [index for index in mapped if any(s.index == index for s in sentences)]

    dictionaries = systems[0].task.source_dictionary, systems[0].task.target_dictionary
    subwords = detect_subwords(dictionaries[0]), detect_subwords(dictionaries[1])
    collection = Collection(
        systems,
        device,
        subwords,
        mapped,
        numbers.choose_aligners(systems, arguments.align, arguments.shift, bool(gold)),
    )
    if gold:
        numbers.check_gold(gold, sentences, collection, str(arguments.gold))
    progress, seen = Progress("read", len(sentences)), 0
    for batch in make_batches(systems[0], sentences, arguments.max_tokens, max_sentences=64):
        collection.read(batch)
        seen += len(batch.sentences)
        progress(seen)

    report: Dict[str, Any] = {
        "format": 1,
        "command": command,
        "versions": {
            "explicit_sparse": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "data": {
            "folder": str(arguments.data),
            "from": str(arguments.input) if arguments.input else arguments.gen_subset or "test",
            "languages": [systems[0].task.cfg.source_lang, systems[0].task.cfg.target_lang],
            "sentences": len(sentences),
            "source_tokens": sum(len(s.source) for s in sentences),
            "target_tokens": sum(len(s.target) for s in sentences),
            "subwords": list(subwords),
            "target": f"{systems[0].name}'s own translation, beam {arguments.beam}" if own_output else "the reference",
        },
        "notes": notes,
        "systems": [numbers.of_system(system, collection) for system in systems],
        "comparisons": [numbers.of_pair(systems[0], system, collection) for system in systems[1:]],
        "alpha_course": course,
        "alignment": numbers.of_alignment(systems, collection, arguments.align, gold),
        "maps": numbers.of_maps(collection, sentences, chosen_maps, arguments.words),
    }
    write(report, numbers.alignment_files(report, collection, len(everything)), arguments.out, began)
    return report


def read_sentences(
    arguments: argparse.Namespace, systems: Sequence[System], notes: List[str]
) -> Tuple[List[Sentence], List[Sentence]]:
    """All sentences there are, and those of them to read."""
    if arguments.input:
        everything, unknown = read_source_lines(systems[0], arguments.input)
        if unknown:
            total = sum(len(sentence.source) - 1 for sentence in everything)
            notes.append(
                f"{unknown} of {total} tokens of {arguments.input} are not in the dictionary: is it tokenised and cut "
                "into subwords like the training data?"
            )
    else:
        everything = read_subset(systems[0], arguments.gen_subset or "test")
    sentences = everything[: arguments.max_sentences]
    if arguments.input:
        for sentence in sentences:
            wrong = what_is_wrong(sentence, systems)
            if wrong:
                raise ToolError(f"--input {arguments.input}, line {sentence.index + 1}: {wrong}; take the line out")
    else:
        sentences = readable(sentences, systems, notes)
    if not sentences:
        raise ToolError("no sentence to read" + "".join(f"; {note}" for note in notes))
    return everything, sentences


def readable(
    sentences: Sequence[Sentence], systems: Sequence[System], notes: List[str], when: str = ""
) -> List[Sentence]:
    """The sentences that every model can read; a note says how many cannot be, and why the first of them."""
    wrong = [(sentence.index, what_is_wrong(sentence, systems)) for sentence in sentences]
    left_out = [(index, reason) for index, reason in wrong if reason]
    if left_out:
        notes.append(f"{when}{len(left_out)} left out, the first of them sentence {left_out[0][0]}: {left_out[0][1]}")
    return [sentence for sentence, (_, reason) in zip(sentences, wrong) if not reason]


def choose_sentences(
    arguments: argparse.Namespace, everything: Sequence[Sentence], sentences: Sequence[Sentence]
) -> List[int]:
    """Indices of the sentences to draw: as asked, else those at 10, 50 and 90 percent by length."""
    if arguments.sentences is None:
        by_length = sorted(sentences, key=lambda s: (len(s.source), s.index))
        return list(dict.fromkeys(by_length[int(q * (len(by_length) - 1))].index for q in (0.1, 0.5, 0.9)))
    readable = {sentence.index for sentence in sentences}
    chosen = numbers.parse_numbers("--sentences", arguments.sentences, range(len(everything)), "sentence")
    for index in chosen:
        if index not in readable:
            raise ToolError(
                f"--sentences {arguments.sentences}: sentence {index} is not read: "
                + ("it is empty or too long" if index < arguments.max_sentences else "raise --max-sentences")
            )
    return chosen


def read_gold_of(arguments: argparse.Namespace, everything: Sequence[Sentence]) -> Dict[int, GoldLinks]:
    """The gold links by sentence; empty where none are given."""
    if not arguments.gold:
        return {}
    gold = read_gold(arguments.gold)
    if len(gold) != len(everything):
        raise ToolError(
            f"--gold {arguments.gold}: {len(gold)} lines for the {len(everything)} sentences of "
            f"{arguments.gen_subset or 'test'}"
        )
    return dict(enumerate(gold))


class Progress:
    """One line on standard error: how many sentences are done."""

    def __init__(self, verb: str, total: int):
        self.verb, self.total = verb, total
        self.began = self.shown = time.time()

    def __call__(self, done: int) -> None:
        now = time.time()
        live = sys.stderr.isatty()
        if done < self.total and now - self.shown < (0.2 if live else 10):
            return
        self.shown = now
        end = "\r" if live and done < self.total else "\n"
        sys.stderr.write(f"{self.verb} {done} of {self.total} sentences, {now - self.began:.0f} s{end}")
        sys.stderr.flush()


def write(report: Dict[str, Any], files: Dict[str, str], out: Path, began: float) -> None:
    """Draw and write everything into a folder aside, then rename it."""
    aside = out.with_name(out.name + ".partial")
    replaced = out.with_name(out.name + ".old")
    shutil.rmtree(str(aside), ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        for name, text in files.items():
            (aside / name).parent.mkdir(exist_ok=True)
            (aside / name).write_text(text, encoding="utf-8")
        html = page.render(report, aside)
        report["seconds"] = round(time.time() - began, 1)
        (aside / "report.json").write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")
        (aside / "report.html").write_text(html, encoding="utf-8")
        shutil.rmtree(str(replaced), ignore_errors=True)
        if out.exists():
            os.replace(str(out), str(replaced))
        os.replace(str(aside), str(out))
        shutil.rmtree(str(replaced), ignore_errors=True)
    except OSError as error:
        raise ToolError(f"--out {out}: cannot be written ({error})") from error
    finally:
        shutil.rmtree(str(aside), ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
