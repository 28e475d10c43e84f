"""The table tool: grouping, averaging, formats, published figures, and the errors."""

import csv
import io
import json
import statistics

import pytest
import sacrebleu
from table_runs import GOOD, POOR, REFERENCE, change, make_run, write_reference

from explicit_sparse.tools.table import __main__ as table
from explicit_sparse.tools.table import by_length


@pytest.fixture
def run_table(tmp_path, monkeypatch, capsys):
    """Runs the command line on tmp_path/runs, or on the results given; returns its output."""
    monkeypatch.setenv("DATA_ROOT", str(tmp_path / "prepared"))
    monkeypatch.setenv("SACREBLEU_SEED", "12345")

    def run(*options, results=None):
        results = [str(tmp_path / "runs")] if results is None else [str(result) for result in results]
        status = table.main([*results, "--samples", "20", *map(str, options)])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return captured.out

    return run


@pytest.fixture
def fails(tmp_path, monkeypatch, capsys):
    """Runs the command line, which must fail with one line on standard error; returns that line."""
    monkeypatch.setenv("DATA_ROOT", str(tmp_path / "prepared"))

    def run(*options, results=None):
        results = [str(tmp_path / "runs")] if results is None else [str(result) for result in results]
        assert table.main([*results, "--samples", "20", *map(str, options)]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
        return captured.err

    return run


def as_json(run_table, *options, **more):
    return json.loads(run_table("--format", "json", *options, **more))["tables"]


def two_systems(root):
    make_run(root, "dense", hypotheses=POOR, speed=1000.0, support=14.2)
    make_run(root, "top-k 8", hypotheses=GOOD, speed=900.0, support=7.9)


def three_seeds(root):
    for seed, texts in enumerate((GOOD, POOR, GOOD), 1):
        make_run(root, "dense", seed, texts)
        make_run(root, "top-k 8", seed, REFERENCE[:3] + texts[3:], speed=2000.0 + seed)


# --- what it shows --------------------------------------------------------------------------------------------------

TEXT = """\
toy: toy2024, 6 sentences
---------------------------------------------------------
                                                tokenised
system   seeds   BLEU  95% CI         p   chrF       BLEU
---------------------------------------------------------
dense        1  46.17  ± 9.50  baseline  67.83      40.00
top-k 8      1  80.60  ± 9.50      .095  89.85      40.00
---------------------------------------------------------
BLEU: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:x
chrF: nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:x
tokenised BLEU: tokenised, lowercased
95% CI: bootstrap over test sentences
p: paired bootstrap of BLEU against dense over the 6 test sentences; it says whether these two
  trained models differ, not whether training them again would
test signature: nrefs:1|bs:20|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}

toy: cost
----------------------------------------------------------------------------------
         train  train  decode  decode  memory   para-   support   support  support
system   tok/s  ratio   tok/s   ratio      MB  meters  enc-self  dec-self    cross
----------------------------------------------------------------------------------
dense     1000  1.00x     500   1.00x     512   1.30M      14.2      14.2     14.2
top-k 8    900  0.90x     450   0.90x     512   1.30M       7.9       7.9      7.9
----------------------------------------------------------------------------------
ratio: speed relative to dense on the same hardware
decode: on toy2024
memory: peak in training
support: mean number of keys with weight > 0 for a query
"""


def test_text_of_two_systems(tmp_path, run_table):
    two_systems(tmp_path)
    assert run_table() == TEXT.format(version=sacrebleu.__version__)


def test_text_fits_a_terminal_of_100_columns(tmp_path, run_table):
    three_seeds(tmp_path)
    out = run_table("--published", "EST/main/IWSLT14")
    assert max(map(len, out.splitlines())) <= 100


def test_markdown(tmp_path, run_table):
    two_systems(tmp_path)
    out = run_table("--format", "markdown", "--paired", "none").splitlines()
    assert out[:6] == [
        "**toy: toy2024, 6 sentences**",
        "",
        "| system | seeds | BLEU | 95% CI | chrF | tokenised BLEU |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| dense | 1 | 46.17 | ± 9.50 | 67.83 | 40.00 |",
        "| top-k 8 | 1 | 80.60 | ± 9.50 | 89.85 | 40.00 |",
    ]
    assert "- tokenised BLEU: tokenised, lowercased" in out
    assert "| dense | 1000 | 1.00x | 500 | 1.00x | 512 | 1.30M | 14.2 | 14.2 | 14.2 |" in out


def test_latex_is_booktabs_and_escaped(tmp_path, run_table):
    make_run(tmp_path, "dense_100%", hypotheses=POOR)
    out = run_table("--format", "latex", "--baseline", "dense_100%", "--paired", "none")
    assert r"system & seeds & BLEU & 95\% CI & chrF & tokenised BLEU \\" in out
    assert r"dense\_100\% & 1 & 46.17 & $\pm$ 9.50 & 67.83 & 40.00 \\" in out
    assert out.count(r"\begin{tabular}{l") == out.count(r"\toprule") == out.count(r"\bottomrule") == 2


def test_csv_holds_unrounded_numbers(tmp_path, run_table):
    three_seeds(tmp_path)
    lines = list(csv.DictReader(io.StringIO(run_table("--format", "csv"))))
    assert [line["system"] for line in lines] == ["dense", "top-k 8"]
    line = lines[1]
    assert line["seeds"] == "1 2 3"
    assert float(line["train_speed"]) == 2002
    assert float(line["train_speed_ratio"]) == pytest.approx(2.002)
    assert float(line["support_cross"]) == 8
    assert [part.split(":")[0] for part in line["p"].split()] == ["1", "2", "3"]
    assert line["tokenised_bleu"] == "40.0" != line["bleu"]


def test_mean_and_standard_deviation_over_seeds(tmp_path, run_table):
    three_seeds(tmp_path)
    (content,) = as_json(run_table)
    bleu = content["systems"][0]["bleu"]
    assert bleu["values"] == [80.6, 46.17, 80.6]
    assert bleu["mean"] == pytest.approx(statistics.mean(bleu["values"]))
    assert bleu["sd"] == pytest.approx(statistics.stdev(bleu["values"]))
    out = run_table()
    assert "69.12 ± 19.88" in out and "(0/3)" in out
    assert "one test a seed, between the two runs with that seed" in " ".join(out.split())


def test_seed_order_does_not_matter(tmp_path, run_table):
    files = [make_run(tmp_path, "dense", seed, texts) for seed, texts in ((2, POOR), (1, GOOD))]
    (content,) = as_json(run_table, results=files)
    assert content["systems"][0]["seeds"] == [1, 2]
    assert content["systems"][0]["bleu"]["values"] == [80.6, 46.17]


def test_a_run_named_twice_counts_once(tmp_path, run_table):
    file = make_run(tmp_path, "dense")
    (content,) = as_json(run_table, results=[tmp_path / "runs", file])
    assert content["systems"][0]["seeds"] == [1]


def test_data_sets_and_test_sets_have_tables_of_their_own(tmp_path, run_table):
    two_systems(tmp_path)
    file = make_run(tmp_path, "dense", dataset="other")
    run = json.loads(file.read_text())
    run["test"]["test1"] = dict(run["test"]["test"], name="toy2025")
    file.write_text(json.dumps(run))
    tables = as_json(run_table)
    assert [(t["dataset"], t["test_set"]) for t in tables] == [
        ("other", "toy2024"),
        ("other", "toy2025"),
        ("toy", "toy2024"),
    ]
    assert run_table().count("cost") == 2
    assert [t["test_set"] for t in as_json(run_table, "--subset", "test1", results=[file])] == ["toy2025"]


def test_order_of_systems(tmp_path, run_table):
    make_run(tmp_path, "top-k 16", hypotheses=POOR)
    make_run(tmp_path, "top-k 8", hypotheses=GOOD)
    make_run(tmp_path, "top-k 4", hypotheses=POOR)
    make_run(tmp_path, "xdense", hypotheses=POOR)

    def order(*options):
        return [row["system"] for row in as_json(run_table, "--baseline", "xdense", *options)[0]["systems"]]

    assert order() == ["xdense", "top-k 4", "top-k 8", "top-k 16"]
    assert order("--sort", "bleu") == ["xdense", "top-k 8", "top-k 4", "top-k 16"]


def test_no_baseline_is_said(tmp_path, run_table):
    make_run(tmp_path, "sparsemax")
    (content,) = as_json(run_table)
    assert content["baseline"] is None
    assert "no system 'dense' on this data set, so nothing is compared with a baseline" in content["notes"]


def test_speeds_are_compared_on_the_same_hardware_only(tmp_path, run_table):
    make_run(tmp_path, "dense")
    make_run(tmp_path, "top-k 8", hardware__threads=2)
    make_run(tmp_path, "sparsemax", seed=1)
    make_run(tmp_path, "sparsemax", seed=2, hardware__cpu="another")
    (content,) = as_json(run_table, "--paired", "none")
    ratios = {row["system"]: row["ratios"] for row in content["systems"]}
    assert ratios["dense"]["train_speed"] == 1 and not ratios["top-k 8"] and not ratios["sparsemax"]
    assert "no speed ratio for top-k 8: not the hardware of dense" in content["notes"]
    assert "sparsemax: no speeds, its seeds ran on different hardware" in content["notes"]


def test_speeds_come_from_the_seeds_asked_for(tmp_path, run_table):
    for seed, speed in ((1, 900.0), (2, 500.0), (3, 700.0)):
        make_run(tmp_path, "dense", seed, speed=1000.0)
        make_run(tmp_path, "top-k 8", seed, speed=speed)
    assert "0.70x" in run_table() and "alone" not in run_table()
    assert "0.50x" in run_table("--speeds-from", "2")
    text = run_table("--speeds-from", "1,2")
    assert "0.70x" in text and "speeds: from the runs of seed 1, 2 alone" in text
    text = run_table("--speeds-from", "none")
    assert "tok/s" not in text and "ratio" not in text and "memory" in text


def test_speeds_of_another_hardware_do_not_count_where_they_are_not_asked_for(tmp_path, run_table):
    make_run(tmp_path, "dense", 1, speed=1000.0, hardware__cpu="another")
    make_run(tmp_path, "dense", 2, speed=1000.0)
    make_run(tmp_path, "top-k 8", 1, speed=300.0)
    make_run(tmp_path, "top-k 8", 2, speed=500.0)
    text = run_table("--speeds-from", "2")
    assert "0.50x" in text and "hardware" not in text.replace("on the same hardware", "")


def test_a_system_without_the_seed_asked_for_has_no_speed(tmp_path, run_table):
    make_run(tmp_path, "dense", 1)
    make_run(tmp_path, "dense", 2)
    make_run(tmp_path, "top-k 8", 1)
    (content,) = as_json(run_table, "--speeds-from", "2")
    dense, topk = content["systems"]
    assert "train_speed" in dense and "train_speed" not in topk and not topk["ratios"]


@pytest.mark.parametrize("bad", ["", "all", "1,", "1;2"])
def test_speeds_from_what_are_no_seeds(tmp_path, run_table, bad, capsys):
    make_run(tmp_path, "dense", 1)
    with pytest.raises(SystemExit):
        run_table("--speeds-from", bad)
    assert "neither seeds such as 1,3 nor none" in capsys.readouterr().err


def test_what_was_not_recorded_is_left_out_and_said(tmp_path, run_table):
    make_run(tmp_path, "dense", seed=1)
    make_run(tmp_path, "dense", seed=2, test__test__chrf=...)
    make_run(tmp_path, "dense", seed=3, train__updates=200)
    (content,) = as_json(run_table)
    assert "chrf" not in content["systems"][0]
    assert "dense: no chrf, it was not recorded for seed 2" in content["notes"]
    assert "trained for different numbers of updates: dense 200/300" in content["notes"]
    assert "chrF " not in run_table().splitlines()[2]


def test_an_interval_may_be_recorded_as_its_ends(tmp_path, run_table):
    make_run(tmp_path, "dense", test__test__bleu__ci=[30.0, 44.0])
    assert "± 7.00" in run_table()


def test_output_goes_to_a_file(tmp_path, run_table):
    two_systems(tmp_path)
    assert run_table("--output", tmp_path / "table.txt") == ""
    assert (tmp_path / "table.txt").read_text(encoding="utf-8") == run_table()
    assert not list(tmp_path.glob("*.partial"))


# --- published figures ----------------------------------------------------------------------------------------------


def test_published_figures_stand_beside_ours_with_their_mark(tmp_path, run_table):
    for system in ("dense", "top-k 8", "entmax15"):
        make_run(tmp_path, system, dataset="iwslt14.de-en")
    out = run_table("--published", "EST", "--paired", "none")
    rows = {line.split("  ")[0]: line for line in out.split("cost")[0].splitlines()}
    assert rows["dense"].endswith("35.3 (a)")
    assert rows["top-k 8"].endswith("35.6 (a)")
    assert rows["entmax15"].endswith("35.6 (a)")
    assert rows["Sparsemax"].endswith("31.2 (a)")  # no run of ours, yet not dropped
    assert "(a) published figure: cited; not re-read in the paper" in out
    assert "(b) published figure: read" in out  # the speed, beside our speeds
    assert "WMT14" not in out and "of other data" not in out


def test_published_figures_of_other_data_are_called_so(tmp_path, run_table):
    two_systems(tmp_path)
    (content,) = as_json(run_table, "--published", "iwslt14.de-en", "--published", "ReLA/main")
    columns = {figure["column"] for row in content["systems"] for figure in row["published"]}
    assert {"EST IWSLT14 De-En BLEU", "ReLA WMT16 Ro-En sacreBLEU"} <= columns  # metrics keep apart
    assert "published figures are of other data: compare differences between systems, not levels" in content["notes"]


def test_every_published_row_is_found_by_its_name(run_table, tmp_path):
    make_run(tmp_path, "top-k 8")
    figures = table.read_figures()
    shown = set()
    for paper in {figure.paper for figure in figures}:
        (content,) = as_json(run_table, "--published", paper, "--paired", "none")
        shown |= {(f["column"], f["value"], f["checked"]) for row in content["systems"] for f in row["published"]}
    assert shown == {(figure.column, figure.value, figure.checked) for figure in figures}


def test_unknown_published_name(tmp_path, fails):
    make_run(tmp_path, "dense")
    assert "--published Nobody: no such figures; choose from AST/main/" in fails("--published", "Nobody")


# --- errors ---------------------------------------------------------------------------------------------------------


def test_nothing_there(tmp_path, fails):
    (tmp_path / "empty").mkdir()
    assert "no run.json in this folder" in fails(results=[tmp_path / "empty"])
    assert "no such file or folder" in fails(results=[tmp_path / "missing"])


def test_an_unfinished_run(tmp_path, fails, run_table):
    two_systems(tmp_path)
    folder = tmp_path / "runs" / "toy" / "dense" / "seed2"
    folder.mkdir()
    assert f"{folder}: holds no run.json" in fails()
    (content,) = as_json(run_table, "--skip-unfinished")
    assert f"left out, not finished: {folder}" in content["notes"]


def test_a_truncated_run(tmp_path, fails):
    file = make_run(tmp_path, "dense")
    file.write_text(file.read_text()[:200])
    assert f"{file}: not valid JSON" in fails()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"format": 2}, "format 2, but this version reads format 1"),
        ({"format": ...}, "it has no field 'format'"),
        ({"parameters": ...}, "the field 'parameters' is missing"),
        ({"parameters": "1M"}, "'parameters' is '1M', not a whole number"),
        ({"test__test__bleu__score": ...}, "the field 'test.test.bleu.score' is missing"),
        ({"test__test__bleu__score": float("nan")}, "'test.test.bleu.score' is nan, not a number"),
        ({"test__test__chrf__score": "high"}, "'test.test.chrf.score' is 'high', not a number"),
        ({"train__tokens_per_second": True}, "'train.tokens_per_second' is True, not a number"),
        ({"test__test__bleu__score": 12.0}, "records BLEU 12.00 on 'test', but sacrebleu gives its hypotheses 80.60"),
        ({"test": {}}, "no test set was scored"),
    ],
)
def test_a_bad_run_is_named(tmp_path, fails, changes, message):
    make_run(tmp_path, "top-k 8")
    file = make_run(tmp_path, "dense", **changes)
    error = fails()
    assert str(file) in error and message in error


