"""The report tool on small trained models: every number it can check, its page in a real browser, and bad input."""

import base64
import dataclasses
import json
import re
import shutil
import subprocess

import pytest
import torch
from in_process import call

import explicit_sparse
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.tools.report import __main__ as report
from explicit_sparse.tools.report.collect import Collection
from explicit_sparse.tools.report.sentences import make_batches, read_subset
from explicit_sparse.tools.command import ToolError
from explicit_sparse.tools.report.models import load_systems

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pytestmark = pytest.mark.slow

USER_DIR = explicit_sparse.__path__[0]
SITES = ["encoder-self", "decoder-self", "cross"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, toy_data, toy_flags):
    """Checkpoints of one layer after few updates: {name: path}; "course" are three of learned alpha."""
    folder = tmp_path_factory.mktemp("trained")
    for name, flags in {
        "dense": ["--topk", "0"],
        "topk": ["--topk", "2"],
        "stock": ["--arch", "transformer", "--encoder-layers", "1", "--decoder-layers", "1"],
        "entmax": ["--attention-mapping", "entmax", "--save-interval-updates", "10"],
        "rela": ["--attention-mapping", "rela"],
    }.items():
        call(
            "train", toy_data, "--user-dir", USER_DIR, *toy_flags["train"], *flags, "--cpu", "--seed", "1",
            "--max-update", "30" if name != "rela" else "5", "--no-epoch-checkpoints", "--save-dir", folder / name,
            "--no-progress-bar",
        )  # fmt: skip
    paths = {path.name: path / "checkpoint_last.pt" for path in folder.iterdir()}
    paths["course"] = sorted((folder / "entmax").glob("checkpoint_*_*.pt"))
    return paths


@pytest.fixture(scope="module")
def comparison(tmp_path_factory, trained, toy_data):
    """A comparison with everything in it: (folder, report.json)."""
    out = tmp_path_factory.mktemp("out") / "report"
    arguments = [trained["dense"], trained["topk"], trained["entmax"], "--compare", "--course", *trained["course"]]
    assert (
        report.main([*arguments, "--data", toy_data, "--out", out, "--cpu", "--site", "all", "--sentences", "0,5"]) == 0
    )
    return out, json.loads((out / "report.json").read_text(encoding="utf-8"))


def test_numbers_of_known_systems(comparison):
    _, numbers = comparison
    dense, topk, entmax = numbers["systems"]
    assert [system["name"] for system in numbers["systems"]] == ["dense", "top-k 2", "alpha-entmax"]
    assert numbers["data"]["sentences"] == 13 and numbers["data"]["target"] == "the reference"
    for site in SITES:
        assert dense["sites"][site]["mean"]["density"] == 1
        assert dense["sites"][site]["mean"]["support"] == dense["sites"][site]["mean"]["allowed"]
        assert sum(dense["sites"][site]["mean"]["kinds"].values()) == pytest.approx(1)
        assert topk["sites"][site]["mean"]["tail"] == 0 and dense["sites"][site]["mean"]["empty"] == 0
        for head in entmax["sites"][site]["layers"][0]["heads"]:
            assert 1 < head["alpha"] < 2
    assert topk["sites"]["cross"]["mean"]["support"] == 2
    assert (
        "next" not in topk["sites"]["decoder-self"]["best_heads"]
        and "word" in topk["sites"]["encoder-self"]["best_heads"]
    )


def test_comparison_says_where_top_k_attends_and_dense_does_not(comparison):
    _, numbers = comparison
    pair = numbers["comparisons"][0]
    assert (pair["A"], pair["B"]) == ("dense", "top-k 2")
    for site in SITES:
        measures = pair["sites"][site]["mean"]
        assert 0 < measures["outside"]["all"] <= measures["outside_head"]["all"] < 1
        for measure in measures.values():
            assert sum(measure["kinds"].values()) == pytest.approx(measure["all"])
        assert measures["new"]["all"] > 0


