"""The table tool's scores, order and p-values are those of sacrebleu's own command line."""

import hashlib
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU
from table_runs import GOOD, POOR, REFERENCE, make_run, write_reference

from explicit_sparse.tools.table import __main__ as table

ROOT = Path(__file__).resolve().parents[2]
WMT17 = ROOT.parent / "shared" / "data" / "wmt17-en-de-systems" / "newstest2017.en-de.tsv.xz"
COMMITTED = ROOT / "tests" / "data" / "wmt17_sacrebleu.json"


@pytest.fixture(autouse=True)
def fixed_seed(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "12345")


def tabulate(folder, capsys, *options):
    """The systems of the only table, by name."""
    command = [str(folder / "runs"), "--data-root", str(folder / "prepared"), "--format", "json", *map(str, options)]
    status = table.main(command)
    captured = capsys.readouterr()
    assert status == 0, captured.err
    (content,) = json.loads(captured.out)["tables"]
    return {row["system"]: row for row in content["systems"]}


def sacrebleu_command(reference, files, *options):
    """What `sacrebleu REFERENCE -i FILES...` prints as JSON: by system, or by metric for a single file."""
    command = [sys.executable, "-m", "sacrebleu", reference, "-i", *files, "--quiet", "--format", "json", *options]
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONUTF8": "1"}
    )
    return json.loads(done.stdout.decode("utf-8"))


def paired_command(reference, files, *options):
    return [line["BLEU"] for line in sacrebleu_command(reference, files, *options)]


# --- a toy test set -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, options",
    [("bootstrap", ("--paired-bs", "--paired-bs-n", "50")), ("randomisation", ("--paired-ar", "--paired-ar-n", "50"))],
)
def test_p_value_is_the_command_lines(tmp_path, capsys, method, options):
    files = [make_run(tmp_path, "dense", 1, POOR), make_run(tmp_path, "top-k 8", 1, GOOD)]
    hypotheses = [file.with_name("test.hyp") for file in files]
    expected = paired_command(write_reference(tmp_path), hypotheses, *options)
    found = tabulate(tmp_path, capsys, "--paired", method, "--samples", 50)
    assert found["top-k 8"]["p"]["1"] == expected[1]["p_value"]
    assert found["dense"]["p"] == {}


def test_each_seed_is_tested_against_the_same_seed(tmp_path, capsys):
    for seed, texts in ((1, GOOD), (2, POOR)):
        make_run(tmp_path / "all", "dense", seed, texts)
        make_run(tmp_path / "all", "top-k 8", seed, REFERENCE[:2] + texts[2:])
        make_run(tmp_path / str(seed), "dense", seed, texts)
        make_run(tmp_path / str(seed), "top-k 8", seed, REFERENCE[:2] + texts[2:])
    make_run(tmp_path / "all", "top-k 8", 3, GOOD)
    make_run(tmp_path / "all", "top-k 4", 9, GOOD)

    def p_values(folder, system="top-k 8"):
        return tabulate(tmp_path / folder, capsys, "--samples", 20)[system]["p"]

    assert p_values("all") == {**p_values("1"), **p_values("2")}
    assert p_values("all", "top-k 4") == {}
    table.main([str(tmp_path / "all" / "runs"), "--data-root", str(tmp_path / "all" / "prepared"), "--samples", "20"])
    out = capsys.readouterr().out
    assert "top-k 8: tested for seeds 1, 2 only" in out
    assert "top-k 4: not tested, no seed in common with dense" in out


def test_metric_is_rebuilt_from_the_signature(tmp_path, capsys):
    """Lowercased scores are tested lowercased: were they not, the recorded score would be called wrong."""
    metric = BLEU(lowercase=True, tokenize="intl")
    shouted = [line.upper() for line in GOOD]
    for system, texts in (("dense", POOR), ("top-k 8", shouted)):
        score = metric.corpus_score(texts, [REFERENCE]).score
        scores = {"score": score, "signature": str(metric.get_signature())}
        make_run(tmp_path, system, hypotheses=texts, test__test__bleu=scores)
    assert 0 < tabulate(tmp_path, capsys, "--samples", 20)["top-k 8"]["p"]["1"] <= 1


