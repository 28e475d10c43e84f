"""What a number depends on besides the code: versions, hardware, commit. Standard library only."""

import os
import platform
import subprocess
from importlib import metadata
from typing import Dict, Optional

from ..version import __version__
from .files import ROOT

FAIRSEQ_DISTRIBUTIONS = ("ve-fairseq", "fairseq-fixed", "fairseq")
DISTRIBUTIONS = ("torch", "sacrebleu", "entmax", "sacremoses", "subword-nmt", "sentencepiece", "numpy")


def versions() -> Dict[str, Optional[str]]:
    """Versions of the project, Python and the packages that a score depends on; None = not installed."""
    found = {"explicit_sparse": __version__, "python": platform.python_version()}
    found.update((name, version_of(name)) for name in DISTRIBUTIONS)
    installed = [(name, version_of(name)) for name in FAIRSEQ_DISTRIBUTIONS]
    found["fairseq"] = next((f"{version} ({name})" for name, version in installed if version), None)
    return found


def version_of(distribution: str) -> Optional[str]:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The processor as Linux calls it, else as Python does."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> Optional[str]:
    """The clone's commit, with ``+`` behind it where tracked files differ from it; None outside a clone."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ).stdout.decode()

    try:
        if os.path.realpath(git("rev-parse", "--show-toplevel").strip()) != str(ROOT):
            return None  # installed inside somebody else's repository
        changed = git("status", "--porcelain", "--untracked-files=no").strip()
        return git("rev-parse", "--short=12", "HEAD").strip() + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
