"""fairseq-preprocess, and a check that it wrote what it was given."""

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Dict, Sequence

from ..command import ToolError
from .parallel import end_with_parent

_INDEX_MAGIC = b"MMIDIDX\x00\x00"


def sentences_in(index: Path) -> int:
    """How many sentences a binarised subset has, from the header of its ``.idx`` file."""
    with open(index, "rb") as data:
        header = data.read(len(_INDEX_MAGIC) + 17)
    if not header.startswith(_INDEX_MAGIC) or len(header) < len(_INDEX_MAGIC) + 17:
        raise ToolError(f"{index} is not an index as fairseq-preprocess writes it")
    return struct.unpack("<Q", header[-8:])[0]


def binarise(
    text: Path,
    languages: Sequence[str],
    counts: Dict[str, int],
    bin_folder: Path,
    workers: int,
    joined_dictionary: bool = True,
    dictionary_size: int = 0,
) -> None:
    """Binarise ``text/SUBSET.LANGUAGE`` into ``bin_folder``; a ``dictionary_size`` of 0 keeps all words.

    Raises :class:`ToolError` where fairseq-preprocess fails, or wrote another number of sentences than ``counts``.
    """
    tests = [subset for subset in counts if subset.startswith("test")]
    command = [
        sys.executable,
        "-m",
        "fairseq_cli.preprocess",
        *("--source-lang", languages[0], "--target-lang", languages[1]),
        *("--trainpref", str(text / "train"), "--validpref", str(text / "valid")),
        *("--testpref", ",".join(str(text / test) for test in tests)),
        *("--destdir", str(bin_folder), "--workers", str(workers)),
    ]
    if joined_dictionary:
        command.append("--joined-dictionary")
    if dictionary_size:
        command += ["--nwordssrc", str(dictionary_size)]
        command += [] if joined_dictionary else ["--nwordstgt", str(dictionary_size)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=environment,
        preexec_fn=end_with_parent,
    )
    if done.returncode:
        tail = "\n  ".join(done.stdout.decode(errors="replace").strip().splitlines()[-5:])
        raise ToolError(f"fairseq-preprocess failed with status {done.returncode}:\n  {tail}")
    for subset, expected in counts.items():
        for language in languages:
            found = sentences_in(bin_folder / f"{subset}.{languages[0]}-{languages[1]}.{language}.idx")
            if found != expected:
                raise ToolError(
                    f"fairseq-preprocess wrote {found:,} sentences of {subset}.{language} instead of {expected:,}"
                )
    # Its log has today's paths and times in it; the data must be the same on every run.
    (bin_folder / "preprocess.log").unlink()
