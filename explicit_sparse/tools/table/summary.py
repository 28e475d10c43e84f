"""Groups runs by data set and system, checks that they can be compared, and averages over seeds."""

import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..command import ToolError
from .published import Figure, for_dataset, system_key
from .runs import Run, look_up
from .significance import METHOD_NAMES, ResultStore, compare_with_baseline

# What is averaged over seeds: name -> (where it is in run.json, whether it belongs to a test set).
MEASURES = {
    "bleu": ("bleu.score", True),
    "chrf": ("chrf.score", True),
    "tokenised_bleu": ("tokenised_bleu.score", True),
    "train_speed": ("train.tokens_per_second", False),
    "decode_speed": ("decode_tokens_per_second", True),
    "memory": ("train.peak_memory_mb", False),
    "valid_loss": ("train.best_valid_loss", False),
}
SPEEDS = ("train_speed", "decode_speed")
SITES = ("encoder-self", "decoder-self", "cross")
_SAME_IN_A_TABLE = {
    "sha256_reference": "test sets",
    "sentences": "test sets",
    "bleu.signature": "metrics",
    "chrf.signature": "metrics",
    "tokenised_bleu.label": "metrics",
}
_HARDWARE = ("cpu", "threads", "gpu")  # what a speed depends on
SIGNIFICANT = 0.05


