"""The table tool's curves: they hold something, and need no display."""

import builtins

import pytest
from table_runs import GOOD, POOR, make_run

from explicit_sparse.tools.table import __main__ as table
from explicit_sparse.tools.table.plot import (
    _curve,
    _draw_loss,
    _draw_speed,
    _draw_sweep,
    _panels,
    _sweep,
)

matplotlib_image = pytest.importorskip("matplotlib.image")


def plot(folder, path):
    options = ["--paired", "none", "--output", str(folder / "table"), "--plot", str(path)]
    return table.main([str(folder / "runs"), *options])


def sweep(folder):
    for seed, texts in ((1, GOOD), (2, POOR)):
        for system, speed in (("dense", 1000), ("top-k 4", 950), ("top-k 16", 900), ("sparsemax", 500)):
            make_run(folder, system, seed, texts, speed=speed)


def test_three_panels_in_a_row(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    sweep(tmp_path)
    assert plot(tmp_path, tmp_path / "curves.png") == 0
    image = matplotlib_image.imread(str(tmp_path / "curves.png"))
    assert image.shape[1] > 1500 and image.shape[0] > 300
    for part in range(3):  # every third of the image has ink, of several colours
        third = image[:, part * image.shape[1] // 3 : (part + 1) * image.shape[1] // 3, :3]
        assert (third.min(axis=2) < 0.5).mean() > 0.005
        assert len({tuple(colour) for colour in third.reshape(-1, 3).round(1).tolist()}) > 5
    assert not list(tmp_path.glob("*.partial"))


def test_what_the_panels_show(tmp_path):
    sweep(tmp_path)
    (content,) = table.tabulate(table.make_parser().parse_args([str(tmp_path / "runs"), "--paired", "none"]))
    assert [k for k, _ in _sweep(content)] == [4, 16, None]  # sparsemax is no point of the sweep
    assert _curve(content.rows[0].runs[0]) == [(100, 4.5), (200, 4.0), (300, 3.5)]
    assert _panels(content) == [_draw_sweep, _draw_loss, _draw_speed]


def test_one_k_beside_dense_is_no_sweep(tmp_path):
    for system in ("dense", "top-k 8", "sparsemax"):
        make_run(tmp_path, system)
    (content,) = table.tabulate(table.make_parser().parse_args([str(tmp_path / "runs"), "--paired", "none"]))
    assert _panels(content) == [_draw_loss, _draw_speed]


def test_a_single_run_has_its_loss_only(tmp_path):
    make_run(tmp_path, "top-k 8")
    assert plot(tmp_path, tmp_path / "loss.svg") == 0
    assert (tmp_path / "loss.svg").stat().st_size > 5000


def test_nothing_to_plot(tmp_path, capsys):
    make_run(tmp_path, "top-k 8", train__curve=[])
    assert plot(tmp_path, tmp_path / "curves.png") == 1
    assert "curves.png: nothing to plot" in capsys.readouterr().err
    assert not (tmp_path / "curves.png").exists() and not (tmp_path / "table").exists()


def test_unknown_kind_of_image(tmp_path, capsys):
    make_run(tmp_path, "top-k 8")
    assert plot(tmp_path, tmp_path / "curves.doc") == 1
    assert "curves.doc" in capsys.readouterr().err
    assert not list(tmp_path.glob("curves*"))


def test_without_matplotlib(tmp_path, capsys, monkeypatch):
    make_run(tmp_path, "top-k 8")
    real_import = builtins.__import__

    def no_matplotlib(name, *rest, **more):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real_import(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    assert plot(tmp_path, tmp_path / "curves.png") == 1
    assert capsys.readouterr().err == "error: --plot needs matplotlib: pip install matplotlib\n"