def test_heat_maps_hold_the_weights(comparison):
    _, numbers = comparison
    maps = {(m["sentence"], m["site"]): m for m in numbers["maps"]}
    assert len(maps) == 6
    one = maps[5, "decoder-self"]
    assert one["queries"] == one["keys"] and one["queries"][0] == "</s>"
    for panel in one["panels"]:
        for number, row in enumerate(panel["weights"]):
            assert sum(w for w in row[: number + 1]) == pytest.approx(1, abs=1e-3)
            assert row[number + 1 :] == [None] * (len(row) - number - 1)
    assert any(w == 0 for row in maps[0, "cross"]["panels"][1]["weights"] for w in row)
    assert maps[0, "cross"]["queries"][-1] == maps[0, "cross"]["keys"][-1] == "</s>"


def test_padding_and_batches_change_nothing(trained, toy_data):
    """Sums over batches of all sizes are those over sentences one by one."""
    systems = load_systems([trained["dense"], trained["topk"]], [], toy_data)
    sentences = read_subset(systems[0], "test")
    results = []
    for size in (1, 5, 64):
        collection = Collection(systems, torch.device("cpu"), ("subword-nmt", "subword-nmt"))
        for batch in make_batches(systems[0], sentences, 10_000, size):
            collection.read(batch)
        results.append([
            *(tally.mean()["entropy"] for of_system in collection.tallies.values() for tally in of_system.values()),
            *(tally.mean()["density"] for of_system in collection.tallies.values() for tally in of_system.values()),
            *(tally.diversity() for of_system in collection.tallies.values() for tally in of_system.values()),
            *(pair.measures()["moved"]["all"] for pair in collection.pairs["top-k 2"].values()),
        ])  # fmt: skip
    assert results[0] == pytest.approx(results[1], abs=1e-5) and results[0] == pytest.approx(results[2], abs=1e-5)
    modules = [m for system in systems for m in system.model.modules() if isinstance(m, SparseMultiheadAttention)]
    assert modules and all(module.observer is None for module in modules)


def test_course_of_alpha(comparison, trained):
    _, numbers = comparison
    assert [point["update"] for point in numbers["alpha_course"]] == [10, 20, 30]
    last = [head["alpha"] for head in numbers["systems"][2]["sites"]["cross"]["layers"][0]["heads"]]
    assert numbers["alpha_course"][-1]["sites"]["cross"][0] == pytest.approx(last)


def test_files_and_summary(trained, toy_data, tmp_path, capsys):
    out = tmp_path / "report"
    assert report.main([trained["rela"], "--data", toy_data, "--out", out, "--cpu", "--name", "mine", "--words"]) == 0
    printed, progress = capsys.readouterr()
    assert "read 13 of 13 sentences" in progress
    assert "mine" in printed and "encoder-self" in printed and str(out / "report.html") in printed
    numbers = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert {figure["file"] for figure in numbers["figures"]} == {
        f"figures/{p.name}" for p in (out / "figures").glob("*.png")
    }
    assert {p.stem for p in (out / "figures").glob("*.svg")} == {p.stem for p in (out / "figures").glob("*.png")}
    assert len((out / "alignment" / "mine.pharaoh").read_text().splitlines()) == 13
    assert not any("@@" in label for m in numbers["maps"] for label in m["queries"] + m["keys"])
    assert [p.name for p in tmp_path.iterdir()] == ["report"]
    # a second report takes the place of the first, with no picture left of it
    stale = out / "figures" / "stale.png"
    stale.touch()
    assert report.main([trained["topk"], "--data", toy_data, "--out", out, "--cpu"]) == 0
    assert not stale.exists() and not (out / "alignment" / "mine.pharaoh").exists()


def test_fairseqs_own_transformer_is_read_as_dense(trained, toy_data, tmp_path):
    assert report.main([trained["stock"], "--data", toy_data, "--out", tmp_path / "report", "--cpu"]) == 0
    numbers = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert numbers["systems"][0]["name"] == "dense"
    assert numbers["systems"][0]["sites"]["cross"]["mean"]["density"] == 1


