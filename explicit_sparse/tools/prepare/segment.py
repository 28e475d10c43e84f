"""Joint subwords of both languages: subword-nmt or sentencepiece, learnt on the training set only."""

import io
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path
from typing import Callable, Iterator, Sequence

from ..command import ToolError
from .parallel import Transform, byte_ranges, read_blocks, run_jobs

BPE = ("subword-nmt", "sentencepiece", "none")
CACHED_WORDS = 200_000
SENTENCEPIECE_LINES = 4_000_000  # more would not fit in memory; taken evenly from the whole corpus


def _count(job) -> Counter:
    path, (start, end) = job
    counts: Counter = Counter()
    for block in read_blocks(path, start, end):
        for line in block:
            counts.update(line.split())
    return counts


def learn_subword_nmt(texts: Sequence[Path], merges: int, codes: Path, workers: int) -> None:
    """Learn ``merges`` BPE operations on the words of all ``texts`` together."""
    # In a process of its own, which gives its memory back.
    run_jobs(_learn_subword_nmt, [(texts, merges, codes, workers)], 1)


def _learn_subword_nmt(job) -> None:
    from subword_nmt.learn_bpe import learn_bpe

    texts, merges, codes, workers = job
    parts = [(path, limits) for path in texts for limits in byte_ranges(path, workers)]
    counts: Counter = Counter()
    for part in run_jobs(_count, parts, workers):
        counts.update(part)
    # learn_bpe's result must not depend on how the work was divided.
    words = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    dictionary = io.StringIO("".join(f"{word} {count}\n" for word, count in words))
    with open(codes, "w", encoding="utf-8") as out, redirect_stderr(io.StringIO()):  # its progress bar
        learn_bpe(dictionary, out, merges, is_dict=True)


def _spread(texts: Sequence[Path]) -> Iterator[str]:
    total = sum(1 for path in texts for _ in open(path, "rb"))
    every = -(-total // SENTENCEPIECE_LINES)
    number = 0
    for path in texts:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if number % every == 0:
                    yield line.rstrip("\n")
                number += 1


def learn_sentencepiece(texts: Sequence[Path], vocab_size: int, model: Path) -> None:
    """Learn a unigram model on all ``texts`` together; in one thread, so that the result is always the same."""
    import sentencepiece

    content = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_spread(texts),
            model_writer=content,
            vocab_size=vocab_size,
            model_type="unigram",
            character_coverage=1.0,
            hard_vocab_limit=False,
            num_threads=1,
            max_sentence_length=65_536,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ToolError(f"sentencepiece: {error}. A smaller --vocab-size may help") from None
    model.write_bytes(content.getvalue())


def segmenter(bpe: str, model: Path) -> Callable[[], Transform]:
    """What a worker process calls once to get its function from token lines to subword lines."""
    if bpe == "subword-nmt":
        from subword_nmt.apply_bpe import BPE as SubwordNmt  # once for all workers

    def make() -> Transform:
        if bpe == "none":
            return lambda lines: lines
        if bpe == "subword-nmt":
            with open(model, encoding="utf-8") as codes:
                segmenter_of_words = SubwordNmt(codes)

            def segment(lines):
                if len(segmenter_of_words.cache) > CACHED_WORDS:  # it would grow with the corpus
                    segmenter_of_words.cache.clear()
                return [segmenter_of_words.process_line(line) for line in lines]

            return segment
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        return lambda lines: [" ".join(pieces) for pieces in processor.encode(lines, out_type=str)]

    return make
