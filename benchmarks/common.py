"""What the benchmarks share: interleaved timing, peak memory in a fresh process, and how results are shown."""

import gc
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path

import torch

from explicit_sparse.kernels import library


def add_common_arguments(parser, rounds=7):
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"repetitions, whose median counts (default: {rounds})"
    )
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (default: 1)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="write the results here as well")


def numbers(text):
    """An option's value such as 25,64,256."""
    return [int(number) for number in text.split(",")]


def environment(args):
    """What the numbers depend on besides the code."""
    return {
        "torch": torch.__version__,
        "versions": {name: version(name) for name in ("numpy", "entmax", "x-transformers", "triton")},
        "python": platform.python_version(),
        "device": args.device,
        "processor": torch.cuda.get_device_name() if args.device == "cuda" else processor(),
        "threads": args.threads,
        "rounds": args.rounds,
        "load": os.getloadavg()[0],
        "kernels": library.status(),
    }


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor():
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python may know
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def print_environment(facts):
    print(
        "torch {torch}, Python {python}, {processor}, {threads} thread(s); "
        "medians of {rounds} interleaved rounds; load of the machine at the start {load:.1f}; {kernels}".format(**facts)
    )


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(step, device):
    synchronize(device)
    start = time.perf_counter()
    step()
    synchronize(device)
    return time.perf_counter() - start


RESOLUTION_MB = 0.1  # Linux counts resident pages in batches
Timing = namedtuple("Timing", "median fastest")  # seconds


def interleaved(steps, rounds, device):
    """How long each step takes: {name: callable} -> {name: Timing}.

    Every round runs each step once, so that whatever else the machine does meets all of them alike.
    Each runs once before, untimed.
    """
    times = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(seconds_of(step, device))
    return {name: Timing(statistics.median(found), min(found)) for name, found in times.items()}


def in_fresh_process(function, *arguments):
    """The result of a function of a module, run in a Python process of its own."""
    # glibc would keep freed tensors for later; this returns all of 64 KiB or more to the system at once, whatever the
    # environment says (scripts/lib.sh says the opposite).
    before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("MALLOC_")}
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result()
    finally:
        del os.environ["MALLOC_MMAP_THRESHOLD_"]
        os.environ.update(before)


def peak_memory(step, device):
    """MB that a step takes at its peak beyond what was in use before; resident memory on a CPU (Linux only)."""
    gc.collect()
    if device == "cuda":
        synchronize(device)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak to what is in use now
    before = resident_mb("VmRSS")
    step()
    return max(resident_mb("VmHWM") - before, RESOLUTION_MB)


def resident_mb(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def print_table(title, columns, rows):
    """A Markdown table: the rows' first cells to the left, the others to the right."""
    print(f"\n{title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|---" + "|---:" * (len(columns) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def write_json(args, facts, **results):
    """Writes the results beside what they were measured with and on, where --output asks for it."""
    if args.output:
        options = {name: value for name, value in vars(args).items() if not isinstance(value, Path)}
        record = {"environment": facts, "options": options, **results}
        args.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