def test_own_output_of_source_lines(trained, toy_data, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("Ein@@ s zwe@@ i .\nelf ach@@ t Katze .\n", encoding="utf-8")
    out = tmp_path / "report"
    assert (
        report.main([trained["topk"], "--data", toy_data, "--input", lines, "--out", out, "--cpu", "--sentences", "1"])
        == 0
    )
    numbers = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert numbers["data"]["sentences"] == 2 and "own translation" in numbers["data"]["target"]
    [one] = numbers["maps"]
    assert one["keys"] == ["elf", "ach@@", "t", "<unk>", ".", "</s>"] and one["queries"][-1] == "</s>"
    assert "1 of 10 tokens" in numbers["notes"][0]
    html = (out / "report.html").read_text(encoding="utf-8")
    assert "1 of 10 tokens" in html


def test_sentences_that_cannot_be_read_are_left_out_with_a_note(trained, toy_data, tmp_path, monkeypatch):
    def with_an_empty_one(system, subset):
        sentences = read_subset(system, subset)
        return [dataclasses.replace(sentences[0], source=sentences[0].source[-1:]), *sentences[1:]]

    monkeypatch.setattr(report, "read_subset", with_an_empty_one)
    out = tmp_path / "report"
    assert report.main([trained["topk"], "--data", toy_data, "--out", out, "--cpu"]) == 0
    numbers = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert numbers["data"]["sentences"] == 12
    assert numbers["notes"] == ["1 left out, the first of them sentence 0: its source is empty"]
    assert (out / numbers["alignment"][0]["file"]).read_text().startswith("\n")  # lines stay those of the data


def test_gold_alignment_finds_the_best_head(trained, toy_data, tmp_path):
    """The toy task translates word by word: word i is aligned with word i."""
    systems = load_systems([trained["topk"]], [], toy_data)
    collection = Collection(systems, torch.device("cpu"), ("subword-nmt", "subword-nmt"))
    sentences = read_subset(systems[0], "test")
    lengths = [collection.words(sentence.source[:-1], 0)[-1] + 1 for sentence in sentences]
    gold = tmp_path / "gold"
    gold.write_text("".join(" ".join(f"{i}-{i}" for i in range(n)) + "\n" for n in lengths), encoding="utf-8")
    out = tmp_path / "report"
    assert report.main([trained["topk"], "--data", toy_data, "--gold", gold, "--out", out, "--cpu"]) == 0
    [entry] = json.loads((out / "report.json").read_text(encoding="utf-8"))["alignment"]
    assert len(entry["candidates"]) == 2 * 3  # ordinary and shifted, two heads and their average
    assert entry["aer"] == min(candidate["aer"] for candidate in entry["candidates"])
    found = (out / entry["file"]).read_text().splitlines()
    right = sum(link.split("-")[0] == link.split("-")[1] for line in found for link in line.split())
    total = sum(len(line.split()) for line in found)
    assert entry["aer"] == pytest.approx(1 - 2 * right / (total + sum(lengths)))


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if shutil.which(name):
            return shutil.which(name)
    pytest.skip("no Chromium on PATH (Debian: apt-get install chromium)")


def test_page_opens_in_a_real_browser_without_errors(comparison, tmp_path):
    """Every figure is decoded and has an alt text, nothing is loaded from elsewhere, nothing overflows."""
    chromium = find_chromium()
    out, numbers = comparison
    html = (out / "report.html").read_text(encoding="utf-8")
    probe = """<script>
      var errors = 0;
      addEventListener("error", function () { errors++; }, true);
      addEventListener("load", function () {
        var images = Array.from(document.images);
        document.title = JSON.stringify({
          errors: errors, images: images.length, described: images.filter(i => i.alt.length > 40).length,
          drawn: images.filter(i => i.complete && i.naturalWidth > 100).length,
          elsewhere: performance.getEntriesByType("resource").filter(r => !r.name.startsWith("data:")).length,
          overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        });
      });
    </script>"""
    page = tmp_path / "probed.html"
    page.write_text(html.replace("<head>", "<head>" + probe, 1), encoding="utf-8")
    for width in (500, 1280):
        command = [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={width},900", "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom",
            page.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=180
        )
        assert done.returncode == 0, done.stderr[-2000:]
        seen = json.loads(re.search(r"<title>(\{.*?\})</title>", done.stdout).group(1))
        figures = len(numbers["figures"])
        assert figures == 6 + 2 + 4 + 3  # heat maps, comparisons, density to diversity, alpha
        assert seen == {
            "errors": 0,
            "images": figures,
            "described": figures,
            "drawn": figures,
            "elsewhere": 0,
            "overflow": 0,
        }
        assert ":CONSOLE" not in done.stderr


def test_page_needs_nothing_else(comparison):
    out, numbers = comparison
    html = (out / "report.html").read_text(encoding="utf-8")
    assert "<script" not in html and "http" not in re.sub(r"data:image/png;base64,[^\"]*", "", html)
    embedded = re.findall(r'src="data:image/png;base64,([^"]*)"', html)
    files = [(out / figure["file"]).read_bytes() for figure in numbers["figures"]]
    assert sorted(map(base64.b64decode, embedded)) == sorted(files)


def test_bad_input_ends_with_one_line(trained, toy_data, toy_prepared, tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.write_text("elf .\n\nelf .\n", encoding="utf-8")
    long = tmp_path / "long"
    long.write_text("elf " * 1100 + "\n", encoding="utf-8")
    language_model = tmp_path / "lm.pt"
    state = torch.load(trained["topk"], map_location="cpu")
    state["model"] = {name: value for name, value in state["model"].items() if not name.startswith("encoder.")}
    torch.save(state, language_model)
    other = tmp_path / "other"
    shutil.copytree(str(toy_data), str(other))
    for language in ("de", "en"):
        lines = (other / f"dict.{language}.txt").read_text(encoding="utf-8").splitlines()
        (other / f"dict.{language}.txt").write_text("\n".join(lines[:-2]) + "\n", encoding="utf-8")
    swapped = tmp_path / "swapped"
    shutil.copytree(str(toy_data), str(swapped))
    lines = (swapped / "dict.en.txt").read_text(encoding="utf-8").splitlines()
    (swapped / "dict.en.txt").write_text("\n".join(lines[::-1]) + "\n", encoding="utf-8")
    gold = tmp_path / "gold"
    gold.write_text("1-99\n" + "\n" * 12, encoding="utf-8")
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").touch()

    topk = trained["topk"]
    for arguments, expected in (
        ([language_model], "lm.pt: no encoder"),
        ([tmp_path / "none.pt"], "none.pt: no such checkpoint"),
        ([empty], "empty: cannot be read as a checkpoint"),
        ([topk, "--head", "7"], "--head 7: no head at cross '7'; there are 0 to 1"),
        ([topk, "--layer", "1"], "--layer 1: no layer at cross '1'"),
        ([topk, "--site", "self"], "--site self: no site 'self'"),
        ([topk, "--sentences", "13"], "--sentences 13: no sentence '13'; there are 0 to 12"),
        ([topk, "--input", long], "its source has 1101 tokens, and .* takes 1024"),
        ([topk, "--input", empty], "empty, line 2: empty"),
        ([topk, "--data", other], "other has another vocabulary than"),
        ([topk, "--data", swapped], "swapped has another vocabulary than"),
        ([topk, "--data", toy_prepared], "not a folder of fairseq-preprocess"),
        ([topk, "--gen-subset", "none"], "--gen-subset none"),
        ([topk, trained["dense"]], "2 checkpoints: give --compare"),
        ([topk, "--compare"], "--compare needs two"),
        ([topk, "--course", topk], "learns no alpha"),
        ([topk, "--gold", gold], "gold, line 1: link 1-99"),
        ([topk, "--align", "0:2"], "--align 2: no head in layer 0"),
        ([topk, "--out", full], "holds other files than a report"),
    ):
        argv = [*arguments, "--cpu"]
        argv += [] if "--data" in arguments else ["--data", toy_data]
        argv += [] if "--out" in arguments else ["--out", tmp_path / "never"]
        assert report.main(argv) == 1, arguments
        error = capsys.readouterr().err
        assert re.search("^error: .*" + expected, error, re.MULTILINE), error
        assert error.strip().count("\n") == 0, error
        assert not (tmp_path / "never").exists()


def test_a_failed_picture_leaves_the_old_report(trained, toy_data, tmp_path, monkeypatch):
    out = tmp_path / "report"
    assert report.main([trained["topk"], "--data", toy_data, "--out", out, "--cpu"]) == 0
    before = (out / "report.json").read_bytes()
    monkeypatch.setattr(report.page, "render", lambda *_: (_ for _ in ()).throw(ToolError("no ink")))
    assert report.main([trained["topk"], "--data", toy_data, "--out", out, "--cpu"]) == 1
    assert (out / "report.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_missing_library_ends_with_one_line(library, trained, toy_data, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, library, None)
    assert report.main([trained["topk"], "--data", toy_data, "--out", tmp_path / "report"]) == 1
    assert capsys.readouterr().err == f"error: a report needs {library}: pip install matplotlib jinja2\n"
