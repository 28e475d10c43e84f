"""The benchmarks at tiny sizes: that they run, what they write, and that what they compare computes the same."""
import argparse
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
SMALL = ["--width", "16", "--heads", "2", "--rounds", "2"]
HAS_X_TRANSFORMERS = importlib.util.find_spec("x_transformers") is not None


@pytest.fixture(autouse=True)
def modules_of_the_benchmarks(monkeypatch):
    """They can be imported by name, as they import each other when run as scripts."""
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture
def attention():
    return importlib.import_module("attention")


def run(script, folder, *options):
    """Runs a benchmark; returns what it wrote to --output and what it printed."""
    output = folder / "out.json"
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *options, "--output", str(output)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(output.read_text())
    assert {"torch", "processor", "threads"} <= set(record["environment"])
    return record, done.stdout


@pytest.mark.parametrize("causal", [False, True])
def test_every_module_has_the_same_weights_and_equal_methods_equal_outputs(attention, causal):
    args = argparse.Namespace(causal=causal, device="cpu", width=16, heads=2, dropout=0.0, topk=3)
    x = torch.randn(12, 2, 16)  # (T, B, E)
    outputs = {}
    for name in attention.METHODS:
        if name.startswith("x-transformers") and not HAS_X_TRANSFORMERS:
            continue
        method = attention.METHODS[name](args, 12)
        method.module.eval()
        with torch.no_grad():
            batch_first = method.batch_first
            outputs[name] = method.attend(x.transpose(0, 1)).transpose(0, 1) if batch_first else method.attend(x)
    dense = outputs[attention.BASELINE]
    for name in outputs:
        equal = dense if name in ("torch SDPA", "softmax", attention.BASELINE) else outputs["top-k"]
        if "entmax" in name or name == "sparsemax":
            assert not torch.allclose(outputs[name], dense, atol=1e-4)
        else:
            torch.testing.assert_close(outputs[name], equal, rtol=0, atol=1e-6)
    assert not torch.allclose(outputs["top-k"], dense, atol=1e-4)


def test_a_cost_over_the_limit_is_predicted_and_skipped(attention):
    args = argparse.Namespace(topk=8, max_seconds=10, max_mb=1000)
    known = {
        "slow": [(100, 1.0, 1.0), (200, 5.0, 1.0)],  # at 400 scores 13 seconds
        "large": [(100, 1.0, 100.0), (200, 1.0, 500.0)],  # 1300 MB
        "fine": [(100, 4.0, 400.0), (200, 5.0, 500.0)],  # 7 seconds, 700 MB
        "new": [(200, 9.0, 900.0)],
    }
    found = {name: attention.obstacle(name, args, 64, 400, known) for name in known}
    assert found == {"slow": "time", "large": "memory", "fine": None, "new": None}
    assert attention.obstacle("x-transformers top-k", args, 7, 400, {}) == "k > length"


def peak_of_a_second_step():
    """MB; the memory of the first step, twice as large, must not be there for the second."""
    common = importlib.import_module("common")
    torch.ones(2**24)
    return common.peak_memory(lambda: torch.ones(2**23), "cpu")


def test_memory_is_the_peak_of_a_step(monkeypatch):
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "0")  # as scripts/lib.sh has it
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000000000")
    common = importlib.import_module("common")
    assert 30 < common.in_fresh_process(peak_of_a_second_step) < 48  # 2^23 floats are 32 MB
    assert os.environ["MALLOC_MMAP_MAX_"] == "0"


def test_slope_is_the_power():
    scaling = importlib.import_module("scaling")
    assert scaling.slope([2, 4, 16], [12, 48, 768]) == pytest.approx(2.0)


@pytest.mark.slow
def test_attention(tmp_path):
    names = ["fairseq dense", "top-k"]
    record, printed = run(
        "attention.py", tmp_path, "--lengths", "16", "--tokens", "32", "--methods", ",".join(names),
        "--causal", *SMALL,
    )  # fmt: skip
    results = record["results"]
    assert [(r["length"], r["method"]) for r in results[::2]] == [(16, name) for name in names]
    assert {r["mode"] for r in results} == {"forward", "forward+backward"}
    assert all(r["batch"] == 2 for r in results)
    assert all(r["seconds"] >= r["seconds_fastest"] > 0 and r["peak_mb"] > 0 for r in results)
    assert printed.count("| top-k |") == 4 and printed.count("(1.00)") >= 4


def test_a_skipped_method_is_marked(attention, capsys):
    measured = {"length": 25, "method": "fairseq dense", "seconds": 0.5, "peak_mb": 8.0, "skipped": None}
    skipped = {"length": 25, "method": "top-k", "skipped": "time"}
    records = [{**record, "mode": mode} for record in (measured, skipped) for mode in attention.MODES]
    attention.show(records, ["fairseq dense", "top-k"])
    printed = capsys.readouterr().out
    assert printed.count("| fairseq dense | 500.0 (1.00) |") == 2
    assert printed.count("| top-k | – (time) |") == 4


@pytest.mark.slow
def test_scaling(tmp_path):
    plot = tmp_path / "plot.png"
    record, printed = run(
        "scaling.py", tmp_path, "--lengths", "64,256", "--ks", "2,8", "--length", "64", "--plot", str(plot), *SMALL
    )
    assert set(record["by length"]["slopes"]) == {"fairseq dense", "top-k"}
    assert [(r["length"], r["k"]) for r in record["by k"]["results"]] == [(64, 2), (64, 8)]
    assert "slope" in printed
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_mappings(tmp_path):
    record, printed = run("mappings.py", tmp_path, "--batch", "2", "--heads", "1", "--lengths", "9,12", "--rounds", "2")
    assert {r["length"] for r in record["results"]} == {9, 12}
    assert len(record["results"]) == 2 * 2 * printed.split("12 keys")[0].count("x |\n")
    assert all(r["seconds"] >= r["seconds_fastest"] > 0 for r in record["results"])


def test_the_commands_of_the_page_name_options_that_exist():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python (benchmarks/\w+\.py)([^#\n]*)", page, re.MULTILINE)
    assert len(commands) >= 6
    shared = (FOLDER / "common.py").read_text(encoding="utf-8")
    for script, options in commands:
        source = (ROOT / script).read_text(encoding="utf-8") + shared
        for option in re.findall(r"--[a-z-]+", options):
            assert f'"{option}"' in source, (script, option)
