#!/usr/bin/env python3
"""Trains and translates with every method for a moment; `scripts/smoke_all.sh` prepares the data and calls this."""
import argparse
import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

USER_DIR = Path(__file__).resolve().parent.parent / "explicit_sparse"

METHODS = {
    "softmax": "--topk 0",
    "topk": "--topk 8",
    "topk-break": "--topk 8 --topk-ties break",
    "topk-ratio": "--topk-ratio 4 --topk-min 4",
    "topk-after": "--topk 8 --topk-order after",
    "topk-after-renormalized": "--topk 8 --topk-order after --topk-renormalize",
    "topk-train": "--topk 8 --topk-phase train",
    "topk-generate": "--topk 8 --topk-phase generate",
    "topk-straight-through": "--topk 8 --topk-straight-through",
    "topk-by-site": "--encoder-topk 8 --decoder-topk 4 --cross-topk 0",
    "sparsemax": "--attention-mapping sparsemax",
    "entmax15": "--attention-mapping entmax15",
    "entmax": "--attention-mapping entmax",
    "entmax-fixed": "--attention-mapping entmax --entmax-alpha 1.3",
    "rela": "--attention-mapping rela",
    "rela-plain": "--attention-mapping rela --rela-norm plain",
    "nm": "--attention-mapping nm --nm 2:4",
    "block": "--attention-pattern block --attention-span 8",
    "window": "--attention-pattern window --attention-span 8",
    "window-topk": "--attention-pattern window --attention-span 16 --topk 8",
    "dilated": "--attention-pattern dilated --attention-span 8",
    "global": "--attention-pattern global --attention-span 8",
    "random": "--attention-pattern random --attention-span 8",
    "random-cross": "--attention-pattern random --attention-span 8 --pattern-sites cross",
    "bigbird": "--attention-pattern bigbird --attention-span 8",
    "out-of-window": "--attention-pattern out-of-window --attention-span 8",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("data", type=Path, help="folder made by fairseq-preprocess")
    parser.add_argument("out", type=Path, help="where logs and checkpoints go")
    parser.add_argument("names", nargs="*", metavar="NAME", help="methods to try (default: all)")
    parser.add_argument("--updates", type=int, default=200, help="training updates each (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at once, one core each (default: all cores)")
    args = parser.parse_intermixed_args()
    unknown = sorted(set(args.names) - set(METHODS))
    if unknown:
        parser.error("unknown: {}; choose from {}".format(", ".join(unknown), ", ".join(METHODS)))

    names = args.names or list(METHODS)
    print("{} methods, {} updates each, {} at a time".format(len(names), args.updates, args.jobs), file=sys.stderr)
    with ThreadPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(lambda name: smoke(name, args.data, args.out / name, args.updates), names))

    line = "{:<24} {:>10} {:>9} {:>9} {:>12}  {}"
    print(line.format("method", "first loss", "last loss", "tokens/s", "translations", "verdict"))
    for row in rows:
        print(line.format(*row))
    failed = sum(row[-1] != "ok" for row in rows)
    print("{} passed, {} failed".format(len(rows) - failed, failed))
    sys.exit(1 if failed else 0)


def smoke(name, data, out, updates):
    """Train and translate with one method; returns its row of the table."""
    out.mkdir(parents=True, exist_ok=True)
    common = ["--user-dir", USER_DIR, "--cpu", "--required-batch-size-multiple", "1"]
    train = ["fairseq-train", data, *common, "--arch", "explicit_sparse_transformer_tiny", "--share-all-embeddings"]
    train += ["--optimizer", "adam", "--lr", "2e-3", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "100"]
    train += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1", "--max-tokens", "600"]
    train += ["--max-update", updates, "--disable-validation", "--no-epoch-checkpoints", "--save-dir", out]
    train += ["--log-format", "json", "--log-interval", max(updates // 10, 1), "--no-save-optimizer-state"]
    train += ["--reset-dataloader", "--restore-file", "none", *METHODS[name].split()]
    generate = ["fairseq-generate", data, *common, "--path", out / "checkpoint_last.pt", "--gen-subset", "test"]
    generate += ["--beam", "4", "--max-len-a", "1", "--max-len-b", "10", "--max-tokens", "2000"]

    print("    {}".format(name), file=sys.stderr, flush=True)
    losses, speed, translations = [], 0.0, 0
    if run(train, out / "train.log"):
        log = (out / "train.log").read_text(encoding="utf-8")
        records = [json.loads(r) for r in re.findall(r"\| train_inner \| (\{.*\})$", log, re.MULTILINE)]
        losses = [float(record["loss"]) for record in records]
        speed = max(float(record["wps"]) for record in records)
        if run(generate, out / "generate.log"):
            translations = len(re.findall(r"^H-", (out / "generate.log").read_text(encoding="utf-8"), re.MULTILINE))

    if not losses:
        verdict = "training failed: {}".format(out / "train.log")
    elif not all(map(math.isfinite, losses)) or not losses[-1] < losses[0]:
        verdict = "loss does not fall: {}".format(out / "train.log")
    elif not translations:
        verdict = "generation failed: {}".format(out / "generate.log")
    else:
        verdict = "ok"
    first, last = ("{:.2f}".format(x) for x in (losses[0], losses[-1])) if losses else ("-", "-")
    return name, first, last, "{:.0f}".format(speed), translations, verdict


def run(command, log):
    """Run with one thread and everything in a log; True if it succeeded."""
    with open(log, "w", encoding="utf-8") as file:
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUTF8="1")
        command = [str(part) for part in command]
        return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment).returncode == 0


if __name__ == "__main__":
    main()
