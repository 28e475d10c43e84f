"""Draws a report's numbers with matplotlib, each figure as PNG and SVG. Needs no display."""

import textwrap
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .glyphs import fonts_for
from .numbers import file_name
from .statistics import KINDS

# Okabe and Ito's colours: told apart by readers with colour-blindness too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Kinds of keys as stacked bars: neighbours differ in lightness as well.
_KIND_COLOURS = {"end of sentence": "#000000", "punctuation": "#E69F00", "same position": "#009E73",
                 "neighbour": "#56B4E9", "other": "#0072B2"}  # fmt: skip
_SEQUENTIAL = "viridis_r"  # yellow to dark violet: even steps for colour-blind readers too, and no grey, which means 0
_ZERO, _HATCH = "#d9d9d9", "#9a9a9a"  # an allowed key with weight exactly 0
_DPI = 100
_CELL = 0.21  # inches of a heat map for a token: room for its label at _LABEL points
_LABEL = 8
_WIDEST = 11.5  # inches, the width of the page; panels beyond it go below each other
_LONGEST_LABEL = 24


class Figure(NamedTuple):
    """A picture of the report.

    Attributes:
        file: without its ending; there is a .png and a .svg.
        section: where in the page it goes.
        title: one line.
        alt: what a reader who cannot see it should know.
        wide: shown at its own size and scrolled, as its labels would be too small otherwise.
    """

    file: str
    section: str
    title: str
    alt: str
    wide: bool


def draw_all(report: Dict[str, Any], folder: Path) -> Tuple[List[Figure], List[str]]:
    """Draw every figure that the report has numbers for.

    Args:
        report: what report.json holds.
        folder: where the files go.

    Returns:
        The figures in the order of the page, and notes to the reader: characters without a glyph.
    """
    import matplotlib

    families, notes = choose_fonts(report)
    style = {"font.family": families, "font.size": 9, "hatch.linewidth": 0.5, "hatch.color": _HATCH,
             "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "explicit-sparse",
             "text.parse_math": False}  # fmt: skip
    figures: List[Figure] = []
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the notes say so, once
        for draw in (
            _draw_comparisons,
            _draw_maps,
            _draw_density,
            _draw_profile,
            _draw_diversity,
            _draw_alpha,
            _draw_course,
        ):
            figures.extend(draw(report, folder))
    return figures, notes


