"""Calls fairseq's command lines without a process of their own, which saves importing torch each time."""
import contextlib
import io
import sys
from importlib import import_module


def call(program, *arguments):
    """Calls a fairseq command line in this process; returns what it wrote to stdout."""
    module = import_module(f"fairseq_cli.{program}")
    argv, sys.argv = sys.argv, [f"fairseq-{program}", *map(str, arguments)]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            module.cli_main()
    finally:
        sys.argv = argv
    return printed.getvalue()