def test_a_signature_that_is_not_sacrebleus(tmp_path, fails):
    for system in ("dense", "top-k 8"):
        make_run(tmp_path, system, test__test__bleu__signature="multi-bleu")
    assert "'multi-bleu' is not a sacrebleu signature" in fails()


def test_hypotheses_of_the_wrong_length(tmp_path, fails):
    two_systems(tmp_path)
    file = tmp_path / "runs" / "toy" / "topk8" / "seed1" / "test.hyp"
    file.write_text("\n".join(GOOD[:5]) + "\n")
    message = f"{file}: 5 lines, but the test set 'test' has 6 sentences"
    assert message in fails()
    assert message in fails("--paired", "none")


def test_missing_hypotheses(tmp_path, fails, run_table):
    two_systems(tmp_path)
    (tmp_path / "runs" / "toy" / "topk8" / "seed1" / "test.hyp").unlink()
    assert "test.hyp: not found" in fails()
    assert "80.60" in run_table("--paired", "none")


def test_missing_or_changed_reference(tmp_path, fails):
    two_systems(tmp_path)
    file = write_reference(tmp_path, REFERENCE[::-1])
    assert f"{file}: its checksum" in fails()
    file.unlink()
    assert f"{file}: not found; it is the reference of" in fails()


def test_different_test_sets(tmp_path, fails):
    one = make_run(tmp_path, "dense")
    two = make_run(tmp_path, "top-k 8", test__test__sha256_reference="0" * 64)
    assert f"{one} and {two}: different test sets" in fails()