@dataclass
class Measure:
    """One quantity of one system: its value for each seed."""

    values: List[float]

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def deviation(self) -> Optional[float]:
        """Sample standard deviation (n - 1) over seeds; None with a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass
class Row:
    """One system on one test set, or a system that only papers have measured (no runs)."""

    system: str
    runs: List[Run] = field(default_factory=list)
    timed: List[Run] = field(default_factory=list)  # those of the runs whose speeds count
    measures: Dict[str, Measure] = field(default_factory=dict)
    interval: Optional[float] = None  # half-width of the 95% bootstrap interval of BLEU, mean over seeds
    p_values: Dict[int, float] = field(default_factory=dict)  # seed -> p
    ratios: Dict[str, float] = field(default_factory=dict)  # speed / speed of the baseline
    published: Dict[str, List[Figure]] = field(default_factory=dict)  # column -> figures

    @property
    def seeds(self) -> List[int]:
        return [run.seed for run in self.runs]

    @property
    def parameters(self) -> Optional[int]:
        return self.runs[0].data["parameters"] if self.runs else None

    def mean(self, name: str) -> Optional[float]:
        return self.measures[name].mean if name in self.measures else None


@dataclass
class Table:
    """The systems of one test set side by side."""

    dataset: str
    subset: str
    test_name: str
    sentences: int
    baseline: Optional[str]
    rows: List[Row]
    sites: List[str]
    published_columns: List[str]
    signatures: Dict[str, str]
    notes: List[str]

    def has(self, name: str) -> bool:
        return any(name in row.measures for row in self.rows)


@dataclass
class Comparison:
    """How systems are compared with a baseline: the options of the command line."""

    baseline: Optional[str] = None  # None: the system labelled dense or softmax, if there is one
    method: Optional[str] = "bootstrap"  # None: no significance test
    samples: int = 0
    data_root: Path = Path("prepared")
    store: Optional[ResultStore] = None
    subsets: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    speeds_from: Optional[Sequence[int]] = None  # seeds whose runs had the machine to themselves; None: all
    best_first: bool = False  # systems by falling BLEU instead of in the order of the runs


def build_tables(runs: Sequence[Run], comparison: Comparison) -> List[Table]:
    """One table for each data set and test set, systems in the order of the runs, the baseline first.

    Raises:
        ToolError: if runs cannot be compared or averaged; names the files.
    """
    datasets: Dict[str, List[Run]] = {}
    for run in runs:
        datasets.setdefault(run.dataset, []).append(run)
    if comparison.baseline is not None and comparison.baseline not in {run.system for run in runs}:
        raise ToolError(
            f"--baseline {comparison.baseline}: no run of that system; there are "
            + ", ".join(sorted({run.system for run in runs}))
        )
    tables = []
    for dataset, members in datasets.items():
        systems = _group_systems(members)
        for subset in _subsets(dataset, members, comparison.subsets):
            tables.append(_build_table(dataset, subset, systems, comparison))
    return tables


def _group_systems(runs: Sequence[Run]) -> Dict[str, List[Run]]:
    """Runs by system, ordered by seed; refuses to mix what differs in more than the seed."""
    systems: Dict[str, List[Run]] = {}
    for run in runs:
        group = systems.setdefault(run.system, [])
        for other in group:
            _check_same_system(other, run)
        group.append(run)
    return {system: sorted(group, key=lambda run: run.seed) for system, group in systems.items()}


def _option(run: Run, name: str) -> Any:
    """A run older than an option ran with what is now its default."""
    if name in run.data["options"]:
        return run.data["options"][name]
    from ...config import OPTIONS  # loads torch, for seconds: only where runs differ in age

    return OPTIONS.get(name)


def _check_same_system(one: Run, other: Run) -> None:
    if one.data["experiment"] != other.data["experiment"]:
        raise ToolError(
            f"{one.path} and {other.path}: two experiments, {one.data['experiment']} and "
            f"{other.data['experiment']}, have the same label {one.system!r}: give each its own SYSTEM"
        )
    for name in sorted({*one.data["options"], *other.data["options"]}):
        values = [_option(run, name) for run in (one, other)]
        if values[0] != values[1]:
            raise ToolError(
                f"{one.path} and {other.path}: both are {one.system!r}, but {name} is {values[0]} in one and "
                f"{values[1]} in the other: they cannot be averaged; train one again or give it its own SYSTEM"
            )
    if one.data["parameters"] != other.data["parameters"]:
        raise ToolError(
            f"{one.path} and {other.path}: both are {one.system!r}, but one has {one.data['parameters']} parameters "
            f"and the other {other.data['parameters']}: they cannot be averaged"
        )
    if one.seed == other.seed:
        raise ToolError(
            f"{one.path} and {other.path}: the same system {one.system!r} with the same seed {one.seed}: "
            "this is one run twice, not two; leave one out"
        )


def _subsets(dataset: str, runs: Sequence[Run], wanted: Sequence[str]) -> List[str]:
    """The test sets to show; every run of the data set must have been scored on them."""
    there: Dict[str, Run] = {}
    for run in runs:
        for subset in run.data["test"]:
            there.setdefault(subset, run)
    for subset in wanted:
        if subset not in there:
            raise ToolError(f"--subset {subset}: no run of {dataset} has scores on it; there are {', '.join(there)}")
    chosen = [subset for subset in there if not wanted or subset in wanted]
    for subset in chosen:
        for run in runs:
            if subset not in run.data["test"]:
                raise ToolError(
                    f"{run.path}: no scores on the test set {subset!r}, which {there[subset].path} has: "
                    "score it, or choose test sets with --subset"
                )
    return chosen


def _check_same_test(runs: Sequence[Run], subset: str) -> None:
    """All runs must have been scored on the same text with the same metrics."""
    for key, name in _SAME_IN_A_TABLE.items():
        having = [run for run in runs if _score(run, subset, key) is not None]
        for run in having[1:]:
            first, value = _score(having[0], subset, key), _score(run, subset, key)
            if value != first:
                raise ToolError(
                    f"{having[0].path} and {run.path}: different {name}, {key} of {subset!r} is {first} in one and "
                    f"{value} in the other: such scores cannot be compared"
                )


def _score(run: Run, subset: str, key: str) -> Any:
    return look_up(run.scores(subset), key)


def _build_table(dataset: str, subset: str, systems: Dict[str, List[Run]], comparison: Comparison) -> Table:
    everyone = [run for runs in systems.values() for run in runs]
    _check_same_test(everyone, subset)
    for run in everyone:
        if comparison.method or run.has_hypotheses(subset):
            run.hypotheses(subset)  # raises where the length is wrong, even if no significance test follows
    first = everyone[0].scores(subset)
    table = Table(
        dataset=dataset,
        subset=subset,
        test_name=first.get("name") or subset,
        sentences=first["sentences"],
        baseline=_choose_baseline(systems, comparison.baseline),
        rows=[],
        sites=_sites(everyone),
        published_columns=[],
        signatures=_signatures(everyone, subset),
        notes=[],
    )
    for system, runs in systems.items():
        row = Row(system, runs)
        _average(row, table, comparison.speeds_from)
        table.rows.append(row)
    if comparison.speeds_from:
        seeds = ", ".join(map(str, comparison.speeds_from))
        table.notes.append(f"speeds: from the runs of seed {seeds} alone")
    if comparison.best_first:
        table.rows.sort(key=lambda row: -row.mean("bleu"))
    table.rows.sort(key=lambda row: row.system != table.baseline)  # stable: the baseline moves to the top
    _note_updates(table)
    if table.baseline is None:
        wanted = comparison.baseline or "dense"
        table.notes.append(f"no system {wanted!r} on this data set, so nothing is compared with a baseline")
    else:
        _add_ratios(table)
        _test_all(table, comparison)
    _add_published(table, comparison.figures)
    return table


def _choose_baseline(systems: Dict[str, List[Run]], wanted: Optional[str]) -> Optional[str]:
    if wanted is not None:
        return wanted if wanted in systems else None
    return next((system for system in systems if system_key(system) == ("dense", None)), None)


def _sites(runs: Sequence[Run]) -> List[str]:
    there = {site for run in runs for site in run.get("support") or ()}
    return [site for site in SITES if site in there] + sorted(there - set(SITES))


def _signatures(runs: Sequence[Run], subset: str) -> Dict[str, str]:
    """What each metric's column means, under the name of the column."""
    signatures = {}
    keys = {"BLEU": "bleu.signature", "chrF": "chrf.signature", "tokenised BLEU": "tokenised_bleu.label"}
    for name, key in keys.items():
        found = [value for value in (_score(run, subset, key) for run in runs) if value]
        if found:
            signatures[name] = found[0]
    return signatures


