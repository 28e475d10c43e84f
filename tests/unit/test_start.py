"""Tools that work on text and records start without torch and fairseq, which take seconds to load."""

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.version_info < (3, 10), reason="Python does not tell there which module -m names")
@pytest.mark.parametrize("tool", ["prepare multi30k.de-en", "table", "score", "resume", "pilot"])
def test_help_loads_neither_torch_nor_fairseq(tool):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", *f"explicit_sparse.tools.{tool} --help".split()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0 and "usage" in done.stdout
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"torch", "fairseq"}
