"""The demo's corpus and its preparation."""
import importlib.util
import json
import lzma
import os
import re
from pathlib import Path

import pytest

from explicit_sparse.tools import prepare_demo

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "data" / "demo"


def verses(subset):
    with lzma.open(CORPUS / f"{subset}.tsv.xz", "rt", encoding="utf-8", newline="\n") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def test_the_corpus_is_split_by_chapter_and_small():
    subsets = {subset: verses(subset) for subset in ("train", "valid", "test")}
    assert {name: len(rows) for name, rows in subsets.items()} == {"train": 16184, "valid": 644, "test": 626}
    chapters = {name: {row[0] for row in rows} for name, rows in subsets.items()}
    assert not chapters["train"] & (chapters["valid"] | chapters["test"]) and not chapters["valid"] & chapters["test"]
    for column in (1, 2):
        seen = {row[column] for row in subsets["train"]}
        assert not seen & {row[column] for name in ("valid", "test") for row in subsets[name]}
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) < 2_000_000
    assert (CORPUS / "NOTICE").exists()


def test_the_split_is_what_the_script_makes(tmp_path):
    """Its input is every verse of both Bibles; here, what is kept of it."""
    spec = importlib.util.spec_from_file_location("build_demo", CORPUS / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    chapters = [(f"1.{number}", f"Vers {number}", f"verse {number}") for number in range(1, 61)]
    repeated = [("1.1", "Vers 15", "verse fifteen"), ("1.2", "wort " * 26, "word")]
    subsets = build.split_by_chapter(sorted(chapters + repeated, key=lambda row: int(row[0][2:])), 25)
    assert [row[0] for row in subsets["valid"]] == ["1.15", "1.45"]
    assert [row[0] for row in subsets["test"]] == ["1.30", "1.60"]
    assert sorted(subsets["train"]) == sorted(row for row in chapters if row[0] not in ("1.15", "1.45", "1.30", "1.60"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A corpus of the same files with few verses, prepared."""
    corpus = tmp_path_factory.mktemp("corpus")
    for subset, count in (("train", 300), ("valid", 21), ("test", 13)):
        text = "".join("\t".join(row) + "\n" for row in verses(subset)[:count])
        (corpus / f"{subset}.tsv.xz").write_bytes(lzma.compress(text.encode("utf-8")))
    out = corpus / "prepared" / "demo"
    prepare_demo.main(["--corpus", str(corpus), "--out", str(out), "--merges", "200"])
    return corpus, out


def test_preparation(small):
    _, out = small
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["source_lang"], manifest["target_lang"], manifest["bpe"]) == ("de", "en", "subword-nmt")
    assert {name: subset["pairs"] for name, subset in manifest["subsets"].items()} == {
        "train": 300, "valid": 21, "test": 13,
    }  # fmt: skip
    assert (out / "ref" / "test.en").read_text(encoding="utf-8").splitlines() == [row[2] for row in verses("test")[:13]]
    assert (out / "bin" / "train.de-en.de.idx").exists() and (out / "codes").exists()
    assert [path.name for path in out.parent.iterdir() if path.name != "demo"] == [".demo.lock"]


def test_a_second_call_does_nothing(small):
    corpus, out = small
    before = os.stat(out / "manifest.json").st_mtime_ns
    prepare_demo.main(["--corpus", str(corpus), "--out", str(out), "--merges", "200"])
    assert os.stat(out / "manifest.json").st_mtime_ns == before


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    "content, complaint",
    [
        ({"thesis.txt": "years of work"}, "has files in it but no manifest.json"),
        ({"thesis.txt": "years of work", "manifest.json": '{"name": "an app"}'}, "is not the manifest of prepared data"),
        ({"manifest.json": "[]"}, "is not the manifest of prepared data"),
        ({"manifest.json": "{"}, "not valid JSON"),
        (
            {"manifest.json": '{"format": 1, "dataset": "toy", "subsets": {}, "options": {}}'},
            "holds the data set toy, not demo",
        ),
    ],
)
def test_nothing_is_deleted_that_was_not_made_here(small, tmp_path, capsys, monkeypatch, content, complaint, force):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    for out in (str(tmp_path), "."):
        assert prepare_demo.main(["--corpus", str(small[0]), "--out", out, "--merges", "200", *force]) == 1
        assert complaint in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == content


def test_a_prepared_folder_that_somebody_uses_is_not_made_anew(small, tmp_path, capsys):
    manifest = {"format": 1, "dataset": "demo", "subsets": {}, "options": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "thesis.txt").write_text("years of work")
    command = ["--corpus", str(small[0]), "--out", str(tmp_path), "--merges", "200"]
    assert prepare_demo.main(command) == 0  # prepared before
    assert prepare_demo.main([*command, "--force"]) == 1
    assert "holds thesis.txt, which preparing demo did not write" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_failure_leaves_nothing(small, tmp_path, capsys):
    assert prepare_demo.main(["--corpus", str(tmp_path), "--out", str(tmp_path / "prepared" / "demo")]) == 1
    assert re.search("train.tsv.xz is missing: .*git checkout", capsys.readouterr().err)
    assert [path.name for path in (tmp_path / "prepared").iterdir()] == [".demo.lock"]
