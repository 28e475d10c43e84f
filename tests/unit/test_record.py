import argparse
import json

import pytest
import torch

from explicit_sparse.tools import record

LOG = """\
$ fairseq-train {root}/prepared/demo/bin --user-dir {root}/explicit_sparse --seed 1
2026-01-01 00:00:01 | INFO | fairseq_cli.train | num. shared model params: 1,330,432 (num. trained: 1,330,432)
2026-01-01 00:00:02 | INFO | train_inner | {{"epoch": 1, "update": 0.5, "loss": "9.1", "wps": "5000", "num_updates": "50", "wall": "9"}}
2026-01-01 00:00:03 | INFO | train_inner | {{"epoch": 1, "update": 0.9, "loss": "8.1", "wps": "5200", "num_updates": "90", "wall": "18"}}
2026-01-01 00:00:04 | INFO | valid | {{"epoch": 1, "valid_loss": "7.5", "valid_num_updates": "100", "valid_wps": "99"}}
2026-01-01 00:00:04 | INFO | train | {{"epoch": 1, "train_loss": "8.9", "train_wps": "4000", "train_num_updates": "100", "train_wall": "21"}}
2026-01-01 00:00:05 | INFO | train_inner | {{"epoch": 2, "update": 1.1, "loss": "7.1", "wps": "900", "num_updates": "110", "wall": "30"}}
$ fairseq-train {root}/prepared/demo/bin --user-dir {root}/explicit_sparse --seed 1
2026-01-01 00:01:01 | INFO | fairseq_cli.train | num. shared model params: 1,330,432 (num. trained: 1,330,432)
2026-01-01 00:01:02 | INFO | train_inner | {{"epoch": 2, "update": 1.5, "loss": "6.1", "wps": "5100", "num_updates": "150", "wall": "39"}}
2026-01-01 00:01:03 | INFO | valid | {{"epoch": 2, "valid_loss": "6.5", "valid_num_updates": "200", "valid_bleu": "3.5"}}
2026-01-01 00:01:04 | INFO | train | {{"epoch": 2, "train_loss": "6.9", "train_wps": "4000", "train_num_updates": "200", "train_wall": "45"}}
"""
GENERATED = (
    "$ fairseq-generate {root}/prepared/demo/bin --beam 5\n"
    "H-0\t-0.1\tHello .\n"
    "2026-01-01 | INFO | fairseq_cli.generate | Translated 1,626 sentences (12,345 tokens) in 20.5s "
    "(31.10 sentences/s, 602.20 tokens/s)\n"
)


@pytest.fixture
def run(tmp_path):
    """A finished run's folder and the arguments of `record.assemble` for it."""
    folder, prepared = tmp_path / "seed1", tmp_path / "demo"
    folder.mkdir(), prepared.mkdir()
    (prepared / "manifest.json").write_text(json.dumps({"target_lang": "en"}))
    (folder / "train.log").write_text(LOG.format(root=record.ROOT))
    command = f"fairseq-train {record.ROOT}/prepared/demo/bin"
    (folder / "train.json").write_text(json.dumps({"command": command, "seconds": 9, "peak_memory_mb": 700}))
    average = {"averaged": ["checkpoint2.pt"], "chosen_on": None, "command": f"average {record.ROOT}/runs/demo"}
    (folder / "average.json").write_text(json.dumps(average))
    (folder / "generate-test.log").write_text(GENERATED.format(root=record.ROOT))
    scores = {"name": "x", "sentences": 2, "sha256_reference": "0", "bleu": {"score": 1.0, "signature": "s", "ci": 0.1}}
    (folder / "scores.json").write_text(json.dumps({"test": scores}))
    (folder / "support.json").write_text(json.dumps({"cross": {"support": 7.5}}))
    model = argparse.Namespace(arch="explicit_sparse_transformer_tiny", topk=8, attention_mapping=None, dropout=0.1)
    torch.save({"cfg": {"model": model}, "model": {}}, folder / "average.pt")
    return {
        "run_dir": folder, "config": tmp_path / "configs" / "demo" / "topk8.sh", "system": "top-k 8", "seed": 1,
        "model": folder / "average.pt", "prepared": prepared,
    }  # fmt: skip