def test_different_measures(tmp_path, fails):
    make_run(tmp_path, "dense")
    file = make_run(
        tmp_path, "top-k 8", test__test__bleu__signature="nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:x"
    )
    error = fails()
    assert str(file) in error and "bleu.signature of 'test'" in error
    make_run(tmp_path, "sparsemax", test__test__tokenised_bleu=...)  # the first of them has none
    make_run(tmp_path, "top-k 8", test__test__tokenised_bleu__label="compound split")
    assert "tokenised_bleu.label of 'test'" in fails()


def test_a_test_set_that_only_some_were_scored_on(tmp_path, fails, run_table):
    make_run(tmp_path, "dense")
    file = make_run(tmp_path, "top-k 8")
    run = json.loads(file.read_text())
    run["test"]["test1"] = run["test"]["test"]
    file.write_text(json.dumps(run))
    assert "no scores on the test set 'test1'" in fails()
    assert len(as_json(run_table, "--subset", "test")) == 1
    assert "--subset test9: no run of toy has scores on it; there are test, test1" in fails("--subset", "test9")


def test_the_same_seed_twice(tmp_path, fails):
    one = make_run(tmp_path, "dense")
    two = make_run(tmp_path / "copy", "dense")
    error = fails(results=[one, two])
    assert f"{one} and {two}: the same system 'dense' with the same seed 1" in error


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"options__topk": 4}, "topk is 8 in one and 4 in the other"),
        ({"parameters": 5}, "one has 1303040 parameters and the other 5"),
        ({"experiment": "other"}, "two experiments, dense and other, have the same label 'dense'"),
    ],
)
def test_seeds_of_different_systems_are_not_averaged(tmp_path, fails, changes, message):
    make_run(tmp_path, "dense", seed=1)
    make_run(tmp_path, "dense", seed=2, **changes)
    assert message in fails()


