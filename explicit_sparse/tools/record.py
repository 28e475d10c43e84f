"""Writes run.json: everything a table needs to know about one run, collected from what the run left behind.

    python -m explicit_sparse.tools.record RUN_DIR --config configs/demo/topk8.sh --system "top-k 8" --seed 1 \\
        --model RUN_DIR/average.pt --prepared prepared/demo

Reads, in RUN_DIR: train.log (of fairseq-train --log-format json), train.json, average.json, generate-<subset>.log, scores.json and
support.json; and the model for its options. Speeds are target tokens a second: in training the median over the log's
lines, which validation does not slow down; in decoding fairseq-generate's own figure.
"""
import argparse
import os
import re
import statistics
import sys
from dataclasses import fields
from pathlib import Path

import torch

import explicit_sparse
from explicit_sparse.compat import as_namespace
from explicit_sparse.config import SparseAttentionConfig
from explicit_sparse.kernels import library

from . import checkpoints, files, machine
from .command import ToolError, command
from .train_log import records

ROOT = Path(explicit_sparse.__file__).resolve().parent.parent

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
GPU_MEMORY = re.compile(r"total memory = ([\d.]+) GB")
TRANSLATED = re.compile(r"Translated [\d,]+ sentences \([\d,]+ tokens\) in ([\d.]+)s \([\d.]+ sentences/s, ([\d.]+) tokens/s\)")


def read_train_log(lines):
    """Returns (the "train" part of run.json, number of parameters) from fairseq-train's log.

    A log that was appended to by a resumed training counts once: where an update was done twice, the later one counts.

    Raises
    ------
    ToolError
        when the log holds no training
    """
    curve, speeds, free_memory = {}, [], []
    parameters = memory = seconds = None
    lines = list(lines)
    launches = sum(line.startswith("$ ") for line in lines)
    for line in lines:
        parameters = number_in(PARAMETERS, line) or parameters
        memory = number_in(GPU_MEMORY, line) or memory
    for kind, values in records(lines):
        if kind == "train_inner":
            speeds.append(float(values["wps"]))
            if "gb_free" in values:
                free_memory.append(float(values["gb_free"]))
            continue
        update = int(values[f"{kind}_num_updates"])
        point = curve.setdefault(update, {"update": update, "epoch": int(values["epoch"])})
        if kind == "train":
            point["train_loss"] = float(values["train_loss"])
            seconds = float(values["train_wall"])
            speeds = speeds or [float(values["train_wps"])]
        else:
            point["valid_loss"] = float(values["valid_loss"])
            if "valid_bleu" in values:
                point["valid_bleu"] = float(values["valid_bleu"])
    if not curve or parameters is None:
        raise ToolError("the log holds no finished epoch: was it written with --log-format json?")
    points = [curve[update] for update in sorted(curve)]
    losses = [point["valid_loss"] for point in points if "valid_loss" in point]
    train = {
        "updates": points[-1]["update"],
        "epochs": points[-1]["epoch"],
        "seconds": seconds,
        "launches": launches,
        "tokens_per_second": round(statistics.median(speeds), 1),
        "best_valid_loss": min(losses, default=None),
        "peak_memory_mb": round(1024 * (memory - min(free_memory))) if memory and free_memory else None,
        "curve": points,
    }
    return train, int(parameters)


def number_in(pattern, line):
    match = pattern.search(line)
    return float(match.group(1).replace(",", "")) if match else None


def read_generate_log(lines):
    """Returns the decoding part of a test set's entry from fairseq-generate's log."""
    for line in lines:
        match = TRANSLATED.search(line)
        if match:
            return {"decode_seconds": float(match.group(1)), "decode_tokens_per_second": float(match.group(2))}
    raise ToolError("the log has no line 'Translated ... sentences': fairseq-generate did not finish")


def command_in(path):
    """Returns the last command that a log begins a part with ("$ COMMAND"), without this machine's folder names."""
    commands = [line[2:].rstrip("\n") for line in open_lines(path) if line.startswith("$ ")]
    return portable(commands[-1]) if commands else None


def portable(text):
    """Makes paths inside the clone relative to it."""
    return text.replace(f"{ROOT}/", "")


def open_lines(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from file


def read_options(model_path):
    """Returns the architecture and the sparse attention options that a checkpoint was trained with."""
    state = checkpoints.read(model_path)
    config = state.get("cfg") or {}
    model = config.get("model") if config else state.get("args")
    model = as_namespace(model)
    arch = getattr(model, "arch", getattr(model, "_name", None))
    if not str(arch).startswith("explicit_sparse"):
        return {"arch": arch}
    config = SparseAttentionConfig.from_model(model)
    values = {option.name: plain(getattr(config, option.name)) for option in fields(config) if option.name != "_name"}
    return {"arch": arch, **{name: value for name, value in values.items() if value is not None}}


def plain(value):
    """Turns an enumeration member, which JSON does not know, into its value."""
    return getattr(value, "value", value)


def hardware():
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"cpu": machine.cpu_name(), "cores": os.cpu_count(), "threads": torch.get_num_threads(), "gpu": gpu}


def _if_there(path):
    return files.read_json(path) if path.exists() else {}


def assemble(run_dir, config, system, seed, model, prepared):
    """Returns the content of run.json as a dictionary. Raises ToolError where a step of the run is missing."""
    train, parameters = read_train_log(open_lines(run_dir / "train.log"))
    launched = files.read_object(run_dir / "train.json", "command", "peak_memory_mb")
    if train["peak_memory_mb"] is None:
        train["peak_memory_mb"] = launched["peak_memory_mb"]
    averaged = _if_there(run_dir / "average.json") if model.name == "average.pt" else {}
    target = files.read_object(prepared / "manifest.json", "target_lang")["target_lang"]
    scores = files.read_object(run_dir / "scores.json")
    for subset, entry in scores.items():
        entry.update(
            hypotheses=f"{subset}.hyp",
            hypotheses_tokenised=f"{subset}.hyp.tok",
            reference=f"{prepared.name}/ref/{subset}.{target}",
            **read_generate_log(open_lines(run_dir / f"generate-{subset}.log")),
        )
    first = next(iter(scores))
    return {
        "format": 1,
        "dataset": config.parent.name,
        "experiment": config.stem,
        "system": system,
        "seed": seed,
        "config": portable(str(config)),
        "command": {
            "train": portable(launched["command"]),
            "average": portable(averaged.get("command") or "") or None,
            "generate": command_in(run_dir / f"generate-{first}.log"),
        },
        "versions": machine.versions(),
        "commit": machine.commit(),
        "kernels": library.status(),
        "hardware": hardware(),
        "load": launched.get("load"),
        "options": read_options(model),
        "parameters": parameters,
        "train": train,
        "checkpoints": {
            "used": model.name,
            "averaged": averaged.get("averaged", []),
            "chosen_on": averaged.get("chosen_on") if averaged else "valid",
        },
        "test": scores,
        "support": _if_there(run_dir / "support.json"),
    }


@command
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="record", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", type=Path, help="the run's folder; run.json is written there")
    parser.add_argument("--config", type=Path, required=True, help="configs/<dataset>/<experiment>.sh")
    parser.add_argument("--system", required=True, help="what tables call it")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True, help="the checkpoint that translated")
    parser.add_argument("--prepared", type=Path, required=True, help="folder of the prepared data")
    args = parser.parse_args(argv)
    run = assemble(args.run_dir, args.config.resolve(), args.system, args.seed, args.model, args.prepared)
    files.write_json(args.run_dir / "run.json", run)


if __name__ == "__main__":
    sys.exit(main())
