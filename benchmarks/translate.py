#!/usr/bin/env python3
"""Speed of whole models on real text: training, and beam search, dense beside sparse, in one run.

    bash scripts/prepare/demo.sh
    python benchmarks/translate.py [--data prepared/multi30k.de-en] [--widths 128,512]
        [--lengths data,25,128,documents] [--output FILE.json]

Transformers with random weights, the same dimensions for all. A number in --lengths joins consecutive lines and cuts
both sides to so many tokens; `documents` does so with lengths drawn from 256 to 512; `data` takes pairs as they are.
Beam search is fairseq's, and has to write as many tokens as the references of the batch have on average, so that all
models write alike. Speed is in target tokens a second, the median of interleaved rounds; ratios are to fairseq's
dense Transformer in the same rounds.
"""

import argparse
import logging
import os
import random
import statistics
import sys
from pathlib import Path

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

import explicit_sparse  # noqa: F401  registers the models, and quiets fairseq's import
from fairseq import options, tasks  # isort: skip
from fairseq.data.language_pair_dataset import collate  # isort: skip
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # isort: skip
from fairseq.sequence_generator import SequenceGenerator  # isort: skip

ROOT = Path(__file__).resolve().parent.parent
OURS = "explicit_sparse_transformer"
BASELINE = "fairseq dense"
SYSTEMS = {
    BASELINE: ("transformer", ""),
    "our dense": (OURS, "--topk 0"),
    "top-k 8": (OURS, "--topk 8"),
    "sparsemax": (OURS, "--attention-mapping sparsemax"),
    "1.5-entmax": (OURS, "--attention-mapping entmax15"),
    "alpha-entmax": (OURS, "--attention-mapping entmax"),
    "ReLA": (OURS, "--attention-mapping rela"),
}
DOCUMENT = (256, 512)  # tokens


def keep_memory():
    """Start again with scripts/lib.sh's settings, with which models are trained and translate here; see there."""
    settings = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1000000000000"}
    if not settings.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**settings, **os.environ})


def build(name, width, args):
    """(task, model, options) of a system."""
    arch, flags = SYSTEMS[name]
    flags += f" --share-all-embeddings --dropout 0.1 --arch {arch}"
    for side in ("encoder", "decoder"):
        flags += f" --{side}-layers {args.layers} --{side}-embed-dim {width} --{side}-ffn-embed-dim {2 * width}"
        flags += f" --{side}-attention-heads {args.heads}"
    parser = options.get_training_parser("translation")
    flags = options.parse_args_and_arch(parser, [str(args.data / "bin"), *flags.split()])
    task = tasks.setup_task(flags)
    torch.manual_seed(1)
    return task, task.build_model(flags).to(args.device), flags


# ---- batches ----


def pairs_of(task, subset):
    """[(source, target)], token numbers that end with end-of-sentence."""
    task.load_dataset(subset)
    dataset = task.dataset(subset)
    return [(dataset[i]["source"], dataset[i]["target"]) for i in range(len(dataset))]


def joined(pairs, lengths):
    """Consecutive pairs without the ends between them, both sides cut to the next of ``lengths``."""
    found, sides = [], ([], [])
    wanted = next(lengths)
    for pair in pairs:
        for side, line in zip(sides, pair):
            side.append(line[:-1])
        if min(sum(map(len, side)) for side in sides) >= wanted - 1:
            end = pair[0][-1:]
            found.append([torch.cat([torch.cat(side)[: wanted - 1], end]) for side in sides])
            sides, wanted = ([], []), next(lengths)
    return found


def lengths_of(mode):
    """Endless numbers of tokens."""
    generator = random.Random(1)
    while True:
        yield generator.randint(*DOCUMENT) if mode == "documents" else int(mode)


