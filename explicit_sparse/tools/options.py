"""Prints every option of the plugin, with its default and its meaning, from where they are declared."""

import argparse
import sys

from fairseq.dataclass.utils import gen_parser_from_dataclass

from explicit_sparse.config import SparseAttentionConfig

from .command import command


@command
def main(argv=None) -> None:
    """Parse the command line and print."""
    parser = argparse.ArgumentParser(
        prog="explicit-sparse options", description="Every option that the plugin adds to fairseq-train.", allow_abbrev=False
    )
    parser.parse_args(argv)
    options = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    gen_parser_from_dataclass(options, SparseAttentionConfig())
    print(options.format_help(), end="")


if __name__ == "__main__":
    sys.exit(main())
