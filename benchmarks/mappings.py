#!/usr/bin/env python3
"""Time of each attention mapping, forward and backward, beside torch's softmax, in one run.

    python benchmarks/mappings.py [--batch 64] [--heads 4] [--lengths 30,100] [--threads 1] [--device cpu]

Scores of shape (batch, heads, length, length) without masks. Prints milliseconds, the best of several
rounds, which other work on the machine disturbs least, and the ratio to softmax. EXPLICIT_SPARSE_KERNELS=0
shows top-k without its compiled kernel.
"""
import argparse
import time

import torch
import torch.nn.functional as F

from explicit_sparse import mappings
from explicit_sparse.kernels import library

MAPPINGS = {
    "torch softmax": lambda x: F.softmax(x, dim=-1),
    "softmax": mappings.softmax,
    "top-k 8": lambda x: mappings.topk(x, 8),
    "top-k 8, break ties": lambda x: mappings.topk(x, 8, ties="break"),
    "N:M 2:4": lambda x: mappings.nm(x, 2, 4),
    "sparsemax": mappings.sparsemax,
    "1.5-entmax": mappings.entmax15,
    "alpha-entmax 1.5": lambda x: mappings.entmax(x, torch.tensor(1.5, device=x.device)),
    "ReLA": mappings.rela,
}


def best_time(mapping, scores, gradient, rounds=20):
    """Seconds of one forward and backward pass, the best of ``rounds``."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        mapping(scores).backward(gradient)
        if scores.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lengths", default="30,100", help="keys and queries, with commas between")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    print("torch {}, {} thread(s), {}; {}".format(torch.__version__, args.threads, args.device, library.status()))
    for length in map(int, args.lengths.split(",")):
        shape = (args.batch, args.heads, length, length)
        scores = torch.randn(shape, device=args.device, requires_grad=True)
        gradient = torch.randn(shape, device=args.device)
        times = {name: best_time(mapping, scores, gradient) for name, mapping in MAPPINGS.items()}
        print("\nscores {}".format(shape))
        for name, seconds in times.items():
            print("{:<20} {:8.2f} ms {:7.1f}x".format(name, 1e3 * seconds, seconds / times["torch softmax"]))


if __name__ == "__main__":
    main()
