"""Work on files with several processes: no shared queues, so nothing hangs when a process is killed."""

import ctypes
import multiprocessing
import os
import shutil
import signal
import sys
from multiprocessing.connection import wait
from pathlib import Path
from typing import Callable, Iterable, List, Sequence, Tuple

from ..command import ToolError
from .errors import DISK_FULL, disk_full_message

# Workers inherit the lock and plain closures; no thread is running when they start.
_PROCESSES = multiprocessing.get_context("fork")
BLOCK_LINES = 10_000
PIECES_PER_WORKER = 4  # evens out pieces of unequal cost
SMALLEST_PIECE = 500_000  # bytes; a process costs more than it saves on less

Transform = Callable[[List[str]], List[str]]  # as many lines out as in


def default_workers() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it ends, however that ends (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


def _child(function, job, connection) -> None:
    end_with_parent()
    try:
        connection.send((True, function(job)))
    except OSError as error:
        connection.send((False, disk_full_message(error) if error.errno in DISK_FULL else str(error)))
    except KeyboardInterrupt:  # the parent got it too, and says so once
        pass
    except Exception as error:  # whatever it was, the parent must hear of it
        connection.send((False, str(error) if isinstance(error, ToolError) else repr(error)))


def run_jobs(function: Callable, jobs: Sequence, workers: int) -> list:
    """``[function(job) for job in jobs]``, each in a process of its own, ``workers`` at a time.

    Raises :class:`ToolError` with the message of the first job that failed; the others are ended.
    """
    results = [None] * len(jobs)
    waiting = list(enumerate(jobs))[::-1]
    running = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                index, job = waiting.pop()
                receiver, sender = _PROCESSES.Pipe(duplex=False)
                process = _PROCESSES.Process(target=_child, args=(function, job, sender))
                process.start()
                sender.close()
                running[receiver] = (index, process)
            for receiver in wait(list(running)):
                index, process = running[receiver]
                try:
                    good, results[index] = receiver.recv()
                except EOFError:
                    process.join()
                    raise ToolError(
                        f"a worker process died (exit code {process.exitcode}); "
                        "if memory ran out, run again with fewer --workers"
                    ) from None
                if not good:
                    raise ToolError(results[index])
                process.join()
                receiver.close()
                del running[receiver]
    finally:
        for _, process in running.values():
            process.terminate()
            process.join()
    return results


def byte_ranges(path: Path, pieces: int) -> List[Tuple[int, int]]:
    """Cut a file into at most ``pieces`` ranges (start, end) that begin and end at line ends."""
    size = path.stat().st_size
    pieces = min(pieces, size // SMALLEST_PIECE + 1)
    cuts = [0]
    with open(path, "rb") as lines:
        for piece in range(1, pieces):
            lines.seek(max(cuts[-1], size * piece // pieces))
            lines.readline()
            cuts.append(lines.tell())
    cuts.append(size)
    return [(start, end) for start, end in zip(cuts, cuts[1:]) if start < end]


def read_blocks(path: Path, start: int, end: int) -> Iterable[List[str]]:
    """The lines of a range, in blocks that fit in memory, without their line ends."""
    block, position = [], start
    with open(path, "rb") as lines:
        lines.seek(start)
        while position < end:
            line = lines.readline()
            block.append(line)
            position += len(line)
            if position >= end or len(block) == BLOCK_LINES:
                yield b"".join(block).decode("utf-8")[:-1].split("\n")
                block = []


def _transform(job) -> None:
    make, source, (start, end), target = job
    transform = make()
    with open(target, "w", encoding="utf-8", newline="\n") as out:
        for block in read_blocks(source, start, end):
            lines = transform(block)
            if len(lines) != len(block):
                raise ToolError(
                    f"{source.name}: {len(block)} lines went in and {len(lines)} came out; "
                    "the tokeniser or segmenter stopped early or changed the line count"
                )
            out.writelines(line + "\n" for line in lines)


def transform_files(tasks: Sequence[Tuple[Callable[[], Transform], Path, Path]], workers: int) -> None:
    """For each (make, source, target) write ``make()`` applied to the lines of ``source``, in their order.

    The result does not depend on ``workers``. Lines are UTF-8 and end with a newline.
    """
    jobs, pieces = [], []
    for make, source, target in tasks:
        parts = []
        for number, limits in enumerate(byte_ranges(source, workers * PIECES_PER_WORKER)):
            parts.append(target.with_name(f"{target.name}.{number:04d}"))
            jobs.append((make, source, limits, parts[-1]))
        pieces.append((target, parts))
    run_jobs(_transform, jobs, workers)
    for target, parts in pieces:
        with open(target, "wb") as out:
            for part in parts:
                with open(part, "rb") as data:
                    shutil.copyfileobj(data, out, 1 << 20)
                part.unlink()
