#!/usr/bin/env python3
"""Runs a long fairseq command: everything goes to a log, progress and the time left to the terminal.

    python scripts/launch.py --log train.log --result train.json -- fairseq-train ... --log-format json

The log is appended to, and each launch begins with a line "$ COMMAND", so that a resumed training keeps its past.
Progress is one line that renews itself on a terminal, and a line every 30 seconds in a file.
When the command succeeds, --result is written, all at once: command, seconds and peak memory.
When it fails, its last lines and the log's name are shown and its exit status is returned.
The command ends with this process, and with each process named in EXPLICIT_SPARSE_RUNNERS, however that ends.

Standard library only: this process should cost neither time nor memory beside the training.
"""
import argparse
import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque

try:
    import resource
except ImportError:  # Windows
    resource = None

RECORD = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})\s*$")
HYPOTHESIS = re.compile(r"^H-\d+\t")


class TrainingProgress:
    """Reads fairseq-train's log (--log-format json): how far it is, and what to show."""

    def __init__(self, command):
        self.limits = {
            "num_updates": flag_value(command, "--max-update"),
            "update": flag_value(command, "--max-epoch"),  # "update" counts epochs, with a fraction
        }
        self.shown = {}

    def read(self, line):
        """Returns the fraction done where `line` tells it, else None."""
        match = RECORD.search(line)
        if not match:
            return None
        values = json.loads(match.group(2))
        self.shown.update(valid=values.get("valid_loss", self.shown.get("valid")))
        if match.group(1) != "train_inner":
            return None
        self.shown.update(loss=values.get("loss"), speed=values.get("wps"), update=values["num_updates"])
        self.shown.update(epoch=values.get("epoch"))
        return max((float(values[k]) / limit for k, limit in self.limits.items() if limit and k in values), default=0)

    def __str__(self):
        labels = (("epoch", "epoch {}"), ("update", "update {}"), ("loss", "loss {}"), ("valid", "valid {}"))
        parts = [text.format(self.shown[key]) for key, text in labels if self.shown.get(key)]
        if self.shown.get("speed"):
            parts.append("{:.0f} tokens/s".format(float(self.shown["speed"])))
        return ", ".join(parts)


class GenerationProgress:
    """Counts fairseq-generate's hypotheses."""

    def __init__(self, total):
        self.total, self.count = total, 0

    def read(self, line):
        if not HYPOTHESIS.match(line):
            return None
        self.count += 1
        return self.count / self.total

    def __str__(self):
        return "{} of {} sentences".format(self.count, self.total)


class Display:
    """Shows progress on stderr with the time left, which is extrapolated from this launch's own speed."""

    def __init__(self, title, seconds_between):
        self.title = title
        self.on_terminal = sys.stderr.isatty()
        self.seconds_between = 0.2 if self.on_terminal else seconds_between
        self.first = None  # (time, fraction) of the first news: what a resumed run did before does not count
        self.next_time = 0.0

    def show(self, fraction, text):
        now = time.monotonic()
        self.first = self.first or (now, fraction)
        if now < self.next_time and fraction < 1:
            return
        self.next_time = now + self.seconds_between
        line = "{}: {:3.0f} %{}, {}".format(self.title, 100 * min(fraction, 1), self.time_left(now, fraction), text)
        if self.on_terminal:
            line = "\r\033[K" + line[: terminal_width() - 1]
        print(line, file=sys.stderr, end="" if self.on_terminal else "\n", flush=True)

    def time_left(self, now, fraction):
        began, at_first = self.first
        if fraction <= at_first:
            return ""
        seconds = (1 - min(fraction, 1)) * (now - began) / (fraction - at_first)
        return ", {:d}:{:02d} left".format(*divmod(int(seconds), 60))

    def close(self):
        if self.on_terminal and self.first:
            print(file=sys.stderr)


def flag_value(command, flag):
    """Returns the last value given to a numeric flag, as the flag's own parser would, or None."""
    for index in range(len(command) - 1, -1, -1):
        name, _, value = command[index].partition("=")
        if name == flag:
            value = value or (command[index + 1] if index + 1 < len(command) else "")
            return float(value) if value else None
    return None


def terminal_width():
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 80


def peak_memory_mb():
    """Peak resident memory of the largest finished child process in MB, or None where the system does not tell."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


def load_average():
    """How many processes were at work in the last minute, or None where the system does not tell."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def write_json(value, path):
    with open(path + ".partial", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.replace(path + ".partial", path)


def is_alive(pid):
    try:
        with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"  # dead, and nobody has asked for its status yet
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not os.path.isdir("/proc/self")  # where there is a /proc, it has spoken


def die_with_parent():
    """Linux: the kernel ends this process with its parent, even where that is killed outright."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        pass


def end_with(runners, process):
    """Ends the command as soon as one of the scripts that it runs for is gone: nobody waits for it then."""
    while process.poll() is None:
        if not all(map(is_alive, runners)):
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
            return
        time.sleep(1)


def run(command, log, progress, display):
    """Runs `command`, copies its output to `log` line by line; returns its exit status and its last lines."""
    last_lines = deque(maxlen=5)
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
        preexec_fn=die_with_parent,
    )  # fmt: skip
    runners = [int(pid) for pid in os.environ.get("EXPLICIT_SPARSE_RUNNERS", "").split()]
    threading.Thread(target=end_with, args=(runners, process), daemon=True).start()
    # Whoever ends this process means the command.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, frame: process.send_signal(signum))
    for raw in process.stdout:
        log.write(raw)
        log.flush()
        line = raw.decode("utf-8", errors="replace").rstrip()
        last_lines.append(line)
        fraction = progress.read(line)
        if fraction is not None:
            display.show(fraction, str(progress))
    status = process.wait()
    display.close()
    return (128 - status if status < 0 else status), last_lines


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", required=True, help="where the output goes")
    parser.add_argument("--result", help="JSON file written when the command has succeeded")
    parser.add_argument("--title", default="progress", help="what the progress lines begin with")
    parser.add_argument("--sentences", type=int, help="count this many hypotheses instead of updates")
    parser.add_argument("--every", type=float, default=30, help="seconds between two lines in a file (default: 30)")
    parser.add_argument("command", nargs="+", help="the command, after --")
    args = parser.parse_args(argv)

    progress = GenerationProgress(args.sentences) if args.sentences else TrainingProgress(args.command)
    shown = " ".join(shlex.quote(word) for word in args.command)
    began = time.monotonic()
    load = {"start": load_average()}
    with open(args.log, "ab") as log:
        log.write("$ {}\n".format(shown).encode("utf-8"))
        log.flush()
        status, last_lines = run(args.command, log, progress, Display(args.title, args.every))
    if status != 0:
        for line in last_lines:
            print("    " + line, file=sys.stderr)
        print(
            "error: {} failed with status {}. Its whole log: {}".format(args.command[0], status, args.log),
            file=sys.stderr,
        )
        return status
    if args.result:
        seconds = round(time.monotonic() - began, 1)
        load["end"] = load_average()
        result = {"command": shown, "seconds": seconds, "peak_memory_mb": peak_memory_mb(), "load": load}
        write_json(result, args.result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
