"""Averages the parameters of several checkpoints of one training.

    python -m explicit_sparse.tools.average CHECKPOINT_DIR --output average.pt --last 5

With one number, --last N averages the last N checkpoints, up to epoch M where --up-to M is given. With several, as in
--last 1,5,10 or --last 10 --up-to 50,60,70, the window is chosen on the validation set: --select-on valid, by its loss
or (--select-by bleu) by BLEU of its translation.
There is no way to choose on a test set.

The result is an ordinary fairseq checkpoint without optimizer state. Beside it, average.json (the output's name with
.json) says which checkpoints went in, and what each candidate scored.
"""
import argparse
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from explicit_sparse import compat

from . import checkpoints
from .command import ToolError, command
from .files import write_json

NUMBERED = {
    "epoch": re.compile(r"^checkpoint(\d+)\.pt$"),
    "update": re.compile(r"^checkpoint_\d+_(\d+)\.pt$"),
}
SAVE_FLAGS = {
    "epoch": "fairseq-train's --no-epoch-checkpoints and --keep-last-epochs decide what is kept",
    "update": "fairseq-train's --save-interval-updates and --keep-interval-updates decide what is kept",
}


def last_checkpoints(folder, count, by="epoch", up_to=None):
    """Returns the `count` newest numbered checkpoints of `folder`, oldest first.

    Parameters
    ----------
    by : "epoch" for checkpointN.pt, "update" for checkpoint_E_N.pt
    up_to : ignore checkpoints whose epoch (or update) is larger

    Raises
    ------
    ToolError
        when there are fewer than `count`
    """
    matches = [(NUMBERED[by].match(path.name), path) for path in Path(folder).glob("checkpoint*.pt")]
    numbered = sorted((int(match.group(1)), path) for match, path in matches if match)
    allowed = [path for number, path in numbered if up_to is None or number <= up_to]
    if len(allowed) < count:
        limit = "" if up_to is None else f" up to {by} {up_to}"
        raise ToolError(
            f"{count} checkpoints by {by}{limit} are asked for, but {folder} holds {len(allowed)}. "
            f"Ask for fewer with --last, or keep more: {SAVE_FLAGS[by]}"
        )
    return allowed[len(allowed) - count :]


def average(paths):
    """Returns the newest checkpoint with the mean of all models' parameters.

    mean = (1/n) sum_i parameter_i, summed in float64 (half-precision parameters: in float32) and returned in the
    parameter's own dtype. What is not floating point, such as a counter, is the newest checkpoint's.
    The order of `paths` does not matter for the mean; the last one counts as the newest.

    Raises
    ------
    ToolError
        when the checkpoints' parameters differ in name, shape or dtype, or are not finite
    """
    paths = list(paths)
    if not paths:
        raise ToolError("no checkpoint to average")
    result = checkpoints.read(paths[-1])
    newest = result["model"]
    check_finite(newest, paths[-1])
    total = {name: value.to(sum_dtype(value)) for name, value in newest.items() if value.is_floating_point()}
    for path in paths[:-1]:
        model = checkpoints.read(path)["model"]
        check_finite(model, path)
        check_same_parameters(newest, paths[-1], model, path)
        for name in total:
            total[name] = total[name] + model[name].to(total[name].dtype)
    for name, value in total.items():
        newest[name] = (value / len(paths)).to(newest[name].dtype)
    # Of no use for other parameters than its own, and twice their size.
    result.pop("last_optimizer_state", None)
    return result


def sum_dtype(value):
    return torch.float32 if value.dtype in (torch.float16, torch.bfloat16) else torch.float64


def check_finite(model, path):
    for name, value in model.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ToolError(
                f"{path}: parameter '{name}' holds NaN or infinity: the training has diverged by then. Average earlier "
                "checkpoints (--up-to), or train with a lower --lr"
            )


def check_same_parameters(expected, expected_path, found, path):
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    for names, has, lacks in ((missing, expected_path, path), (extra, path, expected_path)):
        if names:
            raise ToolError(f"{has} has the parameter '{names[0]}', {lacks} has not: are both of one training?")
    for name, value in expected.items():
        other = found[name]
        for what, wanted, got in (("shape", list(value.shape), list(other.shape)), ("dtype", value.dtype, other.dtype)):
            if wanted != got:
                raise ToolError(f"parameter '{name}' has {what} {got} in {path}, but {wanted} in {expected_path}")


def validation_loss(checkpoint, prepared, flags):
    """Returns the loss on the validation set, by fairseq-validate in a process of its own."""
    output = run_fairseq("validate", checkpoint, prepared, ["--valid-subset", "valid", "--max-tokens", "4000"])
    losses = re.findall(r'"valid_loss": "?([0-9.]+)', output)
    if not losses:
        raise ToolError(f"fairseq-validate printed no loss:\n{output[-500:]}")
    return float(losses[-1])


