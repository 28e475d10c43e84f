"""Checkpoint files that are not what they should be end in one line that names them, for every tool that reads one."""

import argparse
import os

import pytest
import torch

from explicit_sparse.tools import average, checkpoints, convert, support
from explicit_sparse.tools.command import ToolError

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


def good(path, **options):
    options = argparse.Namespace(arch="transformer", _name="transformer", **options)
    torch.save({"model": {"a": torch.zeros(1000)}, "args": options}, path)
    return path


def truncated(path):
    data = good(path).read_bytes()
    path.write_bytes(data[:2000])


BAD = {
    "missing": (lambda path: None, "no such checkpoint"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "empty": (lambda path: path.touch(), "is empty"),
    "truncated": (truncated, "cannot be read as a checkpoint, truncated"),
    "text": (lambda path: path.write_text("a\nb\n"), "cannot be read as a checkpoint"),
    "pointer": (lambda path: path.write_bytes(LFS), "git lfs pull"),
    "foreign": (lambda path: torch.save({"weights": torch.zeros(1)}, path), "no entry 'model'"),
    "no dictionary": (lambda path: torch.save([1, 2], path), "no entry 'model'"),
    "code": (lambda path: good(path, adam_betas="__import__('os').getcwd()"), "adam_betas.*would run as Python"),
}
TOOLS = {
    "convert": lambda path, out: convert.main([str(path), str(out), "--to", "sparse"]),
    "support": lambda path, out: support.main([str(out.parent), "--path", str(path), "--cpu"]),
}


@pytest.mark.parametrize("kind", BAD)
def test_reading(kind, tmp_path):
    make, message = BAD[kind]
    path = tmp_path / "checkpoint1.pt"
    make(path)
    with pytest.raises(ToolError, match=message) as error:
        checkpoints.read(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_end_in_one_line_and_write_nothing(tool, kind, tmp_path, capsys):
    make, message = BAD[kind]
    path = tmp_path / "checkpoint1.pt"
    make(path)
    assert TOOLS[tool](path, tmp_path / "out" / "new.pt") == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {path}: ") and printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["empty", "truncated", "pointer"])
def test_averaging_names_the_bad_one(kind, tmp_path, capsys):
    good(tmp_path / "checkpoint1.pt")
    BAD[kind][0](tmp_path / "checkpoint2.pt")
    assert average.main([str(tmp_path), "--output", str(tmp_path / "average.pt"), "--last", "2"]) == 1
    assert f"error: {tmp_path / 'checkpoint2.pt'}: " in capsys.readouterr().err
    assert not list(tmp_path.glob("average*"))


def test_a_folder_that_is_not_there_is_made(tmp_path):
    good(tmp_path / "checkpoint1.pt")
    out = tmp_path / "no" / "such" / "average.pt"
    assert average.main([str(tmp_path), "--output", str(out), "--last", "1"]) == 0
    assert out.exists() and out.with_suffix(".json").exists()


@pytest.mark.parametrize("name", checkpoints.EVALUATED)
def test_no_option_that_fairseq_evaluates_names_another(name, tmp_path):
    """OmegaConf would put the other's text in its place, unseen."""
    torch.save({"model": {}, "cfg": {"model": {name: "${model.other}", "other": "print()"}}}, tmp_path / "a.pt")
    with pytest.raises(ToolError, match=name):
        checkpoints.read(tmp_path / "a.pt")


@pytest.mark.parametrize("name", checkpoints.EVALUATED)
def test_no_option_that_fairseq_evaluates_holds_code(name, tmp_path):
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    with pytest.raises(ToolError, match=f"its option {name} is .*would run as Python"):
        checkpoints.read(good(tmp_path / "a.pt", **{name: code}))
    torch.save({"model": {}, "cfg": {"model": {name: code}}}, tmp_path / "b.pt")
    with pytest.raises(ToolError, match=name):
        checkpoints.read(tmp_path / "b.pt")
    assert not marker.exists()


@pytest.mark.parametrize("value", ["(0.9, 0.98)", "[1000, 2000]", "1000,2000", "6", "", None, 6])
def test_plain_values_pass(value, tmp_path):
    checkpoints.read(good(tmp_path / "a.pt", adam_betas=value))


def test_every_option_that_fairseq_evaluates_where_a_transformer_is_built_is_known():
    """Read off fairseq's source: what stands in the brackets of eval() and eval_str_list() there."""
    import re
    from pathlib import Path

    import fairseq.models

    models = Path(fairseq.models.__file__).parent
    sources = [*(models / "transformer").glob("*.py"), models / "transformer_lm.py"]
    found = set()
    for source in sources:
        found |= set(re.findall(r"\beval(?:_\w+)?\(\s*(?:args|cfg|self\.cfg)\.(\w+)", source.read_text("utf-8")))
    assert {"adaptive_softmax_cutoff", "adaptive_input_cutoff", "character_filters"} <= found
    assert found <= set(checkpoints.EVALUATED)


def test_converting_keeps_what_the_file_holds(tmp_path):
    assert convert.main([str(good(tmp_path / "a.pt")), str(tmp_path / "b.pt"), "--to", "sparse", "--topk", "4"]) == 0
    options = vars(torch.load(tmp_path / "b.pt")["args"])
    assert options["arch"] == "explicit_sparse_transformer" and options["topk"] == 4
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "b.pt"]