def test_a_run_older_than_an_option_had_its_default(tmp_path, run_table, fails):
    make_run(tmp_path, "dense", seed=1)
    newer = make_run(tmp_path, "dense", seed=2, options__attention_kernel="auto")
    assert as_json(run_table)[0]["systems"][0]["seeds"] == [1, 2]
    run = json.loads(newer.read_text())
    run["options"]["attention_kernel"] = "long"
    newer.write_text(json.dumps(run))
    assert "attention_kernel is auto in one and long in the other" in fails()


def test_unknown_baseline(tmp_path, fails):
    two_systems(tmp_path)
    assert "--baseline softmax: no run of that system; there are dense, top-k 8" in fails("--baseline", "softmax")


# ---- fields of a wrong kind ----


@pytest.mark.parametrize(
    "field, value, complaint",
    [
        ("test__test__bleu__ci", "1.23", "'test.test.bleu.ci' is '1.23', not a number"),
        ("support", [8.0, 6.9, 8.0], "'support' is '[8.0, 6.9, 8.0]', not an object"),
        ("support__cross__support", "8", "'support.cross.support' is '8', not a number"),
        ("hardware", "a laptop", "'hardware' is 'a laptop', not an object"),
        ("train__curve", "falls", "'train.curve' is 'falls', not a list"),
        ("train__curve", [3, 2, 1], "'train.curve[0].update' is missing"),
        ("train__curve", [{"update": 1, "valid_loss": "low"}], "'train.curve[0].valid_loss' is 'low', not a number"),
        ("system", "top-k\n8", "a line break or control character"),
        ("system", "\x1b[2Jdense", "a line break or control character"),
        ("test__test__bleu__score", True, "not a number"),
        ("test__test__bleu__score", float("nan"), "not a number"),
    ],
)
def test_a_field_of_a_wrong_kind_is_named(tmp_path, capsys, field, value, complaint):
    path = make_run(tmp_path, "dense")
    run = json.loads(path.read_text())
    change(run, field.split("__"), value)
    path.write_text(json.dumps(run))
    assert table.main([str(path), "--paired", "none"]) == 1
    printed = capsys.readouterr().err
    assert complaint in printed and str(path) in printed and printed.count("\n") == 1


