"""Sparse attention for fairseq: importing this package registers its models and architectures."""

from . import compat  # noqa: F401  first: says what to do where fairseq is missing
from . import architectures  # noqa: F401  registers models and architectures with fairseq
from . import shutdown  # noqa: F401  a training that stops within an epoch exits in peace
from .version import __version__  # noqa: F401