def test_finished_tests_are_kept(tmp_path, capsys):
    make_run(tmp_path, "dense", 1, POOR)
    file = make_run(tmp_path, "top-k 8", 1, GOOD)
    options = ("--samples", 20, "--tests", tmp_path / "tests.json")
    first = tabulate(tmp_path, capsys, *options)
    write_reference(tmp_path).unlink()
    assert tabulate(tmp_path, capsys, *options) == first  # no reference, no new test

    texts = file.with_name("test.hyp")
    texts.write_text(texts.read_text().replace("mat", "rug"))
    with pytest.raises(AssertionError, match="not found; it is the reference"):
        tabulate(tmp_path, capsys, *options)  # another text: the old test does not serve


def test_a_broken_file_of_tests(tmp_path, capsys):
    make_run(tmp_path, "dense")
    (tmp_path / "tests.json").write_text("[")
    with pytest.raises(AssertionError, match="tests.json: not a file of finished tests"):
        tabulate(tmp_path, capsys, "--tests", tmp_path / "tests.json")


@pytest.mark.parametrize("ending", [".xz", ".gz"])
def test_hypotheses_may_be_compressed(tmp_path, capsys, ending):
    import gzip

    make_run(tmp_path, "dense", 1, POOR)
    file = make_run(tmp_path, "top-k 8", 1, GOOD).with_name("test.hyp")
    first = tabulate(tmp_path, capsys, "--samples", 20)
    pack = lzma.compress if ending == ".xz" else gzip.compress
    file.with_name(file.name + ending).write_bytes(pack(file.read_bytes()))
    file.unlink()
    assert tabulate(tmp_path, capsys, "--samples", 20) == first


# --- real systems ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wmt17(tmp_path_factory):
    """The 16 systems of WMT17 English-German as recorded runs; the baseline is the first column."""
    if not WMT17.exists():
        pytest.skip(f"no {WMT17.name} in ../shared")
    folder = tmp_path_factory.mktemp("wmt17")
    with lzma.open(str(WMT17), "rt", encoding="utf-8", newline="\n") as lines:
        names, *rows = [line.rstrip("\n").split("\t") for line in lines]
    columns = dict(zip(names, zip(*rows)))
    reference = folder / "prepared" / "ref.de"
    reference.parent.mkdir()
    reference.write_text("\n".join(columns.pop("ref")) + "\n", encoding="utf-8")
    checksum = hashlib.sha256(reference.read_bytes()).hexdigest()
    metric = BLEU(references=[reference.read_text(encoding="utf-8").split("\n")[:-1]])
    files = {}
    for name, texts in columns.items():
        score = metric.corpus_score(texts, None)
        test = {
            "sentences": len(rows),
            "hypotheses": "test.hyp",
            "reference": reference.name,
            "sha256_reference": checksum,
            "bleu": {"score": score.score, "signature": str(metric.get_signature())},
        }
        path = make_run(folder, name, 1, texts, experiment=name, test={"test": test})
        files[name] = path.with_name("test.hyp")
    return folder, reference, files


def test_wmt17_equals_the_command_line(wmt17, capsys):
    folder, reference, files = wmt17
    baseline = "LIUM-NMT"
    expected = paired_command(reference, files.values(), "--paired-bs", "--paired-bs-n", 100)
    expected = dict(zip(files, expected))
    found = tabulate(folder, capsys, "--baseline", baseline, "--samples", 100, "--sort", "bleu")
    assert set(found) == set(expected) and len(found) == 16
    for name in expected:
        assert found[name]["bleu"]["mean"] == pytest.approx(expected[name]["score"], abs=1e-9)
        assert found[name]["p"].get("1") == expected[name]["p_value"]
    others = sorted((name for name in expected if name != baseline), key=lambda name: -expected[name]["score"])
    assert list(found) == [baseline, *others]


def test_wmt17_equals_the_committed_numbers(wmt17, capsys):
    """The same, with sacrebleu's default of 1000 resamples, against what its command line once printed."""
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    found = tabulate(wmt17[0], capsys, "--baseline", committed["baseline"])
    assert set(found) == set(committed["systems"])
    for name, expected in committed["systems"].items():
        assert found[name]["bleu"]["mean"] == pytest.approx(expected["bleu"], abs=1e-4)
        assert found[name]["p"].get("1") == (expected["p"] and pytest.approx(expected["p"], abs=1e-6))
