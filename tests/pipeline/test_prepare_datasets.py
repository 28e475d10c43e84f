"""Every data set from a server that drops connections to binarised data; then experiments on some of them."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from original_archives import ALL, build, iwslt15_en_vi, sentences, wmt14_en_de, wmt16_en_ro

from bad_server import serving

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--unverified", "--vocab-size", "60", "--workers", "2"]


@pytest.fixture(scope="session")
def prepared_root(tmp_path_factory):
    return tmp_path_factory.mktemp("prepared-data")


@pytest.fixture(scope="session")
def user_environment(outside_environment, prepared_root):
    return dict(outside_environment, DATA_ROOT=str(prepared_root), no_proxy="127.0.0.1", NO_PROXY="127.0.0.1")


def call(environment, script, *arguments, status=0):
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment,
        cwd=environment["DATA_ROOT"],
    )
    assert done.returncode == status, done.stderr[-3000:]
    return done


def lines(path):
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, user_environment, prepared_root):
    """prepared(NAME) prepares a data set once, from the worst of servers, and returns (folder, messages, requests)."""
    done = {}

    def prepare(name):
        if name not in done:
            folder = build(tmp_path_factory.mktemp("served"), ALL[name]())
            extra = ["--bpe", "sentencepiece"] if name == "iwslt15.en-vi" else []
            with serving(folder) as server:
                origins = [flag for kind in ("gone", "portal", "drops") for flag in ("--from", f"{server.url}/{kind}")]
                result = call(user_environment, f"prepare/{name}.sh", *origins, *SMALL, *extra)
                done[name] = prepared_root / name, result.stderr, list(server.requests)
        return done[name]

    return prepare


EXPECTED = {
    # As sacremoses and the made-up sentences have it: train, valid and tests.
    "iwslt14.de-en": {"train": 98, "valid": 4, "test": 20},
    "iwslt15.en-vi": {"train": 79, "valid": 6, "test": 5},
    "wmt14.en-de": {"train": 110, "valid": 7, "test": 10},
    "iwslt17.fr-en": {"train": 80, "valid": 3, "test": 18, "test1": 4},
    "wmt16.en-ro": {"train": 80, "valid": 6, "test": 5},
    "iwslt17.de-en": {"train": 80, "valid": 3, "test": 18, "test1": 4},
    "kftt.ja-en": {"train": 80, "valid": 6, "test": 5},
    "multi30k.de-en": {"train": 80, "valid": 6, "test": 5},
    "open.de-en": {"train": 80, "valid": 6, "test": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ALL))
def test_a_data_set_from_link_to_binarised(prepared, name):
    folder, messages, requests = prepared(name)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert {subset: entry["pairs"] for subset, entry in manifest["subsets"].items()} == EXPECTED[name]

    # Its first mirror said 404, the second sent a web page, the third broke off and went on.
    for words in ("HTTP 404", "web page", "from byte"):
        assert words in messages
    assert any(wanted for path, wanted in requests if path.startswith("/drops"))

    source, target = manifest["source_lang"], manifest["target_lang"]
    for subset, entry in manifest["subsets"].items():
        for language in (source, target):
            assert len(lines(folder / "tok" / f"{subset}.{language}")) == entry["pairs"]
            assert (folder / "bin" / f"{subset}.{source}-{target}.{language}.idx").is_file()
            if subset != "train":
                assert len(lines(folder / "ref" / f"{subset}.{language}")) == entry["pairs"]
        assert subset == "train" or len(entry["sha256_reference"]) == 64
    joined = (folder / "bin" / f"dict.{source}.txt").read_bytes() == (
        folder / "bin" / f"dict.{target}.txt"
    ).read_bytes()
    assert joined == (name != "iwslt14.de-en")
    assert (folder / ("spm.model" if manifest["bpe"] == "sentencepiece" else "codes")).is_file()
    assert {entry["name"] for entry in manifest["inputs"]} and all(
        len(entry["sha256"]) == 64 for entry in manifest["inputs"]
    )
    assert not list(folder.parent.glob(f".{name}.work"))


@pytest.mark.slow
def test_iwslt14_is_fairseqs_recipe(prepared):
    folder, _, _ = prepared("iwslt14.de-en")
    assert "It’s R&amp;D, he said." in lines(folder / "ref" / "test.en")
    assert "it &apos;s r &amp; amp ; d , he said ." in lines(folder / "tok" / "test.en")
    # Titles and descriptions stay, so do the speakers' tag lines; addresses, numbers and keywords go.
    train = (folder / "tok" / "train.en").read_text(encoding="utf-8")
    assert "ted talk : " in train and "&lt; speaker &gt;" in train
    assert not any(word in train for word in ("http", "keywords", "talkid", "<", "title"))
    # Every 23rd pair of the cleaned text, in order.
    valid, kept = lines(folder / "tok" / "valid.en"), lines(folder / "tok" / "train.en")
    raw = [pair[1].lower().replace(".", " .") for pair in sentences(92, 14, ("de", "en"))]
    assert len(valid) == (len(valid) + len(kept)) // 23
    assert [line for line in valid if line in raw] and not set(valid) & set(kept[:22])
    assert lines(folder / "ref" / "valid.en")[0].lower().rstrip(".") == valid[0].replace(" .", "").rstrip(".")


@pytest.mark.slow
def test_a_second_call_does_nothing(prepared, user_environment):
    folder, _, _ = prepared("multi30k.de-en")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = call(user_environment, "prepare/multi30k.de-en.sh", *SMALL)
    assert "prepared before" in done.stderr and done.stdout.strip() == str(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    # Another vocabulary is another data set.
    done = call(user_environment, "prepare/multi30k.de-en.sh", "--unverified", "--vocab-size", "61", status=1)
    assert "vocab_size 60 there, 61 now" in done.stderr and "--force" in done.stderr


TINY = (
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 16 --decoder-ffn-embed-dim 16 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2 --encoder-layers 1 --decoder-layers 1"
).split()
# Several updates in the first epoch, so that checkpoints are saved between epochs.
BY_UPDATE = "--max-tokens 200 --update-freq 1 --max-update 11 --save-interval-updates 1".split()


@pytest.mark.slow
@pytest.mark.parametrize(
    "config, recipe, flags",
    [
        ("iwslt14.de-en/topk8", "fairseq", ["--max-epoch", "2"]),
        ("iwslt15.en-vi/topk6-self", "paper", BY_UPDATE),
        ("wmt14.en-de/entmax15", "paper", BY_UPDATE),
        ("iwslt17.fr-en/window-8", "paper", ["--max-epoch", "5"]),
        ("wmt16.en-ro/topk2", "paper", BY_UPDATE),
        ("iwslt17.de-en/rela", "paper", BY_UPDATE),
        ("kftt.ja-en/entmax", "paper", BY_UPDATE),
        ("multi30k.de-en/sparsemax", "paper", ["--max-epoch", "3"]),
    ],
)
def test_an_experiment_from_data_to_scores(prepared, user_environment, config, recipe, flags):
    dataset, experiment = config.split("/")
    folder, _, _ = prepared(dataset)
    done = call(dict(user_environment, RECIPE=recipe), "run.sh", config, "--", *TINY, *flags)
    assert "effective batch: at most" in done.stderr
    if recipe == "fairseq":
        experiment += ".fairseq"
    run = json.loads((Path(user_environment["RUNS_ROOT"]) / dataset / experiment / "seed1" / "run.json").read_text())
    assert run["test"]["test"]["sentences"] == EXPECTED[dataset]["test"]
    assert "tok:13a" in run["test"]["test"]["bleu"]["signature"]
    assert ("compound split" in run["test"]["test"]["tokenised_bleu"]["label"]) == (dataset == "wmt14.en-de")
    assert ("lowercased" in run["test"]["test"]["tokenised_bleu"]["label"]) == (
        dataset in ("iwslt14.de-en", "multi30k.de-en")
    )


# ---------------------------------------------------------------- other sources, other options: up to the tokens


@pytest.fixture
def extracted(tmp_path, monkeypatch):
    """extracted(NAME, FILES, *OPTIONS) prepares in this process, without the costly last steps; returns the folder."""
    from explicit_sparse.tools.prepare import pipeline
    from explicit_sparse.tools.prepare.__main__ import main

    monkeypatch.setattr(pipeline, "binarise", lambda *arguments, **options: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def prepare(name, files, *options):
        folder = build(tmp_path / "archives", files)
        out = tmp_path / f"out{len(os.listdir(tmp_path))}"
        assert main([name, "--from", str(folder), "--out", str(out), *SMALL, *options]) == 0
        return out

    return prepare


def test_en_vi_from_stanfords_plain_files(extracted):
    out = extracted("iwslt15.en-vi", iwslt15_en_vi(mirror=False))
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["tokenizer"] == "none" and len(manifest["inputs"]) == 6
    assert manifest["subsets"]["train"]["dropped or repaired"] == {"empty line": 1}


def test_en_vi_as_words(extracted):
    out = extracted("iwslt15.en-vi", iwslt15_en_vi(), "--bpe", "none")
    assert json.loads((out / "manifest.json").read_text(encoding="utf-8"))["bpe"] == "none"
    assert not (out / "codes").exists()


def test_wmt14_from_the_mirrors_zip(extracted):
    out = extracted("wmt14.en-de", wmt14_en_de("zip"))
    inputs = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["inputs"]
    assert "training-parallel-europarl-v7.zip" in [entry["name"] for entry in inputs]
    assert len(lines(out / "tok" / "train.de")) == 110
    assert lines(out / "ref" / "test.de")[-1] == "Sag „A-B“ &amp; C."  # as sacreBLEU has it


def test_wmt14_rebuilt_as_googles(extracted):
    out = extracted("wmt14.en-de", wmt14_en_de(), "--rebuild-google")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["options"]["variant"] == "rebuild-google" and manifest["options"]["clean"] == [1, 80, 9.0]
    assert manifest["subsets"]["train"]["pairs"] == 115


@pytest.mark.parametrize("how, word", [("keep", "roşie"), ("normalise", "roșie"), ("strip", "rosie")])
def test_romanian_spelling_is_an_option(extracted, how, word):
    out = extracted("wmt16.en-ro", wmt16_en_ro(organisers=False), "--romanian", how)
    assert word in (out / "tok" / "train.ro").read_text(encoding="utf-8")
    assert "roşie" in (out / "ref" / "test.ro").read_text(encoding="utf-8")  # a reference is never changed


@pytest.mark.slow
def test_kftt_keeps_the_japanese_segmentation_and_scores_english_text(prepared):
    folder, _, _ = prepared("kftt.ja-en")
    assert " " in lines(folder / "tok" / "test.ja")[0]
    assert lines(folder / "ref" / "test.en")[0].endswith(".") and lines(folder / "tok" / "test.en")[0].endswith(" .")
