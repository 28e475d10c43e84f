"""BLEU by the length of the source sentence: does a method matter more where there are more keys to choose from?"""

from pathlib import Path
from typing import Dict, List, Sequence

from ..command import ToolError
from ..files import read_json
from .runs import Run, read_lines
from .significance import metric_settings, read_reference
from .summary import Measure, Table

ENDS = (10, 20, 30, 50)  # tokens of the longest sentence in each bucket but the last
NAME = "bleu of "  # and the bucket: what the measures are called


def buckets(lengths: Sequence[int]) -> Dict[str, List[int]]:
    """Which sentences are in which bucket, buckets without any left out: {"1-10": [0, 4], "51-": [2]}."""
    starts = [1, *(end + 1 for end in ENDS)]
    names = [f"{start}-{end}" for start, end in zip(starts, ENDS)] + [f"{starts[-1]}-"]
    found: Dict[str, List[int]] = {name: [] for name in names}
    for number, length in enumerate(lengths):
        found[names[sum(length > end for end in ENDS)]].append(number)
    return {name: numbers for name, numbers in found.items() if numbers}


def add_bleu_by_length(tables: Sequence[Table], data_root: Path) -> None:
    """Give every row of runs its BLEU on each bucket of its test set, with the settings of its recorded BLEU.

    Raises:
        ToolError: if the prepared text is not there, or not that of the run.
    """
    from sacrebleu.metrics import BLEU

    for table in tables:
        runs = [run for row in table.rows for run in row.runs]
        if not runs:
            continue
        reference = read_reference(runs[0], table.subset, data_root)
        by_length = buckets(_source_lengths(runs[0], table.subset, data_root))
        table.notes.append(
            "length: tokens of the source before subwords; sentences: "
            + ", ".join(f"{name}: {len(numbers)}" for name, numbers in by_length.items())
        )
        metric = BLEU(force=True, **metric_settings(runs[0], table.subset))
        for row in table.rows:
            for name, numbers in by_length.items():
                values = []
                for run in row.runs:
                    hypotheses = run.hypotheses(table.subset)
                    chosen = [[lines[number] for number in numbers] for lines in (hypotheses, reference)]
                    values.append(metric.corpus_score(chosen[0], [chosen[1]]).score)
                if values:
                    row.measures[NAME + name] = Measure(values)


def _source_lengths(run: Run, subset: str, data_root: Path) -> List[int]:
    prepared = (data_root / run.scores(subset)["reference"]).parents[1]
    path = prepared / "tok" / f"{subset}.{read_json(prepared / 'manifest.json')['source_lang']}"
    lines = read_lines(path)
    if lines is None or len(lines) != run.scores(subset)["sentences"]:
        found = "is not there" if lines is None else f"has {len(lines)} lines"
        raise ToolError(f"{path} {found}, but {run.path} counts {run.scores(subset)['sentences']}: prepare the data again")
    return [len(line.split()) for line in lines]
