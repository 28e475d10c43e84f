"""The benchmark of whole models at tiny sizes: that it runs, and what it measures."""
import importlib
import json
import logging
import random
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "translate.py"
SYSTEMS = ["fairseq dense", "our dense", "top-k 8", "sparsemax", "1.5-entmax", "alpha-entmax", "ReLA"]


@pytest.fixture
def translate(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "0")  # or main would start Python again with these
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000000000")
    yield importlib.import_module("translate")
    logging.disable(logging.NOTSET)


@pytest.fixture
def run(translate, monkeypatch):
    """A function that calls the command in this process."""

    def call(*options):
        monkeypatch.setattr(sys, "argv", ["translate.py", *map(str, options)])
        translate.main()

    return call


def test_joined_lines_have_the_lengths_that_were_asked_for(translate):
    generator, end = random.Random(3), 2
    pairs = [
        tuple(torch.tensor([100 * line + i for i in range(generator.randint(3, 9))] + [end]) for _ in range(2))
        for line in range(1, 40)
    ]
    wanted = [5, 30, 12, 7]
    found = translate.joined(pairs, iter(wanted + [1000]))
    assert [[len(side) for side in pair] for pair in found] == [[size, size] for size in wanted]
    for source, target in found:
        assert source[-1] == target[-1] == end and end not in source[:-1]
        assert source[0] == target[0]  # both sides begin with the same line
    lengths = translate.lengths_of("documents")
    drawn = [next(lengths) for _ in range(200)]
    assert min(drawn) >= 256 and max(drawn) <= 512 and len(set(drawn)) > 50


@pytest.mark.slow
def test_every_system_is_measured_beside_stock(run, tmp_path, toy_prepared, capsys):
    output = tmp_path / "out.json"
    run(
        "--data", toy_prepared, "--widths", "8", "--heads", "2", "--layers", "1", "--lengths", "data,9", "--beam", "2",
        "--max-tokens", "60", "--batches", "2", "--rounds", "1", "--output", output,
    )  # fmt: skip
    written, printed = json.loads(output.read_text(encoding="utf-8")), capsys.readouterr().out
    results = written["results"]
    assert [(record["lengths"], record["system"]) for record in results] == [
        (mode, system) for mode in ("data", "9") for system in SYSTEMS
    ]
    assert all(record["decoded_tokens"] == 9 for record in results if record["lengths"] == "9")
    assert all(record[f"{kind}_tokens_per_second"] > 0 for record in results for kind in ("train", "decode"))
    assert all(record["decode_ratio"] == 1 for record in results if record["system"] == SYSTEMS[0])
    assert written["environment"]["threads"] == 1
    for system in SYSTEMS:
        assert printed.count(f"| {system} |") == 2


@pytest.mark.parametrize(
    "options, message",
    [
        (["--data", "nowhere"], "no prepared data in nowhere; make the demo's with: bash scripts/prepare/demo.sh"),
        (["--lengths", "data,long"], "long is neither data nor documents nor a number of tokens"),
        (["--systems", "top-k 9"], "top-k 9 is none of: fairseq dense; "),
    ],
)
def test_errors_say_what_to_do(run, options, message, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*options)
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_memory_settings_of_the_scripts_are_taken_over(translate, monkeypatch):
    started = []
    monkeypatch.setattr(translate.os, "execve", lambda *arguments: started.append(arguments))
    translate.keep_memory()
    assert not started  # they are set already
    monkeypatch.delenv("MALLOC_MMAP_MAX_")
    translate.keep_memory()
    ((_, command, environment),) = started
    assert command == [sys.executable, *sys.argv] and environment["MALLOC_MMAP_MAX_"] == "0"
    settings = (ROOT / "scripts" / "lib.sh").read_text(encoding="utf-8")
    for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"):
        assert f'{name}="${{{name}:-{environment[name]}}}"' in settings
