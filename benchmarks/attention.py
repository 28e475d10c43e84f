#!/usr/bin/env python3
"""Time and peak memory of one attention module, forward and forward+backward, dense beside sparse, in one run.

    python benchmarks/attention.py [--lengths 25,64,256,512,1024,2048,4096] [--causal] [--output FILE.json]

Self-attention without padding, every method with the same projections and weights. A batch has --tokens tokens
whatever the length. Forward is inference (no gradients); forward+backward is training, gradients of the input included.
Times are medians of interleaved rounds. Memory is the peak of one pass in a fresh process, beyond what the process
held before it. A method whose last two lengths predict more than --max-seconds a pass or --max-mb is skipped and
marked. A peer that is not installed is left out: pip install -e '.[bench]'.
"""

import argparse
import importlib.util
import sys

import torch
import torch.nn.functional as F
from common import (
    add_common_arguments,
    environment,
    in_fresh_process,
    interleaved,
    numbers,
    peak_memory,
    print_environment,
    print_table,
    write_json,
)

from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import SiteConfig

from fairseq.modules import MultiheadAttention  # isort: skip  explicit_sparse first: it quiets fairseq's import

MODES = ("forward", "forward+backward")
BASELINE = "fairseq dense"


class Method:
    """One attention module and how it is called: ``attend(x)`` for x (T, B, E), or (B, T, E) if ``batch_first``."""

    batch_first = False

    def __init__(self, args, length):
        torch.manual_seed(1)  # the same projections for all
        self.causal = args.causal
        self.mask = None
        if args.causal:
            self.mask = torch.full((length, length), float("-inf"), device=args.device).triu(1)
        self.module = self.build(args).to(args.device)

    def build(self, args):
        return MultiheadAttention(args.width, args.heads, dropout=args.dropout, self_attention=True)

    def attend(self, x):
        return self.module(x, x, x, need_weights=False, attn_mask=self.mask)[0]


class SDPA(Method):
    """torch's scaled_dot_product_attention between the projections."""

    def attend(self, x):
        module = self.module
        length, batch, width = x.shape
        q, k, v = (
            projection(x).view(length, batch, module.num_heads, -1).permute(1, 2, 0, 3)  # (B, H, T, D)
            for projection in (module.q_proj, module.k_proj, module.v_proj)
        )
        dropout = module.dropout_module.p if module.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=self.causal)
        return module.out_proj(attended.permute(2, 0, 1, 3).reshape(length, batch, width))


class XTransformers(Method):
    """The sparse top-k attention of the package x-transformers, with fairseq's projections put in."""

    batch_first = True

    def build(self, args):
        from x_transformers.x_transformers import Attention

        dense = super().build(args)
        module = Attention(
            args.width,
            dim_head=args.width // args.heads,
            heads=args.heads,
            causal=args.causal,
            sparse_topk=args.topk,
            dropout=args.dropout,
        )
        module.to_q, module.to_k, module.to_v, module.to_out = dense.q_proj, dense.k_proj, dense.v_proj, dense.out_proj
        return module

    def attend(self, x):
        return self.module(x)


def ours(**config):
    """The class of a method of this package; k, which top-k alone reads, is --topk."""

    class Ours(Method):
        def build(self, args):
            site = SiteConfig(topk=args.topk, **config)
            name = "decoder-self" if args.causal else "encoder-self"
            return SparseMultiheadAttention(
                args.width, args.heads, name, site, dropout=args.dropout, self_attention=True
            )

    return Ours


METHODS = {
    BASELINE: Method,
    "torch SDPA": SDPA,
    "top-k": ours(mapping="topk"),  # takes one of the next two by itself
    "top-k short": ours(mapping="topk", kernel="short"),
    "top-k long": ours(mapping="topk", kernel="long"),
    "x-transformers top-k": XTransformers,
    "softmax": ours(mapping="softmax"),
    "sparsemax": ours(mapping="sparsemax"),
    "1.5-entmax": ours(mapping="entmax15"),
    "alpha-entmax": ours(mapping="entmax"),
}


def steps(name, args, length, batch):
    """The two passes to measure, {mode: callable}."""
    method = METHODS[name](args, length)
    shape = (batch, length, args.width) if method.batch_first else (length, batch, args.width)
    x = torch.randn(shape, device=args.device, requires_grad=True)
    gradient = torch.randn(shape, device=args.device)

    def forward():
        method.module.eval()
        with torch.no_grad():
            method.attend(x)

    def forward_backward():
        method.module.train()
        method.attend(x).backward(gradient)
        method.module.zero_grad(set_to_none=True)
        x.grad = None

    return dict(zip(MODES, (forward, forward_backward)))


def memory_of(name, args, length, batch):
    """{mode: MB}, for a fresh process."""
    torch.set_num_threads(args.threads)
    for warm_up in steps(name, args, max(32, args.topk), 1).values():  # loads libraries, starts threads
        warm_up()
    return {mode: peak_memory(step, args.device) for mode, step in steps(name, args, length, batch).items()}