def _average(row: Row, table: Table, speeds_from: Optional[Sequence[int]]) -> None:
    def add(name: str, runs: Sequence[Run], values: List[Optional[float]]) -> None:
        if values and None not in values:
            row.measures[name] = Measure([float(value) for value in values])
        elif any(value is not None for value in values):
            lacking = ", ".join(str(run.seed) for run, value in zip(runs, values) if value is None)
            table.notes.append(f"{row.system}: no {name.replace('_', ' ')}, it was not recorded for seed {lacking}")

    row.timed = [run for run in row.runs if speeds_from is None or run.seed in speeds_from]
    for name, (key, of_test) in MEASURES.items():
        runs = row.timed if name in SPEEDS else row.runs
        add(name, runs, [_score(run, table.subset, key) if of_test else run.get(key) for run in runs])
    for site in table.sites:
        add("support " + site, row.runs, [run.get("support." + site + ".support") for run in row.runs])
    widths = [_half_width(_score(run, table.subset, "bleu.ci")) for run in row.runs]
    if None not in widths:
        row.interval = statistics.mean(widths)
    if len({_hardware(run) for run in row.timed}) > 1:
        for name in SPEEDS:
            row.measures.pop(name, None)
        table.notes.append(f"{row.system}: no speeds, its seeds ran on different hardware")


