"""Set-up: what can be checked without installing anything."""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from explicit_sparse import __version__

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts" / "setup.sh"


def run(*command, cwd=None, **environment):
    environment = {**os.environ, **environment}
    command = list(map(str, command))
    return subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=environment
    )


def setup_py(field):
    done = run(sys.executable, ROOT / "setup.py", f"--{field}")
    return done.stdout.strip().splitlines()[-1]


def test_version_is_written_once():
    assert setup_py("version") == __version__
    assert __version__ not in (ROOT / "setup.py").read_text()


def test_every_hard_requirement_and_extra_is_pinned():
    text = (ROOT / "setup.py").read_text()
    requirements = re.findall(r"""["']([A-Za-z-]+)(?:[=>]=[^"';]*)?(?:; [^"']*)?["']""", text[text.index("install_requires") :])
    wanted = set(requirements) - {"test", "plot", "bench", "setuptools"}
    pinned = set(re.findall(r"^([a-zA-Z-]+)[=<]", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {"torch", "entmax", "sacrebleu", "subword-nmt", "sentencepiece", "pytest", "fairseq"} <= wanted
    assert wanted - pinned == set()


def test_an_installed_package_has_what_is_no_python(tmp_path):
    build = ["egg_info", "--egg-base", tmp_path, "build_py", "--build-lib", tmp_path]
    done = run(sys.executable, ROOT / "setup.py", "--quiet", *build, cwd=ROOT)
    assert (tmp_path / "explicit_sparse" / "tools" / "report" / "report.html.jinja").exists(), done.stderr


def test_no_fairseq_is_forced_on_those_who_have_one():
    text = (ROOT / "setup.py").read_text()
    required = text[text.index("install_requires") : text.index("extras_require")]
    assert '"torch"' in required and "fairseq" not in required


def fake_environment(folder, stamp):
    """A virtual environment of links, so that set-up believes it has one, with a stamp."""
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "explicit-sparse-setup").write_text(stamp)
    return folder


def fingerprint():
    files = '"$0/setup.py" "$0/constraints.txt" "$0"/explicit_sparse/kernels/*.cpp'
    done = run("bash", "-c", f"cat {files} | cksum", ROOT)
    return f"{ROOT} 3.{sys.version_info[1]} {done.stdout}"


def test_a_second_call_is_quick(tmp_path):
    environment = fake_environment(tmp_path, fingerprint())
    began = time.monotonic()
    done = run("bash", SETUP, VIRTUAL_ENV=str(environment))
    assert done.returncode == 0 and "already done" in done.stderr
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("minor, message", [(13, "too new"), (7, "too old")])
def test_an_unusable_python_is_named_with_what_to_do(tmp_path, minor, message):
    # A clone of its own, since a clone with .venv does not look for an interpreter.
    (tmp_path / "scripts").mkdir()
    for name in ("setup.sh", "lib.sh"):
        (tmp_path / "scripts" / name).write_text((ROOT / "scripts" / name).read_text())
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {minor}\n")
    python.chmod(0o755)
    done = run("bash", tmp_path / "scripts" / "setup.sh", PYTHON=str(python), VIRTUAL_ENV="")
    assert done.returncode == 1
    assert f"Python 3.{minor}" in done.stderr and message in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_help_of_the_launcher():
    done = run(sys.executable, ROOT / "scripts" / "launch.py", "--help")
    assert done.returncode == 0 and "--log" in done.stdout