def batches(pairs, mode, task, args):
    """--batches of them from the middle of all lengths, of at most --max-tokens on either side with padding."""
    if mode != "data":
        pairs = joined(pairs, lengths_of(mode))
    pairs = sorted(pairs, key=lambda pair: len(pair[1]))
    groups, group, longest = [], [], 0
    for pair in pairs:
        longest = max(longest, *map(len, pair))
        if group and longest * (len(group) + 1) > args.max_tokens:
            groups.append(group)
            group, longest = [], max(map(len, pair))
        group.append(pair)
    groups.append(group)
    spread = [groups[(2 * i + 1) * len(groups) // (2 * args.batches)] for i in range(min(args.batches, len(groups)))]
    return [to_batch(group, task, args.device) for group in spread]


def to_batch(group, task, device):
    words = task.target_dictionary
    samples = [{"id": i, "source": source, "target": target} for i, (source, target) in enumerate(group)]
    batch = collate(samples, words.pad(), words.eos(), left_pad_source=True, left_pad_target=False)
    batch["net_input"] = {name: value.to(device) for name, value in batch["net_input"].items()}
    batch["target"] = batch["target"].to(device)
    return batch


# ---- what is measured ----


def training(name, width, found, args):
    """A function that trains on all batches once, Adam included."""
    task, model, _ = build(name, width, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model.train()

    def train():
        for batch in found:
            logits = model(**batch["net_input"])[0]
            loss = F.cross_entropy(
                logits.transpose(1, 2),
                batch["target"],
                ignore_index=task.target_dictionary.pad(),
                label_smoothing=0.1,
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return train


def written_tokens(batch):
    """How many tokens each hypothesis of the batch has to have."""
    return max(2, round(batch["ntokens"] / batch["nsentences"]))


def translating(name, width, found, args):
    """A function that translates all batches once, as fairseq-generate does."""
    task, model, flags = build(name, width, args)
    model.prepare_for_inference_(convert_namespace_to_omegaconf(flags))

    def translate():
        for batch in found:
            tokens = written_tokens(batch) - 1  # besides end-of-sentence
            generator = SequenceGenerator(
                [model], task.target_dictionary, beam_size=args.beam, max_len_a=0, max_len_b=tokens, min_len=tokens
            )
            task.inference_step(generator, [model], batch)

    return translate


def measure(width, mode, args):
    """One record for each system."""
    task = build(BASELINE, width, args)[0]
    for_training, for_translation = (batches(pairs_of(task, subset), mode, task, args) for subset in ("train", "test"))
    counts = {
        "train": sum(batch["ntokens"] for batch in for_training),
        "decode": sum(written_tokens(batch) * batch["nsentences"] for batch in for_translation),
    }
    seconds = {}
    for kind, make, found in (("train", training, for_training), ("decode", translating, for_translation)):
        steps = {name: make(name, width, found, args) for name in args.systems}
        seconds[kind] = interleaved(steps, args.rounds, args.device)
    lengths = [size for batch in for_translation for size in [written_tokens(batch)] * batch["nsentences"]]
    records = []
    for name in args.systems:
        record = {"width": width, "lengths": mode, "system": name, "decoded_tokens": statistics.mean(lengths)}
        for kind, times in seconds.items():
            record[f"{kind}_tokens_per_second"] = counts[kind] / times[name].median
            record[f"{kind}_ratio"] = times[BASELINE].median / times[name].median
            record[f"{kind}_ratio_fastest"] = times[BASELINE].fastest / times[name].fastest
        records.append(record)
    return records


def show(records, width, mode):
    columns = ["system", "train tok/s", "to dense", "decode tok/s", "to dense"]
    rows = []
    for record in records:
        row = [record["system"]]
        for kind in ("train", "decode"):
            row += [f"{record[f'{kind}_tokens_per_second']:.0f}", f"{record[f'{kind}_ratio']:.2f}x"]
        rows.append(row)
    described = {"data": "as the data has them", "documents": "{} to {} tokens".format(*DOCUMENT)}
    lengths = described.get(mode, f"{mode} tokens")
    title = f"width {width}, lengths: {lengths}; decoding {records[0]['decoded_tokens']:.0f} tokens on average"
    print_table(title, columns, rows)


def names(text):
    """The baseline and the systems that an option's value such as `top-k 8,sparsemax` names."""
    found = [name.strip() for name in text.split(",")]
    unknown = set(found) - set(SYSTEMS)
    if unknown:
        raise argparse.ArgumentTypeError("{} is none of: {}".format(", ".join(sorted(unknown)), "; ".join(SYSTEMS)))
    return [name for name in SYSTEMS if name in found or name == BASELINE]


def modes(text):
    for mode in text.split(","):
        if mode not in ("data", "documents") and not (mode.isdigit() and int(mode) >= 2):
            raise argparse.ArgumentTypeError(f"{mode} is neither data nor documents nor a number of tokens from 2")
    return text.split(",")


def main():
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data",
        type=Path,
        default=ROOT / "prepared" / "demo",
        help="a folder that scripts/prepare/ made (default: prepared/demo)",
    )
    parser.add_argument("--systems", type=names, default=list(SYSTEMS), help="names of the tables' rows (default: all)")
    parser.add_argument("--widths", type=numbers, default=[128, 512], help="default: 128,512; FFN twice as wide")
    parser.add_argument("--lengths", type=modes, default=["data", "25", "128", "documents"], help="default: all four")
    parser.add_argument("--layers", type=int, default=3, help="of encoder and decoder each (default: 3)")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--max-tokens", type=int, default=2000, help="of a batch, as for fairseq (default: 2000)")
    parser.add_argument("--batches", type=int, default=2, help="of each kind in a round (default: 2)")
    add_common_arguments(parser, rounds=5)
    args = parser.parse_args()
    if not list(args.data.glob("bin/dict.*.txt")):
        parser.error(f"no prepared data in {args.data}; make the demo's with: bash scripts/prepare/demo.sh")
    logging.disable(logging.INFO)
    torch.set_num_threads(args.threads)
    facts = environment(args)
    print_environment(facts)
    records = []
    for width in args.widths:
        for mode in args.lengths:
            found = measure(width, mode, args)
            show(found, width, mode)
            records += found
            write_json(args, facts, results=records)  # after each table: an interrupted run keeps what it has


if __name__ == "__main__":
    main()
