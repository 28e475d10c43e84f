"""The pilot's losses are those of the logs, and docs/training.md shows the committed ones."""

import json
from pathlib import Path

from explicit_sparse.tools import pilot

ROOT = Path(__file__).resolve().parents[2]
LOG = """$ fairseq-train prepared/bin --topk {k}
2026-01-01 | INFO | train_inner | {{"epoch": 1, "loss": "9", "num_updates": "50"}}
2026-01-01 | INFO | valid | {{"epoch": 1, "valid_loss": "9.5", "valid_num_updates": "200"}}
2026-01-01 | INFO | valid | {{"epoch": 1, "valid_loss": "{last}", "valid_num_updates": "400"}}
"""


def write(folder, name, k, last):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.log").write_text(LOG.format(k=k, last=last))
    return str(folder / f"{name}.log")


def test_collecting(tmp_path, capsys):
    logs = [write(tmp_path / "3e-3", "dense", 0, 8.25), write(tmp_path / "3e-3", "top-k 8", 8, 8.5)]
    assert pilot.main([*logs, "--json", str(tmp_path / "out.json")]) == 0
    printed = capsys.readouterr().out
    assert "| 3e-3 | dense | 9.500 | 8.250 | – |" in printed and "| 3e-3 | top-k 8 | 9.500 | 8.500 | +0.250 |" in printed
    run = json.loads((tmp_path / "out.json").read_text())["runs"][1]
    assert run["command"] == "fairseq-train prepared/bin --topk 8" and run["curve"][1] == {"update": 400, "valid_loss": 8.5}
    assert pilot.main(["--show", str(tmp_path / "out.json")]) == 0
    assert capsys.readouterr().out == printed


def test_a_log_without_validation_is_named(tmp_path, capsys):
    (tmp_path / "x.log").write_text("nothing\n")
    assert pilot.main([str(tmp_path / "x.log")]) == 1
    assert f"error: {tmp_path / 'x.log'}: holds no validation" in capsys.readouterr().err


def test_the_page_shows_the_committed_losses():
    committed = json.loads((ROOT / "results" / "pilot.json").read_text(encoding="utf-8"))
    assert pilot.as_markdown(committed) in (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
