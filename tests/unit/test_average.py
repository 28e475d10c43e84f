import argparse
import json

import pytest
import torch

from explicit_sparse.tools import average as tool


def save(path, value, dtype=torch.float32, **extra):
    model = {"weight": torch.full((2, 3), value, dtype=dtype), "count": torch.tensor([int(value)])}
    # fairseq's checkpoints hold the options as a Namespace, which torch >= 2.6 refuses unless it is allowed.
    torch.save(
        {"model": {**model, **extra}, "args": argparse.Namespace(arch="x"), "last_optimizer_state": {"big": 1}}, path
    )


@pytest.fixture
def epochs(tmp_path):
    for epoch in (1, 2, 3, 10):
        save(tmp_path / f"checkpoint{epoch}.pt", float(epoch))
    for update in (100, 200, 1000):
        save(tmp_path / f"checkpoint_1_{update}.pt", float(update))
    for name in ("checkpoint_best.pt", "checkpoint_last.pt", "checkpoint.best_loss_3.1.pt"):
        save(tmp_path / name, 99.0)
    return tmp_path


def names(paths):
    return [path.name for path in paths]


def test_last_by_epoch_is_numeric(epochs):
    assert names(tool.last_checkpoints(epochs, 2)) == ["checkpoint3.pt", "checkpoint10.pt"]


def test_last_by_update(epochs):
    assert names(tool.last_checkpoints(epochs, 2, by="update")) == ["checkpoint_1_200.pt", "checkpoint_1_1000.pt"]


def test_upper_bound(epochs):
    assert names(tool.last_checkpoints(epochs, 2, up_to=3)) == ["checkpoint2.pt", "checkpoint3.pt"]


def test_too_few_says_how_many_there_are(epochs):
    with pytest.raises(ValueError, match="holds 3.*--keep-last-epochs"):
        tool.last_checkpoints(epochs, 4, up_to=3)


def test_mean_and_what_is_kept(epochs):
    state = tool.average([epochs / "checkpoint1.pt", epochs / "checkpoint2.pt"])
    assert torch.equal(state["model"]["weight"], torch.full((2, 3), 1.5))
    assert state["model"]["count"].item() == 2  # no floating point: the newest
    assert state["args"].arch == "x"
    assert "last_optimizer_state" not in state


def test_sum_is_wider_than_the_parameters(tmp_path):
    # 1 + 2^-24 is lost when summed in float32, 2048 + 1 when summed in float16.
    for dtype, large, small in ((torch.float32, 1.0, 2.0**-24), (torch.float16, 2048.0, 1.0)):
        paths = [tmp_path / f"{index}.pt" for index in range(3)]
        for path, value in zip(paths, (large, small, small)):
            save(path, value, dtype)
        weight = tool.average(paths)["model"]["weight"]
        assert weight.dtype == dtype
        expected = torch.tensor((large + 2 * small) / 3, dtype=torch.float64).to(dtype)
        assert weight[0, 0] == expected


def test_one_checkpoint_is_returned_unchanged(epochs):
    assert torch.equal(tool.average([epochs / "checkpoint3.pt"])["model"]["weight"], torch.full((2, 3), 3.0))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"weight": torch.zeros(2, 4)}, r"parameter 'weight' has shape \[2, 4\] in .*b\.pt, but \[2, 3\] in .*a\.pt"),
        ({"weight": torch.zeros(2, 3).half()}, "parameter 'weight' has dtype torch.float16"),
        ({"other": torch.zeros(1)}, r"b\.pt has the parameter 'other', .*a\.pt has not"),
    ],
)
def test_mixed_checkpoints_are_refused(tmp_path, change, message):
    save(tmp_path / "a.pt", 1.0)
    save(tmp_path / "b.pt", 1.0, **change)
    with pytest.raises(ValueError, match=message):
        tool.average([tmp_path / "b.pt", tmp_path / "a.pt"])