def test_a_resumed_training_is_one_training(run):
    train, parameters = record.read_train_log(record.open_lines(run["run_dir"] / "train.log"))
    assert parameters == 1330432
    assert (train["updates"], train["epochs"], train["seconds"]) == (200, 2, 45)
    assert train["best_valid_loss"] == 6.5
    assert train["tokens_per_second"] == 5050  # the median: validation slowed one line down to 900
    assert train["curve"] == [
        {"update": 100, "epoch": 1, "valid_loss": 7.5, "train_loss": 8.9},
        {"update": 200, "epoch": 2, "valid_loss": 6.5, "valid_bleu": 3.5, "train_loss": 6.9},
    ]


def test_everything_a_table_needs(run):
    result = record.assemble(**run)
    assert result["format"] == 1
    assert (result["dataset"], result["experiment"], result["system"]) == ("demo", "topk8", "top-k 8")
    assert result["parameters"] == 1330432 and result["train"]["peak_memory_mb"] == 700
    assert result["options"]["arch"] == "explicit_sparse_transformer_tiny"
    assert result["options"]["topk"] == 8 and result["options"]["topk_ties"] == "keep"
    assert not {"dropout", "topk_ratio"} & set(result["options"])
    assert result["checkpoints"] == {"used": "average.pt", "averaged": ["checkpoint2.pt"], "chosen_on": None}
    test = result["test"]["test"]
    assert (test["decode_seconds"], test["decode_tokens_per_second"]) == (20.5, 602.2)
    assert test["hypotheses"] == "test.hyp" and test["reference"] == "demo/ref/test.en"
    assert result["support"] == {"cross": {"support": 7.5}}
    assert {"explicit_sparse", "python", "torch", "fairseq", "sacrebleu", "entmax"} <= set(result["versions"])
    assert set(result["hardware"]) == {"cpu", "cores", "threads", "gpu"}
    json.dumps(result)


def test_commands_do_not_hold_the_clones_place(run):
    command = record.assemble(**run)["command"]
    assert command == {
        "train": "fairseq-train prepared/demo/bin",
        "average": "average runs/demo",
        "generate": "fairseq-generate prepared/demo/bin --beam 5",
    }


def test_best_checkpoint_is_said_to_be_chosen_on_valid(run):
    (run["run_dir"] / "average.pt").rename(run["run_dir"] / "checkpoint_best.pt")
    run["model"] = run["run_dir"] / "checkpoint_best.pt"
    checkpoints = record.assemble(**run)["checkpoints"]
    assert checkpoints == {"used": "checkpoint_best.pt", "averaged": [], "chosen_on": "valid"}


def test_gpu_memory_is_what_was_not_free():
    lines = LOG.format(root="").replace('"wps": "5100"', '"wps": "5100", "gb_free": "120.5"').splitlines()
    lines.insert(1, "x | INFO | fairseq.utils | rank   0: capabilities =  9.0  ; total memory = 139.720 GB ; name = X")
    assert record.read_train_log(lines)[0]["peak_memory_mb"] == round(1024 * (139.72 - 120.5))


@pytest.mark.parametrize("missing", ["train.log", "train.json", "scores.json", "generate-test.log"])
def test_a_missing_step_is_named(run, missing, capsys):
    (run["run_dir"] / missing).unlink()
    names = ["--config", str(run["config"]), "--system", "s", "--seed", "1"]
    model, prepared = str(run["model"]), str(run["prepared"])
    assert record.main([str(run["run_dir"]), *names, "--model", model, "--prepared", prepared]) == 1
    assert capsys.readouterr().err.startswith(f"error: {run['run_dir'] / missing}: ")
    assert not list(run["run_dir"].glob("run.json*"))


def test_an_unfinished_generation_is_refused():
    with pytest.raises(ValueError, match="fairseq-generate did not finish"):
        record.read_generate_log(["H-0\t-0.1\tHello ."])


def test_another_log_format_is_refused():
    with pytest.raises(ValueError, match="--log-format json"):
        record.read_train_log(["2026 | INFO | train | epoch 001 | loss 9"])
