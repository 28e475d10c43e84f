"""Paired significance tests of BLEU: sacrebleu's own, on the hypotheses that the runs left."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..command import ToolError
from .runs import Run, read_lines

# sacrebleu's short names of its two tests, and what they are called in full.
METHODS = {"bootstrap": "bs", "randomisation": "ar"}
METHOD_NAMES = {"bootstrap": "paired bootstrap", "randomisation": "paired approximate randomisation"}

_STORE_FORMAT = 1
_ROUNDING = 0.051  # a score may have been recorded with one decimal


class ResultStore:
    """Finished tests in a JSON file, so that a table can be made again without the references.

    A test is found again by the checksums of everything it depends on: both texts, the reference, the metric's
    settings, the method, its samples and its random seed. So an entry can be unused, but never out of date.
    """

    def __init__(self, path: Optional[Path] = None):
        self.path = path
        self._tests: Dict[str, Dict[str, Any]] = {}
        if path is not None and path.exists():
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
                self._tests = content["tests"]
            except (ValueError, KeyError, TypeError) as error:
                raise ToolError(f"{path}: not a file of finished tests; delete it to run them again") from error
            if content.get("format") != _STORE_FORMAT:
                raise ToolError(f"{path}: unknown format {content.get('format')!r}; delete it to run the tests again")

    def get(self, key: str) -> Any:
        return self._tests.get(key)

    def add(self, tests: Dict[str, Dict[str, Any]]) -> None:
        """Keep the tests and, where the store has a file, write it: aside first, then renamed."""
        self._tests.update(tests)
        if self.path is None:
            return
        aside = self.path.with_name(self.path.name + ".partial")
        content = {"format": _STORE_FORMAT, "tests": self._tests}
        aside.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(str(aside), str(self.path))


def compare_with_baseline(
    baseline: Run,
    systems: Sequence[Run],
    subset: str,
    data_root: Path,
    method: str = "bootstrap",
    samples: int = 0,
    store: Optional[ResultStore] = None,
) -> Tuple[List[float], str]:
    """Test each run's BLEU against one run of the baseline, with ``sacrebleu.significance.PairedTest``.

    Args:
        baseline: the run that all others are compared with.
        systems: the runs to test.
        subset: the test set, under its fairseq subset name.
        data_root: the folder that holds the references.
        method: a key of :data:`METHODS`.
        samples: resamples or trials; 0 takes sacrebleu's default.
        store: tests that need not be run again.

    Returns:
        The p-value of each system, and sacrebleu's signature of the test.

    Raises:
        ToolError: if a text is missing or has the wrong length, or a recorded score is not its hypotheses' score.
    """
    store = store or ResultStore()
    settings = metric_settings(baseline, subset)
    texts = {run.path: run.hypotheses(subset) for run in [baseline, *systems]}
    keys = [_key(settings, method, samples, baseline, run, texts, subset) for run in systems]
    missing = {run.path: (key, run) for key, run in zip(keys, systems) if store.get(key) is None}
    if missing:
        runs = [run for _, run in missing.values()]
        found = _run_tests(baseline, runs, subset, texts, data_root, settings, method, samples)
        store.add({key: test for (key, _), test in zip(missing.values(), found)})
    tests = [store.get(key) for key in keys]
    signatures = sorted({test["signature"] for test in tests})
    return [test["p"] for test in tests], "; ".join(signatures)


def metric_settings(run: Run, subset: str) -> Dict[str, Any]:
    """The arguments of ``sacrebleu.BLEU`` that a run's BLEU signature stands for.

    Raises:
        ToolError: for a signature that is not sacrebleu's.
    """
    signature = run.scores(subset)["bleu"]["signature"]
    fields = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
    smooth = re.fullmatch(r"([a-z-]+)(?:\[([0-9.]+)\])?", fields.get("smooth", ""))
    if smooth is None or not {"case", "tok", "eff"} <= set(fields) or fields.get("nrefs") != "1":
        raise ToolError(
            f"{run.path}: {signature!r} is not a sacrebleu signature of BLEU with one reference: score the run again"
        )
    return {
        "lowercase": fields["case"] == "lc",
        "tokenize": fields["tok"],
        "effective_order": fields["eff"] == "yes",
        "smooth_method": smooth.group(1),
        "smooth_value": float(smooth.group(2)) if smooth.group(2) else None,
    }


def _run_tests(
    baseline: Run,
    systems: Sequence[Run],
    subset: str,
    texts: Dict[Path, List[str]],
    data_root: Path,
    settings: Dict[str, Any],
    method: str,
    samples: int,
) -> List[Dict[str, Any]]:
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    reference = read_reference(baseline, subset, data_root)
    # The scorer has already looked at the text; force only silences a warning about tokenised text.
    metric = BLEU(references=[reference], force=True, **settings)
    named = [(str(run.path), texts[run.path]) for run in [baseline, *systems]]
    signatures, scores = PairedTest(
        named, {"BLEU": metric}, references=None, test_type=METHODS[method], n_samples=samples
    )()
    for run, result in zip([baseline, *systems], scores["BLEU"]):
        recorded = run.scores(subset)["bleu"]["score"]
        if abs(result.score - recorded) > _ROUNDING:
            raise ToolError(
                f"{run.path}: records BLEU {recorded:.2f} on {subset!r}, but sacrebleu gives its hypotheses "
                f"{result.score:.2f}: they were changed after scoring; score the run again"
            )
    return [
        {"p": float(result.p_value), "score": float(result.score), "signature": str(signatures["BLEU"])}
        for result in scores["BLEU"][1:]
    ]


def read_reference(run: Run, subset: str, data_root: Path) -> List[str]:
    """The reference that a run was scored with. Raises ToolError where it is not there, or is another."""
    path = data_root / run.scores(subset)["reference"]
    if not path.is_file():
        raise ToolError(
            f"{path}: not found; it is the reference of {run.path}: prepare the data, point --data-root or "
            "DATA_ROOT at them, or add --paired none to do without a significance test"
        )
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    if checksum != run.scores(subset)["sha256_reference"]:
        raise ToolError(
            f"{path}: its checksum {checksum[:12]}... is not that of the reference in {run.path} "
            f"({run.scores(subset)['sha256_reference'][:12]}...): prepare the data again, or score the run again"
        )
    lines = read_lines(path)
    if len(lines) != run.scores(subset)["sentences"]:
        raise ToolError(f"{path}: {len(lines)} lines, but {run.path} counts {run.scores(subset)['sentences']}")
    return lines


def _key(
    settings: Dict[str, Any],
    method: str,
    samples: int,
    baseline: Run,
    system: Run,
    texts: Dict[Path, List[str]],
    subset: str,
) -> str:
    parts = [
        json.dumps(settings, sort_keys=True),
        METHODS[method],
        str(samples),
        os.environ.get("SACREBLEU_SEED", "12345"),
        baseline.scores(subset)["sha256_reference"],
        _checksum(texts[baseline.path]),
        _checksum(texts[system.path]),
    ]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def _checksum(lines: List[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()
