"""The compiled kernels' libraries: built where there is a compiler, used only where they fit their source."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from explicit_sparse.kernels import library

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def switched_on(monkeypatch):
    monkeypatch.delenv("EXPLICIT_SPARSE_KERNELS", raising=False)


@pytest.mark.parametrize("name", library.NAMES)
def test_the_environment_switches_it_off(monkeypatch, name):
    monkeypatch.setenv("EXPLICIT_SPARSE_KERNELS", "0")
    loaded, reason = library.load(name)
    assert loaded is None and "EXPLICIT_SPARSE_KERNELS" in reason


@pytest.mark.parametrize("content, message", [(None, "not built"), (b"\x7fELF of another machine", "does not load")])
def test_a_missing_or_broken_library_is_not_used(tmp_path, content, message):
    if content is not None:
        (tmp_path / ("_short" + sysconfig.get_config_var("EXT_SUFFIX"))).write_bytes(content)
    loaded, reason = library.load("short", tmp_path)
    assert loaded is None and message in reason


def build(folder, **environment):
    command = [sys.executable, "setup.py", "build_ext", "--build-lib", str(folder / "lib"), "--build-temp", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**os.environ, **environment})
    return folder / "lib" / "explicit_sparse" / "kernels"


def test_installation_goes_on_without_a_compiler(tmp_path):
    assert not list(build(tmp_path, CC="false", CXX="false").glob("_*"))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_installation_builds_libraries_that_load_beside_their_own_source_alone(tmp_path):
    folder = build(tmp_path)
    for name in library.NAMES:
        source = (library.HERE / (name + ".cpp")).read_text()
        (folder / (name + ".cpp")).write_text(source)
        loaded, reason = library.load(name, folder)
        assert loaded is not None and reason == ""
        (folder / (name + ".cpp")).write_text(source + "// changed\n")
        loaded, reason = library.load(name, folder)
        assert loaded is None and "another version" in reason and "setup.sh --force" in reason


@pytest.mark.slow
def test_setup_says_which_is_in_use(tmp_path):
    """A set-up in which pip does nothing, since all is there."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text('#!/bin/sh\n[ "$2" = pip ] || exec "{}" "$@"\n'.format(sys.executable))
    python.chmod(0o755)
    environment = {**os.environ, "VIRTUAL_ENV": str(tmp_path), "EXPLICIT_SPARSE_KERNELS": "0"}
    done = subprocess.run(["bash", "scripts/setup.sh"], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "compiled kernels: no (EXPLICIT_SPARSE_KERNELS is 0); pure torch" in done.stderr