def test_something_else_is_refused(tmp_path):
    torch.save({"weight": torch.zeros(1)}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="x.pt: not a fairseq checkpoint"):
        tool.average([tmp_path / "x.pt"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_diverged_checkpoints_are_refused(tmp_path, value):
    for name, poison in (("a.pt", 1.0), ("b.pt", value)):
        state = torch.load(save(tmp_path / name, 1.0) or tmp_path / name)
        state["model"]["weight"][0, 0] = poison
        torch.save(state, tmp_path / name)
    for paths in (["a.pt", "b.pt"], ["b.pt", "a.pt"]):
        with pytest.raises(ValueError, match="b.pt: parameter 'weight' holds NaN or infinity.*--up-to"):
            tool.average([tmp_path / path for path in paths])


def test_command_line(epochs, capsys):
    tool.main([str(epochs), "--output", str(epochs / "average.pt"), "--last", "2", "--up-to", "3"])
    assert torch.load(epochs / "average.pt")["model"]["weight"][0, 0] == 2.5
    report = json.loads((epochs / "average.json").read_text())
    assert report["averaged"] == ["checkpoint2.pt", "checkpoint3.pt"] and report["chosen_on"] is None
    assert "--last 2 --up-to 3" in report["command"]
    assert not list(epochs.glob("*.partial"))
    assert "checkpoint2.pt, checkpoint3.pt" in capsys.readouterr().out


def test_failure_leaves_nothing(epochs, capsys):
    assert tool.main([str(epochs), "--output", str(epochs / "average.pt"), "--last", "9"]) == 1
    assert capsys.readouterr().err.startswith("error: 9 checkpoints by epoch are asked for")
    assert not list(epochs.glob("average*"))


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--last", "0"], "above 0"),
        (["--last", "1,2"], "--select-on valid"),
        (["--last", "2", "--up-to", "3,4"], "--select-on valid"),
        (["--last", "1", "--select-on", "test"], "invalid choice"),
        (["--last", "1,2", "--select-on", "valid"], "--prepared"),
    ],
)
def test_impossible_flags(tmp_path, flags, message, capsys):
    with pytest.raises(SystemExit):
        tool.main([str(tmp_path), "--output", str(tmp_path / "a.pt"), *flags])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("by, best", [("loss", 2), ("bleu", 3)])
def test_window_is_chosen_on_the_validation_set(epochs, monkeypatch, by, best):
    measured = []

    def measure(checkpoint, prepared, flags):
        # A candidate's weight is the mean of its epochs: 10, 6.5 and 5.
        measured.append(torch.load(checkpoint)["model"]["weight"][0, 0].item())
        return {10.0: 4.0, 6.5: 3.0, 5.0: 5.0}[measured[-1]]

    monkeypatch.setitem(tool.MEASURES, by, (measure, tool.MEASURES[by][1]))
    flags = ["--last", "1,2,3", "--select-on", "valid", "--select-by", by, "--prepared", str(epochs)]
    tool.main([str(epochs), "--output", str(epochs / "average.pt"), *flags])
    report = json.loads((epochs / "average.json").read_text())
    assert measured == [10.0, 6.5, 5.0]
    assert len(report["averaged"]) == best and report["chosen_on"] == "valid"
    assert [candidate["last"] for candidate in report["candidates"]] == [1, 2, 3]
    assert not list(epochs.glob(".average-*"))


def test_windows_may_end_at_several_epochs(epochs, monkeypatch):
    loss = {2.5: 4.0, 3.5: 3.0}  # a candidate's weight is the mean of its epochs
    measure = lambda checkpoint, prepared, flags: loss[torch.load(checkpoint)["model"]["weight"][0, 0].item()]
    monkeypatch.setitem(tool.MEASURES, "loss", (measure, min))
    flags = ["--last", "2", "--up-to", "3,4", "--select-on", "valid", "--prepared", str(epochs)]
    with_four = torch.load(epochs / "checkpoint3.pt")
    with_four["model"] = {name: value * 0 + 4 for name, value in with_four["model"].items()}
    torch.save(with_four, epochs / "checkpoint4.pt")
    tool.main([str(epochs), "--output", str(epochs / "average.pt"), *flags])
    report = json.loads((epochs / "average.json").read_text())
    assert report["averaged"] == ["checkpoint3.pt", "checkpoint4.pt"]
    assert torch.load(epochs / "average.pt")["model"]["weight"][0, 0] == 3.5
