#!/usr/bin/env python3
"""How time and memory of top-k attention grow with the length of the input and with k.

    python benchmarks/scaling.py [--output FILE.json] [--plot FILE.png]

One self-attention module, forward and backward, one batch size for all lengths. First k is fixed and the length
varies, then the other way round; dense attention (fairseq's) beside it. Each quantity is fitted by a line in
log-log scale, whose slope is the power it grows with: 1 is linear, 2 quadratic, 0 does not grow.
"""

import argparse
import copy
import logging
import math
import sys
from pathlib import Path

import torch
from attention import BASELINE, MODES, memory_of, steps
from common import (
    add_common_arguments,
    environment,
    in_fresh_process,
    interleaved,
    numbers,
    print_environment,
    print_table,
    write_json,
)

OURS = "top-k"
QUANTITIES = {"milliseconds": "time (ms)", "peak_mb": "peak memory (MB)"}
COLOURS = {BASELINE: "tab:blue", OURS: "tab:orange"}


def measure(args, length, k, names):
    """One record for each method at one point."""
    args = copy.copy(args)
    args.topk = k
    print(f"measuring length {length}, k = {k}", file=sys.stderr)
    passes = {name: steps(name, args, length, args.batch)[MODES[1]] for name in names}
    seconds = interleaved(passes, args.rounds, args.device)
    return [
        {
            "method": name,
            "length": length,
            "k": k,
            "milliseconds": 1000 * seconds[name].median,
            "milliseconds_fastest": 1000 * seconds[name].fastest,
            "peak_mb": in_fresh_process(memory_of, name, args, length, args.batch)[MODES[1]],
        }
        for name in names
    ]


def slope(x, y):
    """The power p of y = c x^p, by least squares of log y on log x."""
    x, y = [math.log(value) for value in x], [math.log(value) for value in y]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def curves(records, variable):
    """{method: records in the order of the variable}."""
    names = dict.fromkeys(record["method"] for record in records)
    return {
        name: sorted((r for r in records if r["method"] == name), key=lambda record: record[variable]) for name in names
    }


def fit(records, variable):
    """{method: {quantity: slope}}; against k for top-k alone, since dense attention has none."""
    return {
        name: {
            quantity: slope([r[variable] for r in points], [r[quantity] for r in points]) for quantity in QUANTITIES
        }
        for name, points in curves(records, variable).items()
        if len(points) > 1
    }


def show(records, variable, slopes, title):
    for quantity, label in QUANTITIES.items():
        values = sorted({record[variable] for record in records})
        rows = []
        for name, points in curves(records, variable).items():
            found = {point[variable]: point[quantity] for point in points}
            cells = [f"{found[value]:.1f}" if value in found else "" for value in values]
            rows.append([name, *cells, f"{slopes[name][quantity]:.2f}" if name in slopes else ""])
        print_table(f"{label}, {title}", [variable, *map(str, values), "slope"], rows)


def plot(path, panels):
    """Log-log curves: one row of panels for each quantity, one column for each variable."""
    import matplotlib

    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq lets every logger speak
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for column, (variable, records, slopes, title) in enumerate(panels):
        for axis, (quantity, label) in zip(axes[:, column], QUANTITIES.items()):
            for name, points in curves(records, variable).items():
                text = f"{name}, slope {slopes[name][quantity]:.2f}" if name in slopes else name
                axis.loglog(
                    [point[variable] for point in points],
                    [point[quantity] for point in points],
                    marker="o",
                    color=COLOURS[name],
                    label=text,
                )
            ticks = sorted({record[variable] for record in records})
            axis.set_xticks(ticks, labels=map(str, ticks))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.yaxis.set_major_formatter(FormatStrFormatter("%g"))
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.set(xlabel=variable, ylabel=label, title=title)
            axis.grid(alpha=0.3)
            axis.legend()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=numbers, default=numbers("256,512,1024,2048,4096"), metavar="L,L,…")
    parser.add_argument("--ks", type=numbers, default=numbers("2,4,8,16,32,64"), metavar="K,K,…")
    parser.add_argument("--length", type=int, default=1024, help="while k varies (default: 1024)")
    parser.add_argument("--topk", type=int, default=8, metavar="K", help="while the length varies (default: 8)")
    parser.add_argument("--batch", type=int, default=1, help="sentences (default: 1)")
    parser.add_argument("--width", type=int, default=512, help="of the model (default: 512)")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--causal", action="store_true", help="decoder self-attention")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the curves; needs matplotlib")
    add_common_arguments(parser)
    args = parser.parse_args()
    args.dropout = 0.0

    torch.set_num_threads(args.threads)
    facts = environment(args)
    print_environment(facts)
    by_length = [r for length in args.lengths for r in measure(args, length, args.topk, (BASELINE, OURS))]
    by_k = [r for k in args.ks for r in measure(args, args.length, k, (OURS,))]
    panels = [
        (variable, records, fit(records, variable), title)
        for variable, records, title in (
            ("length", by_length, f"k = {args.topk}"),
            ("k", by_k, f"length {args.length}"),
        )
    ]
    results = {}
    for variable, records, slopes, title in panels:
        show(records, variable, slopes, title)
        results[f"by {variable}"] = {"slopes": slopes, "results": records}
    write_json(args, facts, **results)
    if args.plot:
        plot(args.plot, panels)


if __name__ == "__main__":
    main()