def measure(names, args, length, known):
    """One record for each method and mode at one length.

    Args:
        known: {name: [(scores, seconds, MB) of each length measured]}, to predict from; extended here.
    """
    batch = max(1, args.tokens // length)
    scores = batch * length * length
    skipped = {name: obstacle(name, args, length, scores, known) for name in names}
    run = [name for name in names if not skipped[name]]
    memory = {name: in_fresh_process(memory_of, name, args, length, batch) for name in run}
    passes = {(name, mode): step for name in run for mode, step in steps(name, args, length, batch).items()}
    seconds = interleaved(passes, args.rounds, args.device)
    for name in run:
        known[name].append((scores, seconds[name, MODES[1]].median, memory[name][MODES[1]]))
    records = []
    for name in names:
        for mode in MODES:
            record = {"length": length, "batch": batch, "method": name, "mode": mode, "skipped": skipped[name]}
            if name in run:
                timing = seconds[name, mode]
                record.update(seconds=timing.median, seconds_fastest=timing.fastest, peak_mb=memory[name][mode])
            records.append(record)
    return records


def obstacle(name, args, length, scores, known):
    """Why a method is not measured at a length, or None."""
    if name.startswith("x-transformers") and args.topk > length:
        return "k > length"
    if len(known[name]) < 2:
        return None
    # The number of tokens stays the same, and with it the cost of the projections: a line in the number of scores.
    (n1, seconds1, mb1), (n2, seconds2, mb2) = known[name][-2:]
    further = (scores - n2) / (n2 - n1)
    if seconds2 + further * (seconds2 - seconds1) > args.max_seconds:
        return "time"
    return "memory" if mb2 + further * (mb2 - mb1) > args.max_mb else None


def show(records, names):
    """Four tables: time and memory of each mode, with the ratio to fairseq's dense module."""
    lengths = sorted({record["length"] for record in records})
    found = {(record["method"], record["mode"], record["length"]): record for record in records}
    for quantity, unit, scale, meaning in (
        ("seconds", "ms", 1000, "in brackets the speed relative to"),
        ("peak_mb", "MB", 1, "in brackets the memory relative to"),
    ):
        for mode in MODES:

            def cell(name, length):
                record, dense = found[name, mode, length], found.get((BASELINE, mode, length), {}).get(quantity)
                if record["skipped"]:
                    return "– ({})".format(record["skipped"])
                value = record[quantity]
                if dense is None:
                    return f"{scale * value:.1f}"
                return f"{scale * value:.1f} ({dense / value if unit == 'ms' else value / dense:.2f})"

            print_table(
                f"{mode}, {unit}; {meaning} {BASELINE}",
                ["length", *map(str, lengths)],
                [[name, *(cell(name, length) for length in lengths)] for name in names],
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=numbers, default=numbers("25,64,256,512,1024,2048,4096"), metavar="L,L,…")
    parser.add_argument("--methods", metavar="NAME,NAME,…", help="some of: {} (default: all)".format(", ".join(METHODS)))
    parser.add_argument("--topk", type=int, default=8, metavar="K", help="keys kept (default: 8)")
    parser.add_argument("--width", type=int, default=512, help="of the model (default: 512)")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=4096, help="in a batch (default: 4096)")
    parser.add_argument("--dropout", type=float, default=0.0, help="on the attention weights (default: 0)")
    parser.add_argument("--causal", action="store_true", help="decoder self-attention")
    parser.add_argument("--max-seconds", type=float, default=20, help="skip what takes longer a pass (default: 20)")
    parser.add_argument("--max-mb", type=float, default=6000, help="skip what needs more memory (default: 6000)")
    add_common_arguments(parser)
    args = parser.parse_args()

    names = args.methods.split(",") if args.methods else list(METHODS)
    unknown = ", ".join(name for name in names if name not in METHODS)
    if unknown:
        parser.error("--methods: unknown: {}; choose from {}".format(unknown, ", ".join(METHODS)))
    if "x-transformers top-k" in names and importlib.util.find_spec("x_transformers") is None:
        print("x-transformers is not installed, so it is left out: pip install -e '.[bench]'", file=sys.stderr)
        names.remove("x-transformers top-k")
    torch.set_num_threads(args.threads)
    facts = environment(args)
    print_environment(facts)
    sizes = "width {width}, {heads} heads, k = {topk}, {tokens} tokens a batch, dropout {dropout}".format(**vars(args))
    print(sizes, "causal" if args.causal else "no mask", sep=", ")
    records, known = [], {name: [] for name in names}
    for length in sorted(set(args.lengths)):
        print(f"measuring length {length}", file=sys.stderr)
        records += measure(names, args, length, known)
        write_json(args, facts, results=records)
    show(records, names)


if __name__ == "__main__":
    main()
