"""Steps that are either whole or absent, a lock for two runs at once, and messages."""

import fcntl
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Callable


def info(message: str) -> None:
    """Progress goes to stderr; stdout is kept for results."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def locked(path: Path):
    """Hold an exclusive lock on ``path``; wait for another run that holds it.

    The system drops the lock when the last process that holds it ends, however it ends. Worker processes
    inherit it, so a new run also waits for workers that outlived a killed one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            info(f"another run holds {path}: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run_step(folder: Path, name: str, build: Callable[[Path], None]) -> Path:
    """Return ``folder/name``, made by ``build(aside)`` unless it is there already.

    ``build`` writes into a folder aside, which gets its name when it is complete.
    """
    done = folder / name
    if done.is_dir():
        info(f"{name}: done before")
        return done
    for rest in folder.glob(name + ".part-*"):
        shutil.rmtree(rest, ignore_errors=True)
    # Of this process alone: something that a killed run left running may still write to its own.
    aside = folder / f"{name}.part-{os.getpid()}"
    aside.mkdir(parents=True)
    info(f"{name} …")
    try:
        build(aside)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)  # gives the space back where the disk was full
        raise
    os.rename(aside, done)
    return done


def link_tree(source: Path, target: Path) -> None:
    """Let ``target`` hold the files of ``source`` without a second copy (a copy where links are not possible)."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, place)
        except OSError:
            shutil.copyfile(path, place)
