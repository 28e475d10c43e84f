"""The report's pictures: three looks of a cell, room for labels, glyphs or a notice."""

import pytest
import torch

from explicit_sparse.config import SiteConfig
from explicit_sparse.tools.report import glyphs
from explicit_sparse.tools.report.models import site_label, system_label

pytest.importorskip("matplotlib")

import matplotlib.image  # noqa: E402
from matplotlib import font_manager  # noqa: E402

from explicit_sparse.tools.report import figures  # noqa: E402

GREY = (0.7, 0.9)


def heat_map(queries, keys, *panels):
    return {
        "sentence": 0, "site": "cross", "layer": 0, "head": "average", "queries": queries, "keys": keys,
        "panels": [{"system": f"system {number}", "weights": weights} for number, weights in enumerate(panels)],
    }  # fmt: skip


def saturation(pixels):
    return (pixels[..., :3].max(-1) - pixels[..., :3].min(-1)).mean()


def test_exact_zero_small_weight_and_not_allowed_look_different(tmp_path):
    """Three pictures of one cell: the middle is hatched grey, coloured, or white."""
    looks = {}
    for name, weight in (("zero", 0.0), ("small", 1e-6), ("hidden", None)):
        figure, axes = figures._new(2, 2, 1, 1)
        figures._heat(axes[0][0], [[weight, 1.0]], matplotlib.colors.PowerNorm(0.5, 0, 1))
        axes[0][0].set_axis_off()
        figures._save(figure, tmp_path, name)
        image = matplotlib.image.imread(str(tmp_path / f"{name}.png"))
        looks[name] = image[image.shape[0] // 3 : image.shape[0] * 2 // 3, image.shape[1] // 8 : image.shape[1] // 3]
        assert (tmp_path / f"{name}.svg").stat().st_size > 500
    assert saturation(looks["small"]) > 0.5  # yellow
    assert saturation(looks["zero"]) < 0.02 and GREY[0] < looks["zero"][..., :3].mean() < GREY[1]
    assert looks["zero"][..., 0].std() > 0.02  # hatching
    assert looks["hidden"][..., :3].min() == 1


@pytest.mark.parametrize("tokens", [5, 60])
def test_a_cell_has_room_for_its_label_whatever_the_length(tmp_path, tokens):
    words = [f"w{number}" for number in range(tokens)]
    weights = torch.eye(tokens).tolist()
    figure = figures._draw_map(heat_map(words, words, weights, weights), tmp_path)
    image = matplotlib.image.imread(str(tmp_path / (figure.file + ".png")))
    height_of_label = figures._LABEL / 72 * figures._DPI
    across = 1 if tokens == 60 else 2  # wide panels go below each other
    assert image.shape[1] > across * tokens * height_of_label * 1.3
    assert image.shape[0] > 2 / across * tokens * height_of_label * 1.3
    assert "exactly 0" in figure.alt and "system 1" in figure.alt


def test_one_colour_scale_for_all_panels(tmp_path, monkeypatch):
    norms = []
    monkeypatch.setattr(figures, "_heat", lambda axis, weights, norm: norms.append(norm))
    figures._draw_map(heat_map(["a"], ["x", "y"], [[0.2, 0.8]], [[0.6, 0.4]]), tmp_path)
    assert norms[0] is norms[1] and norms[0].vmax == 0.8


@pytest.fixture
def only_matplotlibs_fonts(monkeypatch):
    own = [e for e in font_manager.fontManager.ttflist if "matplotlib" in e.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    for cache in (glyphs._installed, glyphs._characters):
        cache.cache_clear()
    yield
    for cache in (glyphs._installed, glyphs._characters):
        cache.cache_clear()


def test_diacritics_of_romanian_and_vietnamese_come_with_matplotlib(only_matplotlibs_fonts):
    one = heat_map(["Aceştia", "țările", "ș"], ["được", "những", "trẻ"], torch.eye(3).tolist())
    assert figures.choose_fonts({"maps": [one], "systems": []}) == (["DejaVu Sans"], [])


def test_a_script_without_a_font_is_noticed(only_matplotlibs_fonts):
    _, [note] = figures.choose_fonts({"maps": [heat_map(["中文"], ["x"], [[1.0]])], "systems": []})
    assert "2 characters" in note and "中文" in note and "fonts-noto-cjk" in note


def test_an_installed_font_that_has_them_is_taken():
    families, missing = glyphs.fonts_for(["Wörter", "中文です"])
    if missing:
        assert set("中文です") >= set(missing)
        pytest.skip("no font with Chinese characters is installed here (Debian: fonts-noto-cjk)")
    assert families[0] == "DejaVu Sans" and len(families) > 1
    assert not any(name.startswith("Last Resort") for name in families)


@pytest.mark.parametrize(
    "config, label",
    [
        (SiteConfig(), "dense"),
        (SiteConfig("topk", 8), "top-k 8"),
        (SiteConfig("topk", topk_ratio=4), "top-k 1/4"),
        (SiteConfig("topk", 8, phase="train"), "top-k 8 in training only"),
        (SiteConfig("topk", 8, order="after"), "top-k 8 after softmax"),
        (SiteConfig("entmax"), "alpha-entmax"),
        (SiteConfig("entmax15"), "1.5-entmax"),
        (SiteConfig("nm"), "2:4"),
        (SiteConfig(pattern="window", span=8), "window 8"),
        (SiteConfig("topk", 4, pattern="window", span=8), "top-k 4, window 8"),
    ],
)
def test_systems_are_called_as_in_the_configurations(config, label):
    assert site_label(config) == label


def test_a_system_with_sites_of_two_kinds_names_the_sparse_ones():
    sites = {"encoder-self": SiteConfig(), "decoder-self": SiteConfig(), "cross": SiteConfig("topk", 8)}
    assert system_label(sites) == "top-k 8, cross"
    assert system_label(dict.fromkeys(sites, SiteConfig("rela"))) == "ReLA"
