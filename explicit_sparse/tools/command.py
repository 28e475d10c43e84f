"""What every tool's ``main`` shares: one class of errors, and one place that turns them into a line and a status."""

import errno
import functools
import os
import sys
from typing import Callable, Optional, Sequence


class ToolError(ValueError):
    """What keeps a tool from its work, for a person: what was wrong, which value, what to do next. One line."""


def command(main: Callable[[Optional[Sequence[str]]], Optional[int]]) -> Callable[[Optional[Sequence[str]]], int]:
    """Make ``main(argv)`` end every expected failure in one line on stderr and a status, never in a traceback.

    Status 0 where ``main`` returns None; 1 after a :class:`ToolError` or an error of the operating system
    (a file that is not there, a full disk); 130 after Ctrl-C; argparse ends with 2 by itself.
    What is left is a defect of ours and keeps its traceback.
    """

    @functools.wraps(main)
    def run(argv: Optional[Sequence[str]] = None) -> int:
        try:
            status = main(argv) or 0
            sys.stdout.flush()
            return status
        except ToolError as error:
            return fail(str(error))
        except BrokenPipeError:  # the reader of stdout has seen enough, as in `... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit
            return 1
        except OSError as error:
            return fail(explain(error))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130

    return run


def explain(error: OSError) -> str:
    """An error of the operating system in one line, with what to do where that is known."""
    where = f"{error.filename}: " if error.filename else ""
    advice = {
        errno.ENOSPC: "; make room and call the same command again",
        errno.EDQUOT: "; make room and call the same command again",
    }.get(error.errno, "")
    return f"{where}{error.strerror or error}{advice}"


def fail(message: str) -> int:
    """Print an error for a person and return the exit status that goes with it."""
    print(f"error: {printable(message)}", file=sys.stderr)
    return 1


def printable(text: str) -> str:
    """``text`` on one line and without control characters: names from files must not steer a terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
