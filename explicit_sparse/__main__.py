"""The console command: ``explicit-sparse COMMAND ...``, or ``python -m explicit_sparse COMMAND ...``."""

import importlib
import os
import sys
from typing import Optional, Sequence

USER_DIR = os.path.dirname(os.path.abspath(__file__))

# name -> (module below explicit_sparse with a main(argv) that returns the exit status, what it does)
COMMANDS = {
    "prepare": ("tools.prepare.__main__", "download and prepare a data set"),
    "average": ("tools.average", "average the checkpoints of a training"),
    "score": ("tools.score", "BLEU and chrF of fairseq-generate's output"),
    "support": ("tools.support", "how many keys a model's attention uses"),
    "table": ("tools.table.__main__", "tables and curves from finished runs"),
    "report": ("tools.report.__main__", "a page about what models attend to"),
    "convert": ("tools.convert", "fairseq's own checkpoints to ours, and back"),
    "options": ("tools.options", "every option of the plugin, with its meaning"),
}


def usage() -> str:
    lines = ["usage: explicit-sparse COMMAND ...", ""]
    lines += [f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join([*lines, "", "explicit-sparse COMMAND --help says more."])


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command. Without one, print the folder that fairseq's ``--user-dir`` takes."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        print(usage(), file=sys.stderr)
        print(USER_DIR)
        return 0
    name, *rest = words
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in COMMANDS:
        print(f"error: no command {name!r}; there are: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return importlib.import_module(f".{COMMANDS[name][0]}", __package__).main(rest)


if __name__ == "__main__":
    sys.exit(main())