# ---- by length ----


def test_buckets_hold_their_ends():
    lengths = [1, 10, 11, 20, 21, 30, 31, 50, 51, 200, 0]
    assert by_length.buckets(lengths) == {
        "1-10": [0, 1, 10], "11-20": [2, 3], "21-30": [4, 5], "31-50": [6, 7], "51-": [8, 9],
    }  # fmt: skip
    assert by_length.buckets([5, 60]) == {"1-10": [0], "51-": [1]}


def test_bleu_by_length_is_sacrebleus_on_those_sentences(tmp_path, capsys):
    runs = [make_run(tmp_path, "dense", hypotheses=POOR), make_run(tmp_path, "top-k 8", hypotheses=GOOD)]
    prepared = tmp_path / "prepared" / "toy"
    (prepared / "tok").mkdir()
    sources = ["wort " * length for length in (3, 12, 10, 40, 11, 4)]
    (prepared / "tok" / "test.de").write_text("\n".join(sources) + "\n", encoding="utf-8")
    (prepared / "manifest.json").write_text('{"source_lang": "de"}', encoding="utf-8")
    command = [*map(str, runs), "--by-length", "--paired", "none", "--data-root", str(tmp_path / "prepared")]
    assert table.main([*command, "--format", "json"]) == 0
    systems = json.loads(capsys.readouterr().out)["tables"][0]["systems"]
    for system, hypotheses in zip(systems, (POOR, GOOD)):
        for name, numbers in (("1-10", [0, 2, 5]), ("11-20", [1, 4]), ("31-50", [3])):
            expected = sacrebleu.BLEU().corpus_score([hypotheses[i] for i in numbers], [[REFERENCE[i] for i in numbers]]).score
            assert system["bleu of " + name]["mean"] == pytest.approx(expected)
    assert table.main(command) == 0
    printed = capsys.readouterr().out
    assert "toy: BLEU by tokens of the source, toy2024" in printed and "1-10: 3, 11-20: 2, 31-50: 1" in printed

    (prepared / "tok" / "test.de").write_text("too short\n", encoding="utf-8")
    assert table.main(command) == 1
    assert "test.de has 1 lines, but" in capsys.readouterr().err
