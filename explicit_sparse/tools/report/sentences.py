"""The sentences that a report looks at: read, translated, and put into batches."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..command import ToolError
from .models import System

_LONGEST_TRANSLATION = 200


@dataclass(frozen=True)
class Sentence:
    """One sentence pair as token numbers, each side with the end-of-sentence symbol last.

    Attributes:
        index: counted from 0, in the data set or in the file of source lines.
        target: None until it is translated.
    """

    index: int
    source: Tensor
    target: Optional[Tensor]


@dataclass(frozen=True)
class Batch:
    """Sentences padded on the right to one length.

    Attributes:
        source: (B, S).
        target: (B, T), what is predicted.
        previous: (B, T), what the decoder reads: the end-of-sentence symbol, then the target without its last token.
    """

    sentences: List[Sentence]
    source: Tensor
    source_lengths: Tensor
    target: Tensor
    previous: Tensor


def detect_subwords(dictionary) -> str:
    """How a fairseq dictionary's tokens are cut: ``subword-nmt``, ``sentencepiece`` or ``none``."""
    if any(symbol.endswith("@@") for symbol in dictionary.symbols):
        return "subword-nmt"
    if any(symbol.startswith("\u2581") for symbol in dictionary.symbols):
        return "sentencepiece"
    return "none"


def symbols(dictionary, tokens: Tensor) -> List[str]:
    """The tokens of a sentence as text."""
    return [dictionary[int(token)] for token in tokens]


def read_subset(system: System, subset: str) -> List[Sentence]:
    """All sentence pairs of a part of the data.

    Raises:
        ToolError: if the data folder has no such part, or it has no target side.
    """
    try:
        system.task.load_dataset(subset)
    except FileNotFoundError as error:
        raise ToolError(f"--gen-subset {subset}: {error}") from error
    dataset = system.task.dataset(subset)
    if dataset.tgt is None:
        raise ToolError(f"--gen-subset {subset}: has no target side; give its source lines with --input")
    return [Sentence(index, dataset[index]["source"], dataset[index]["target"]) for index in range(len(dataset))]


def read_source_lines(system: System, path: Path) -> Tuple[List[Sentence], int]:
    """Source lines as fairseq-interactive takes them: tokenised and cut into subwords, a sentence a line.

    Returns:
        The sentences, without targets, and how many of their tokens the dictionary does not have.

    Raises:
        ToolError: for a file that cannot be read, or an empty line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"--input {path}: cannot be read ({error})") from error
    if lines[-1] == "":
        lines.pop()
    dictionary = system.task.source_dictionary
    sentences = []
    for index, line in enumerate(lines):
        if not line.strip():
            raise ToolError(f"--input {path}, line {index + 1}: empty; take the line out")
        tokens = dictionary.encode_line(line, add_if_not_exist=False).long()
        sentences.append(Sentence(index, tokens, None))
    unknown = sum(int((sentence.source == dictionary.unk()).sum()) for sentence in sentences)
    return sentences, unknown


def what_is_wrong(sentence: Sentence, systems: Sequence[System]) -> Optional[str]:
    """Why a sentence cannot be read by every model, or None."""
    for side, tokens in (("source", sentence.source), ("target", sentence.target)):
        if tokens is not None and len(tokens) < 2:
            return f"its {side} is empty"
        for system in systems if tokens is not None else ():
            part = system.model.encoder if side == "source" else system.model.decoder
            limit = part.max_positions()
            if len(tokens) > limit:
                return f"its {side} has {len(tokens)} tokens, and {system.checkpoint} takes {limit}"
    return None


def make_batches(system: System, sentences: Sequence[Sentence], max_tokens: int, max_sentences: int) -> Iterator[Batch]:
    """Batches of sentences of similar length.

    Args:
        max_tokens: of one side of a batch with its padding; a longer sentence is a batch of its own.
        max_sentences: of a batch.
    """
    dictionary = system.task.source_dictionary
    pad, eos = dictionary.pad(), system.task.target_dictionary.eos()

    def longest(sentence: Sentence) -> int:
        return max(len(sentence.source), 0 if sentence.target is None else len(sentence.target))

    def padded(rows: Sequence[Tensor]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([row.long() for row in rows], batch_first=True, padding_value=pad)

    def finish(group: List[Sentence]) -> Batch:
        targets = [s.source.new_tensor([eos]) if s.target is None else s.target for s in group]
        previous = [torch.cat([target.new_tensor([eos]), target[:-1]]) for target in targets]
        lengths = torch.tensor([len(s.source) for s in group])
        return Batch(group, padded([s.source for s in group]), lengths, padded(targets), padded(previous))

    group: List[Sentence] = []
    for sentence in sorted(sentences, key=lambda s: (longest(s), s.index)):
        if group and (len(group) == max_sentences or longest(sentence) * (len(group) + 1) > max_tokens):
            yield finish(group)
            group = []
        group.append(sentence)
    if group:
        yield finish(group)


def translate(
    system: System,
    sentences: Sequence[Sentence],
    beam: int,
    device: torch.device,
    max_tokens: int,
    progress: Callable[[int], Any],
) -> List[Sentence]:
    """The sentences with the model's own translation as target, by beam search."""
    longest = min(_LONGEST_TRANSLATION, system.model.max_decoder_positions() - 1)
    options = argparse.Namespace(beam=beam, max_len_a=0, max_len_b=longest)
    generator = system.task.build_generator([system.model], options)
    translated = []
    for batch in make_batches(system, sentences, max_tokens, max_sentences=64):
        net_input = {"src_tokens": batch.source.to(device), "src_lengths": batch.source_lengths.to(device)}
        with torch.no_grad():
            found = generator.generate([system.model], {"net_input": net_input})
        for sentence, hypotheses in zip(batch.sentences, found):
            translated.append(replace(sentence, target=hypotheses[0]["tokens"].cpu()))
        progress(len(translated))
    return sorted(translated, key=lambda sentence: sentence.index)