def _note_updates(table: Table) -> None:
    """Say so where systems had different budgets."""
    updates = {row.system: {run.get("train.updates") for run in row.runs} - {None} for row in table.rows}
    if len(set().union(*updates.values())) > 1:
        each = (f"{system} {'/'.join(map(str, sorted(found)))}" for system, found in updates.items() if found)
        table.notes.append("trained for different numbers of updates: " + ", ".join(each))


def _half_width(interval) -> Optional[float]:
    """The recorded interval as a half-width: it may be one, or [low, high]."""
    return (interval[1] - interval[0]) / 2 if isinstance(interval, (list, tuple)) else interval


def _hardware(run: Run) -> Tuple:
    return tuple(run.get("hardware." + name) for name in _HARDWARE)


def _add_ratios(table: Table) -> None:
    """Speeds relative to the baseline's, where both were measured on the same hardware."""
    baseline = table.rows[0]
    elsewhere = []
    for row in (row for row in table.rows if row.timed and baseline.timed):
        if _hardware(row.timed[0]) != _hardware(baseline.timed[0]):
            elsewhere.append(row.system)
            continue
        for name in SPEEDS:
            if row.mean(name) and baseline.mean(name):
                row.ratios[name] = row.mean(name) / baseline.mean(name)
    if elsewhere:
        table.notes.append(f"no speed ratio for {', '.join(elsewhere)}: not the hardware of {baseline.system}")


def _test_all(table: Table, comparison: Comparison) -> None:
    """Seed by seed, test every system's run against the baseline's run with the same seed."""
    if comparison.method is None:
        return
    baseline, others = table.rows[0], table.rows[1:]
    signature = None
    for base in baseline.runs:
        rows = [row for row in others if base.seed in row.seeds]
        runs = [row.runs[row.seeds.index(base.seed)] for row in rows]
        if not runs:
            continue
        p_values, signature = compare_with_baseline(
            base, runs, table.subset, comparison.data_root, comparison.method, comparison.samples, comparison.store
        )
        for row, p in zip(rows, p_values):
            row.p_values[base.seed] = p
    for row in others:
        if not row.p_values:
            table.notes.append(f"{row.system}: not tested, no seed in common with {baseline.system}")
        elif len(row.p_values) < len(row.runs):
            table.notes.append(f"{row.system}: tested for seeds {', '.join(map(str, row.p_values))} only")
    if signature is not None:
        table.signatures["p"] = signature
        table.notes.append(_what_is_tested(table, comparison.method))


def _what_is_tested(table: Table, method: str) -> str:
    text = f"p: {METHOD_NAMES[method]} of BLEU against {table.baseline} over the {table.sentences} test sentences"
    if max(len(row.p_values) for row in table.rows) > 1:
        text += (
            "; one test a seed, between the two runs with that seed. Shown: smallest-largest p "
            f"(how many tests have p < {SIGNIFICANT}). Each test says whether two trained models differ; "
            "how much training varies is the ± over seeds"
        )
    else:
        text += "; it says whether these two trained models differ, not whether training them again would"
    if len(table.rows) > 2:
        text += ". Not corrected for the number of systems"
    return text


def _add_published(table: Table, figures: Sequence[Figure]) -> None:
    figures, same = for_dataset(figures, table.dataset)
    if not figures:
        return
    ours = {system_key(row.system): row for row in table.rows}
    for figure in figures:
        row = ours.get(figure.key)
        if row is None:
            row = ours[figure.key] = Row(figure.label)
            table.rows.append(row)
        row.published.setdefault(figure.column, []).append(figure)
    # Most-filled columns first, so that the paper's main figures stand next to ours.
    filled = Counter(figure.column for figure in figures)
    table.published_columns = sorted(filled, key=lambda column: -filled[column])
    if not same:
        table.notes.append("published figures are of other data: compare differences between systems, not levels")
    if any(figure.metric == "BLEU" for figure in figures):
        table.notes.append(
            "published 'BLEU' has no sacreBLEU signature: set beside tokenised BLEU at most, never beside sacreBLEU"
        )
