#!/usr/bin/env python3
"""Time of each attention mapping beside torch's softmax, forward and forward+backward, in one run.

    python benchmarks/mappings.py [--batch 64] [--heads 4] [--lengths 30,100] [--output FILE.json]
    python benchmarks/mappings.py --device cuda [--dtype float16]       with the Triton kernel, where it is installed

Scores of shape (batch, heads, length, length) without masks. Prints milliseconds, medians of interleaved rounds, and
the ratio to torch's softmax. Forward is without gradients. EXPLICIT_SPARSE_KERNELS=0 measures plain torch.
"""

import argparse
import importlib.util

import torch
import torch.nn.functional as F
from common import (
    add_common_arguments,
    environment,
    interleaved,
    numbers,
    print_environment,
    print_table,
    write_json,
)

from explicit_sparse import mappings

BASELINE = "torch softmax"
MAPPINGS = {
    BASELINE: lambda x: F.softmax(x, dim=-1),
    "softmax": mappings.softmax,
    "top-k 8": lambda x: mappings.topk(x, 8),
    "top-k 8, break ties": lambda x: mappings.topk(x, 8, ties="break"),
    "N:M 2:4": lambda x: mappings.nm(x, 2, 4),
    "sparsemax": mappings.sparsemax,
    "1.5-entmax": mappings.entmax15,
    "alpha-entmax 1.5": lambda x: mappings.entmax(x, torch.tensor(1.5, device=x.device)),
    "ReLA": mappings.rela,
}


def with_triton():
    """The mappings, and top-k by the Triton kernel, which mappings.topk uses only where it is told to."""
    from explicit_sparse.kernels import triton_topk

    return {
        **MAPPINGS,
        "top-k 8, Triton": lambda x: triton_topk.topk_softmax(x, 8, exactly=False),
        "top-k 8, break ties, Triton": lambda x: triton_topk.topk_softmax(x, 8, exactly=True),
    }


def steps(mapping, scores, gradient):
    """The passes to measure, {mode: callable}."""

    def forward():
        with torch.no_grad():
            mapping(scores)

    def forward_backward():
        mapping(scores).backward(gradient)
        scores.grad = None

    return {"forward": forward, "forward+backward": forward_backward}


def measure(chosen, args, length):
    """One record for each mapping and mode."""
    shape = (args.batch, args.heads, length, length)
    dtype = getattr(torch, args.dtype)
    scores = torch.randn(shape, device=args.device, dtype=dtype, requires_grad=True)
    gradient = torch.randn(shape, device=args.device, dtype=dtype)
    passes = {
        (name, mode): step for name in chosen for mode, step in steps(chosen[name], scores, gradient).items()
    }
    return [
        {"length": length, "mapping": name, "mode": mode, "seconds": timing.median, "seconds_fastest": timing.fastest}
        for (name, mode), timing in interleaved(passes, args.rounds, args.device).items()
    ]


def show(records):
    for length in dict.fromkeys(record["length"] for record in records):
        seconds = {(r["mapping"], r["mode"]): r["seconds"] for r in records if r["length"] == length}
        modes = list(dict.fromkeys(mode for _, mode in seconds))
        rows = [
            [name]
            + [
                cell
                for mode in modes
                for cell in (
                    f"{1e3 * seconds[name, mode]:.2f}",
                    f"{seconds[name, mode] / seconds[BASELINE, mode]:.1f}x",
                )
            ]
            for name in dict.fromkeys(name for name, _ in seconds)
        ]
        print_table(
            f"{length} keys and queries; beside the time the ratio to {BASELINE}",
            ["mapping", *(cell for mode in modes for cell in (f"{mode}, ms", "ratio"))],
            rows,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lengths", type=numbers, default=[30, 100], metavar="L,L,…", help="keys and queries")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    add_common_arguments(parser, rounds=15)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    facts = environment(args)
    print_environment(facts)
    torch.manual_seed(1)
    triton_runs = args.device == "cuda" and importlib.util.find_spec("triton")
    chosen = with_triton() if triton_runs else MAPPINGS
    print(f"batch {args.batch}, {args.heads} heads, {args.dtype}")
    records = [record for length in args.lengths for record in measure(chosen, args, length)]
    write_json(args, facts, results=records)
    show(records)


if __name__ == "__main__":
    main()