def validation_bleu(checkpoint, prepared, flags):
    """Returns sacreBLEU on the validation set, by fairseq-generate with `flags` in a process of its own."""
    from explicit_sparse.tools import score

    output = run_fairseq("generate", checkpoint, prepared, ["--gen-subset", "valid", *flags])
    return score.score_subset(output.splitlines(), prepared, "valid", bootstrap=0)[0]["bleu"]["score"]


MEASURES = {"loss": (validation_loss, min), "bleu": (validation_bleu, max)}


def run_fairseq(program, checkpoint, prepared, flags):
    command = [sys.executable, "-m", f"fairseq_cli.{program}", str(Path(prepared) / "bin")]
    command += ["--user-dir", str(Path(compat.__file__).parent), "--task", "translation", "--path", str(checkpoint), *flags]
    command += ["--required-batch-size-multiple", "1", "--log-format", "json"]
    if not torch.cuda.is_available():
        command.append("--cpu")
    environment = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONUTF8="1")
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", env=environment, check=False
    )
    if done.returncode != 0:
        raise ToolError(f"fairseq-{program} failed with status {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def average_best_window(args, output):
    """Averages each window, measures it on the validation set and writes the best. Returns the report."""
    measure, best_of = MEASURES[args.select_by]
    candidates = []
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".average-") as folder:
        for count, up_to in itertools.product(args.last, args.up_to):
            paths = last_checkpoints(args.checkpoints, count, args.by, up_to)
            candidate = Path(folder) / f"{len(candidates)}.pt"
            checkpoints.write(average(paths), candidate)
            value = measure(candidate, args.prepared, args.generate_flags)
            candidates.append({"last": count, "averaged": [path.name for path in paths], args.select_by: value})
            limit = "" if up_to is None else f" up to {args.by} {up_to}"
            print(f"last {count}{limit}: validation {args.select_by} {value:.3f}", flush=True)
        best = best_of(candidates, key=lambda candidate: candidate[args.select_by])
        report = {"averaged": best["averaged"], "chosen_on": "valid", "chosen_by": args.select_by}
        write_json(output.with_suffix(".json"), {**report, "candidates": candidates, "command": args.command})
        os.replace(Path(folder) / f"{candidates.index(best)}.pt", output)
    return report


def average_one_window(args, output):
    paths = last_checkpoints(args.checkpoints, args.last[0], args.by, args.up_to[0])
    state = average(paths)
    report = {"averaged": [path.name for path in paths], "chosen_on": None}
    write_json(output.with_suffix(".json"), {**report, "command": args.command})
    checkpoints.write(state, output)
    return report


def positive_numbers(text):
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 or several separated by commas, not '{text}'")
    return numbers


def parse_args(argv=None):
    parser = argparse.ArgumentParser(
        prog="average",
        usage="%(prog)s CHECKPOINT_DIR --output FILE --last N[,N...] [options] [-- FAIRSEQ-GENERATE FLAGS]",
        description=__doc__,
        epilog="The flags after -- are for --select-by bleu.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoints", type=Path, help="fairseq's --save-dir")
    parser.add_argument("--output", type=Path, required=True, help="checkpoint to write")
    parser.add_argument("--last", type=positive_numbers, required=True, metavar="N[,N...]", help="how many")
    parser.add_argument("--by", choices=sorted(NUMBERED), default="epoch", help="which checkpoints (default: epoch)")
    parser.add_argument(
        "--up-to", type=positive_numbers, default=[None], metavar="N[,N...]", help="ignore later epochs or updates"
    )
    parser.add_argument("--select-on", choices=["valid"], help="choose among several windows on this set")
    parser.add_argument("--select-by", choices=sorted(MEASURES), default="loss", help="(default: loss)")
    parser.add_argument("--prepared", type=Path, help="folder of the prepared data, for --select-on")
    argv = sys.argv[1:] if argv is None else argv
    # argparse has no optional positionals after options.
    end = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:end])
    args.generate_flags = argv[end + 1 :]
    args.command = f"python -m explicit_sparse.tools.average {' '.join(map(shlex.quote, argv))}"
    for flag, values in (("--last", args.last), ("--up-to", args.up_to)):
        if len(values) > 1 and not args.select_on:
            parser.error(f"{flag} {','.join(map(str, values))} are several windows: choose with --select-on valid")
    if args.select_on and not args.prepared:
        parser.error("--select-on valid needs the prepared data: --prepared DIR")
    return args


@command
def main(argv=None):
    args = parse_args(argv)
    report = (average_best_window if args.select_on else average_one_window)(args, args.output)
    chosen = " (chosen on valid by {})".format(report["chosen_by"]) if report["chosen_on"] else ""
    print(f"{args.output.name}: mean of {', '.join(report['averaged'])}{chosen}")


if __name__ == "__main__":
    sys.exit(main())
