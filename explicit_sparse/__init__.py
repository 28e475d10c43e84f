"""Sparse attention for fairseq: importing this package registers its models and architectures."""

import os
import sys

from .version import __version__  # noqa: F401


def _is_our_own_command() -> bool:
    """Whether Python was started for one of our tools: ``explicit-sparse ...`` or ``python -m explicit_sparse...``.

    Loading torch and fairseq takes seconds, and most tools need neither. Those that do register by themselves.
    """
    if os.path.basename(sys.argv[0]) == "explicit-sparse":
        return True
    words = getattr(sys, "orig_argv", [])  # Python >= 3.10; before that, tools start slowly
    return "-m" in words[:-1] and words[words.index("-m") + 1].split(".")[0] == "explicit_sparse"


def register() -> None:
    """Register models and architectures with fairseq. A second call does nothing."""
    from . import compat  # noqa: F401  first: says what to do where fairseq is missing
    from . import architectures  # noqa: F401  registers models and architectures with fairseq
    from . import shutdown  # noqa: F401  a training that stops within an epoch exits in peace


if not _is_our_own_command():
    register()