def choose_fonts(report: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """The font families that draw the report's labels, and a note on characters that none of them has."""
    texts = [label for m in report["maps"] for side in ("queries", "keys") for label in m[side]]
    families, missing = fonts_for([*texts, *(system["name"] for system in report["systems"])])
    if not missing:
        return families, []
    some = missing if len(missing) <= 20 else missing[:20] + "…"
    return families, [
        f"no installed font has glyphs for {len(missing)} characters of the heat maps' labels ({some}), which appear "
        "as boxes there: install one, such as Noto (Debian: fonts-noto-core, fonts-noto-cjk), and make the report again"
    ]


def _new(width: float, height: float, rows: int, columns: int, **options):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _save(figure, folder: Path, name: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    cut = {"bbox_inches": "tight", "pad_inches": 0.06}  # to what is drawn: long labels may go over the canvas
    figure.savefig(str(folder / (name + ".png")), dpi=_DPI, **cut)
    figure.savefig(str(folder / (name + ".svg")), metadata={"Date": None}, **cut)
    return name


# Heat maps


def _draw_maps(report: Dict[str, Any], folder: Path) -> List[Figure]:
    return [_draw_map(one, folder) for one in report["maps"]]


def _draw_map(one: Dict[str, Any], folder: Path) -> Figure:
    """The systems' weights for one sentence, beside each other where they fit, on one colour scale."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import PowerNorm

    panels = one["panels"]
    width, height = len(one["keys"]) * _CELL, len(one["queries"]) * _CELL
    left, top = (_label_inches(one[side]) for side in ("queries", "keys"))
    columns = max(1, min(len(panels), int(_WIDEST // (width + left))))
    rows = -(-len(panels) // columns)
    largest = max((w for panel in panels for row in panel["weights"] for w in row if w), default=1.0)
    norm = PowerNorm(0.5, vmin=0, vmax=largest)  # the square root shows small weights too

    page = max(columns * (width + left + 0.25), 5.2), rows * (height + top + 0.45) + 1.0
    figure, axes = _new(*page, rows, columns)
    axes = [axis for row in axes for axis in row]
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes, panels):
        _heat(axis, panel["weights"], norm)
        axis.set_xticks(range(len(one["keys"])), [_short(k) for k in one["keys"]], rotation=90, fontsize=_LABEL)
        axis.set_yticks(range(len(one["queries"])), [_short(q) for q in one["queries"]], fontsize=_LABEL)
        axis.tick_params(length=0, labeltop=True, labelbottom=False, top=False, bottom=False)
        axis.set_title(panel["system"], fontweight="bold")
    bar = figure.colorbar(
        ScalarMappable(norm, _SEQUENTIAL), ax=axes[: len(panels)], location="bottom", aspect=40, fraction=0.3 / page[1],
        shrink=min(1.0, 6 / page[0]), pad=0.25 / page[1],
    )  # fmt: skip
    bar.set_label("weight (square-root scale); grey hatched: exactly 0; blank: not allowed", fontsize=_LABEL)
    bar.ax.tick_params(labelsize=_LABEL)
    bar.set_ticks(
        [largest * share for share in (0, 0.04, 0.25, 1)], labels=[f"{largest * s:.2g}" for s in (0, 0.04, 0.25, 1)]
    )

    head = "average over heads" if one["head"] == "average" else f"head {one['head']}"
    title = f"Sentence {one['sentence']}, {one['site']}, layer {one['layer']}, {head}"
    name = "map_{sentence}_{site}_layer{layer}_{head}".format(**one)
    described = "; ".join(f"{panel['system']}: {_describe_map(panel['weights'])}" for panel in panels)
    alt = f"{title}. Rows are queries, columns keys. {described}."
    return Figure(_save(figure, folder, name), "maps", title, alt, wide=True)


def _heat(axis: Any, weights: Sequence[Sequence[Optional[float]]], norm: Any) -> None:
    """Cells in three looks: a weight in colour, exactly 0 grey and hatched, a key that is not allowed blank."""
    import numpy as np
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    values = np.array([[np.nan if w is None else w for w in row] for row in weights], dtype=float)  # (T, S)
    queries, keys = values.shape
    edges = np.arange(keys + 1) - 0.5, np.arange(queries + 1) - 0.5
    if (values == 0).any():  # one hatched ground for all zeros, which the other cells cover
        axis.add_patch(
            Rectangle((-0.5, -0.5), keys, queries, facecolor=_ZERO, hatch="////", edgecolor=_HATCH, linewidth=0)
        )
        axis.pcolormesh(
            *edges, np.ma.masked_where(~np.isnan(values), np.zeros_like(values)), cmap=ListedColormap(["white"])
        )
    axis.pcolormesh(*edges, np.ma.masked_where(~(values > 0), values), cmap=_SEQUENTIAL, norm=norm)
    axis.set_xlim(-0.5, keys - 0.5)
    axis.set_ylim(queries - 0.5, -0.5)
    axis.set_aspect("equal")
    axis.spines[["top", "right"]].set_visible(True)
    for spine in axis.spines.values():
        spine.set_color("#777777")


def _describe_map(weights: Sequence[Sequence[Optional[float]]]) -> str:
    allowed = [w for row in weights for w in row if w is not None]
    zeros = sum(w == 0 for w in allowed) / max(len(allowed), 1)
    return f"{zeros:.0%} of the allowed cells are exactly 0, the largest weight is {max(allowed, default=0):.2f}"


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _label_inches(labels: Sequence[str]) -> float:
    """Room for the longest label; wide characters such as Chinese ones count twice."""
    from unicodedata import east_asian_width

    width = max(sum(2 if east_asian_width(c) in "WF" else 1 for c in _short(label)) for label in labels)
    return 0.15 + width * 0.6 * _LABEL / 72


# Density


def _draw_density(report: Dict[str, Any], folder: Path) -> List[Figure]:
    return [_draw_histogram(report, folder), _draw_layer_by_head(report, folder)]


def _draw_histogram(report: Dict[str, Any], folder: Path) -> Figure:
    sites = _sites(report)
    figure, axes = _new(3.6 * len(sites), 3.1, 1, len(sites), sharey=True)
    for axis, site in zip(axes[0], sites):
        for number, system in _having(report, site):
            counts = system["sites"][site]["density_histogram"]
            edges = [i / len(counts) for i in range(len(counts) + 1)]
            shares = [count / sum(counts) for count in counts]
            axis.stairs(shares, edges, color=COLOURS[number % 8], linewidth=1.8, label=system["name"],
                fill=number == 0, alpha=0.55 if number == 0 else 1)  # fmt: skip
        axis.set_title(site)
        axis.set_xlabel("density")
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1.02)
    axes[0][0].set_ylabel("share of queries and heads")
    _legend(figure, axes[0][0], len(report["systems"]))
    title = "Density: share of the allowed keys with weight > 0"
    alt = title + ", a histogram for each site. Means: " + _list_means(report, "density", "{:.2f}")
    return Figure(_save(figure, folder, "density_histogram"), "density", title, alt, wide=False)


def _draw_layer_by_head(report: Dict[str, Any], folder: Path) -> Figure:
    """A row of panels for each system: density by layer and head at every site, with its number in each cell."""
    return _draw_grid(
        report, folder, "density_by_head", "density", "Density by layer and head",
        lambda layer: [head["density"] for head in layer["heads"]], (0, 1), "density",
    )  # fmt: skip


def _draw_grid(
    report: Dict[str, Any], folder: Path, name: str, section: str, title: str,
    of_layer: Callable[[Dict[str, Any]], List[float]], limits: Tuple[float, float], label: str,
) -> Figure:  # fmt: skip
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    systems = [
        s for s in report["systems"] if any(of_layer(layer) for site in s["sites"].values() for layer in site["layers"])
    ]
    sites = _sites(report)
    tables = {
        (s["name"], site): [of_layer(layer) for layer in s["sites"][site]["layers"]]
        for s in systems
        for site in s["sites"]
    }
    heads = max(len(row) for table in tables.values() for row in table)
    layers = max(len(table) for table in tables.values())
    width, height = max(2.4, heads * 0.42), max(1.0, layers * 0.32)
    figure, axes = _new(
        len(sites) * (width + 0.6) + 0.4, len(systems) * (height + 0.75) + 0.8, len(systems), len(sites)
    )  # fmt: skip
    norm = Normalize(*limits)
    for row, system in zip(axes, systems):
        for axis, site in zip(row, sites):
            table = tables.get((system["name"], site))
            if not table or not table[0]:
                axis.set_visible(False)
                continue
            axis.imshow(table, cmap=_SEQUENTIAL, norm=norm, aspect="auto")
            for y, values in enumerate(table):
                for x, value in enumerate(values):
                    dark = norm(value) > 0.55
                    axis.text(
                        x, y, f"{value:.2f}", ha="center", va="center", fontsize=7, color="white" if dark else "black"
                    )
            axis.set_xticks(range(len(table[0])))
            axis.set_yticks(range(len(table)))
            axis.tick_params(length=0, labelsize=_LABEL)
            axis.set_title(f"{system['name']}: {site}", fontsize=9)
            axis.set_xlabel("head", fontsize=_LABEL)
            axis.set_ylabel("layer", fontsize=_LABEL)
    bar = figure.colorbar(
        ScalarMappable(norm, _SEQUENTIAL), ax=[a for row in axes for a in row], location="bottom", aspect=40, shrink=0.5
    )
    bar.set_label(label, fontsize=_LABEL)
    bar.ax.tick_params(labelsize=_LABEL)
    ends = []
    for (system, site), table in tables.items():
        values = [(v, layer, head) for layer, row in enumerate(table) for head, v in enumerate(row)]
        if values:
            ends.append("{}, {}: from {:.2f} (layer {}, head {}) to {:.2f} (layer {}, head {})".format(
                system, site, *min(values), *max(values)))  # fmt: skip
    return Figure(_save(figure, folder, name), section, title, f"{title}. " + "; ".join(ends) + ".", wide=False)


# By layer


_PROFILE = (
    ("support", "keys with weight > 0", lambda mean: mean["support"]),
    ("entropy", "entropy (nats)", lambda mean: mean["entropy"]),
    ("eos", "weight on end of sentence", lambda mean: mean["kinds"]["end of sentence"]),
)


def _draw_profile(report: Dict[str, Any], folder: Path) -> List[Figure]:
    """Support, entropy and weight on the end-of-sentence symbol by layer, a line for each system."""
    sites = _sites(report)
    figure, axes = _new(3.6 * len(sites), 2.3 * len(_PROFILE) + 0.4, len(_PROFILE), len(sites), sharey="row")
    for row, (_, label, read) in zip(axes, _PROFILE):
        for axis, site in zip(row, sites):
            _lines(axis, report, site, lambda layer: read(layer["mean"]))
        row[0].set_ylim(bottom=0)  # last: it ends the scaling of the whole row to its lines
        row[0].set_ylabel(label)
    for axis, site in zip(axes[0], sites):
        axis.set_title(site)
    for axis in axes[-1]:
        axis.set_xlabel("layer")
    _legend(figure, axes[0][0], len(report["systems"]))
    title = "Support, entropy and weight on the end-of-sentence symbol, by layer"
    alt = f"{title}. Mean support: " + _list_means(report, "support", "{:.1f}")
    return [Figure(_save(figure, folder, "by_layer"), "layers", title, alt, wide=False)]


def _draw_diversity(report: Dict[str, Any], folder: Path) -> List[Figure]:
    sites = _sites(report)
    figure, axes = _new(3.6 * len(sites), 3.0, 1, len(sites), sharey=True)
    for axis, site in zip(axes[0], sites):
        _lines(axis, report, site, lambda layer: layer["diversity"])
        axis.set_title(site)
        axis.set_xlabel("layer")
    axes[0][0].set_ylim(bottom=0)
    axes[0][0].set_ylabel("Jensen-Shannon divergence (nats)")
    _legend(figure, axes[0][0], len(report["systems"]))
    title = "Head diversity: generalised Jensen-Shannon divergence between the heads of a layer"
    means = [
        f"{system['name']}, {site}: {value['diversity']:.2f}"
        for system in report["systems"] for site, value in system["sites"].items() if value["diversity"] is not None
    ]  # fmt: skip
    alt = f"{title}. Means: " + "; ".join(means) + "."
    return [Figure(_save(figure, folder, "head_diversity"), "diversity", title, alt, wide=False)]


def _lines(axis: Any, report: Dict[str, Any], site: str, read: Callable[[Dict[str, Any]], Optional[float]]) -> None:
    for number, system in _having(report, site):
        layers = system["sites"][site]["layers"]
        points = [(n, read(layer)) for n, layer in enumerate(layers) if read(layer) is not None]
        axis.plot(*zip(*points), color=COLOURS[number % 8], marker=_MARKERS[number % 8],
            label=system["name"], linewidth=1.6, markersize=5)  # fmt: skip
        axis.set_xticks(range(len(layers)))
    axis.margins(x=0.15)
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)


# Learned alpha


def _draw_alpha(report: Dict[str, Any], folder: Path) -> List[Figure]:
    learned = [
        (system, site, [head["alpha"] for layer in value["layers"] for head in layer["heads"]])
        for system in report["systems"]
        for site, value in system["sites"].items()
        if all("alpha" in head for layer in value["layers"] for head in layer["heads"])
    ]
    if not learned:
        return []
    sites = _sites(report)
    systems = list(dict.fromkeys(system["name"] for system, _, _ in learned))
    figure, axes = _new(3.6 * len(sites), 2.6 * len(systems) + 0.3, len(systems), len(sites), sharey="row", sharex=True)
    for axis in (a for row in axes for a in row):
        axis.set_visible(False)
    edges = [1 + i / 20 for i in range(21)]
    for system, site, alphas in learned:
        axis = axes[systems.index(system["name"])][sites.index(site)]
        axis.set_visible(True)
        axis.hist(alphas, bins=edges, color=COLOURS[0], edgecolor="white")
        axis.set_title(site if len(systems) == 1 else f"{system['name']}: {site}")
        axis.set_xlabel("alpha")
        axis.set_xlim(1, 2)
        axis.yaxis.get_major_locator().set_params(integer=True)
    for row in axes:
        row[0].set_ylabel("heads")
    title = "Learned alpha of the heads: 1 is softmax, 2 sparsemax"
    ranges = [
        f"{s['name']}, {site}: {min(a):.2f} to {max(a):.2f}, mean {sum(a) / len(a):.2f}" for s, site, a in learned
    ]
    alt = f"{title}. A histogram for each site. " + "; ".join(ranges) + "."
    histogram = Figure(_save(figure, folder, "alpha_histogram"), "alpha", title, alt, wide=False)
    grid = _draw_grid(
        report, folder, "alpha_by_head", "alpha", "Learned alpha by layer and head",
        lambda layer: [head["alpha"] for head in layer["heads"] if "alpha" in head], (1, 2), "alpha",
    )  # fmt: skip
    return [histogram, grid]


def _draw_course(report: Dict[str, Any], folder: Path) -> List[Figure]:
    course = report["alpha_course"]
    if not course:
        return []
    sites = list(course[0]["sites"])
    figure, axes = _new(3.6 * len(sites), 3.2, 1, len(sites), sharey=True)
    updates = [point["update"] for point in course]
    for axis, site in zip(axes[0], sites):
        for layer, heads in enumerate(course[0]["sites"][site]):
            for head in range(len(heads)):
                alphas = [point["sites"][site][layer][head] for point in course]
                axis.plot(updates, alphas, color=COLOURS[layer % 8], marker=_MARKERS[layer % 8], markersize=3,
                    linewidth=1.2, label=None if head else f"layer {layer}")  # fmt: skip
        axis.set_title(site)
        axis.set_xlabel("updates")
        axis.set_ylim(1, 2)
        axis.grid(color="#dddddd", linewidth=0.6)
    axes[0][0].set_ylabel("alpha")
    _legend(figure, axes[0][0], len(course[0]["sites"][sites[0]]))
    title = "Learned alpha over training: a line for each head"
    ends = []
    for site in sites:
        first, last = ([a for heads in course[end]["sites"][site] for a in heads] for end in (0, -1))
        ends.append(f"{site}: mean {sum(first) / len(first):.2f}, then {sum(last) / len(last):.2f}")
    alt = f"{title}, from update {updates[0]} to {updates[-1]}. " + "; ".join(ends) + "."
    return [Figure(_save(figure, folder, "alpha_course"), "alpha", title, alt, wide=False)]


# Comparison


def _draw_comparisons(report: Dict[str, Any], folder: Path) -> List[Figure]:
    return [_draw_comparison(pair, folder) for pair in report["comparisons"]]


def _draw_comparison(pair: Dict[str, Any], folder: Path) -> Figure:
    """By site and layer, three measures as bars stacked by the kind of key."""
    a, b = pair["A"], pair["B"]
    short_a, short_b = (name.replace(" ", "\u00a0") for name in (a, b))  # names stay in one line
    measures = (
        ("outside_head", f"{short_a}'s weight on keys outside the support of a head of {short_b}"),
        ("new", f"{short_b}'s weight where {short_b} attends and {short_a} does not"),
        ("lost", f"{short_a}'s weight where {short_a} attends and {short_b} does not"),
    )
    sites = list(pair["sites"])
    depth = max(len(site["layers"]) for site in pair["sites"].values())
    width = max(2.4, 0.35 * depth + 1)
    figure, axes = _new(len(sites) * width + 2.2, 2.3 * len(measures) + 0.4, len(measures), len(sites), sharey="row")
    for row, (measure, label) in zip(axes, measures):
        for axis, site in zip(row, sites):
            layers = pair["sites"][site]["layers"]
            bottom = [0.0] * len(layers)
            for kind in KINDS:
                heights = [layer[measure]["kinds"][kind] for layer in layers]
                axis.bar(range(len(layers)), heights, 0.7, bottom=bottom, color=_KIND_COLOURS[kind], label=kind,
                    edgecolor="white", linewidth=0.6)  # fmt: skip
                bottom = [y + h for y, h in zip(bottom, heights)]
            for x, y in enumerate(bottom):
                axis.text(x, y, f"{y:.0%}", ha="center", va="bottom", fontsize=7)
            axis.set_xticks(range(len(layers)))
            axis.margins(y=0.14)
            axis.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
        row[0].set_ylabel("\n".join(textwrap.wrap(label, 28, break_on_hyphens=False)), fontsize=8)
    for axis, site in zip(axes[0], sites):
        axis.set_title(site)
    for axis in axes[-1]:
        axis.set_xlabel("layer")
    _legend(figure, axes[0][0], len(KINDS))
    title = f"Where {b} attends and {a} does not"
    numbers = [
        "{}: {:.0%} of {}'s weight lies outside the support of a head of {}, "
        "{:.0%} of {}'s weight where {} does not attend".format(
            site, values["mean"]["outside_head"]["all"], a, b, values["mean"]["new"]["all"], b, a)
        for site, values in pair["sites"].items()
    ]  # fmt: skip
    alt = f"{title}, by site, layer and kind of key. " + "; ".join(numbers) + "."
    return Figure(_save(figure, folder, f"compare_{file_name(b)}"), "comparison", title, alt, wide=False)


def _sites(report: Dict[str, Any]) -> List[str]:
    return list(dict.fromkeys(site for system in report["systems"] for site in system["sites"]))


def _having(report: Dict[str, Any], site: str) -> List[Tuple[int, Dict[str, Any]]]:
    return [(number, system) for number, system in enumerate(report["systems"]) if site in system["sites"]]


def _list_means(report: Dict[str, Any], name: str, form: str) -> str:
    return "; ".join(
        f"{system['name']}, {site}: " + form.format(value["mean"][name])
        for system in report["systems"] for site, value in system["sites"].items()
    ) + "."  # fmt: skip


def _legend(figure: Any, axis: Any, entries: int) -> None:
    """One legend for all panels, above them; none for a single entry."""
    if entries > 1:
        figure.legend(
            *axis.get_legend_handles_labels(), loc="outside upper center", ncols=min(entries, 5), frameon=False
        )
