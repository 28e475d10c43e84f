"""scripts/reproduce.sh: which runs it makes, how it goes on after failures and stops, and that it ends in the table."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Stands for scripts/run.sh: notes its arguments; fails while there is a file "broken-<experiment>-<seed>".
FAKE_RUN = """\
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
read_run_arguments "$@"
echo "$DATASET/$EXPERIMENT $SEED ${EXTRA[*]}" >> "$ROOT/calls"
mkdir -p "$RUN_DIR"
touch "$RUN_DIR/train.flags"
if [[ -e "$ROOT/together" ]]; then  # ends well only if the other experiment runs at the same time
  touch "$ROOT/started-$EXPERIMENT"
  for _ in {1..200}; do [[ ! -e "$ROOT/started-dense" || ! -e "$ROOT/started-topk8" ]] || break; sleep 0.1; done
  [[ -e "$ROOT/started-dense" && -e "$ROOT/started-topk8" ]] || die "alone"
  echo "threads ${OMP_NUM_THREADS:-}" >> "$ROOT/threads"
fi
if [[ -e "$ROOT/endless" ]]; then echo "$$" >> "$ROOT/pids"; sleep 300; fi
[[ ! -e "$ROOT/broken-$EXPERIMENT-$SEED" ]] || die "it broke"
echo '{}' > "$RUN_DIR/run.json"
"""
FAKE_TABLE = "import sys\nprint('TABLE', *sys.argv[1:])\n"


@pytest.fixture
def clone(tmp_path, outside_environment):
    """A clone whose runs and table are stand-ins; calling it returns the finished process."""
    for folder in ("scripts", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "scripts" / "run.sh").write_text(FAKE_RUN)
    (tmp_path / "explicit_sparse" / "tools").mkdir(parents=True)
    for name in ("__init__.py", "tools/__init__.py"):
        (tmp_path / "explicit_sparse" / name).touch()
    (tmp_path / "explicit_sparse" / "tools" / "table.py").write_text(FAKE_TABLE)
    environment = {name: value for name, value in outside_environment.items() if name != "RUNS_ROOT"}
    environment["CUDA_VISIBLE_DEVICES"] = ""

    def call(*arguments, **variables):
        return subprocess.run(
            ["bash", str(tmp_path / "scripts" / "reproduce.sh"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            cwd=os.sep,
            env={**environment, **variables},
        )

    def start(*arguments):
        return subprocess.Popen(
            ["bash", str(tmp_path / "scripts" / "reproduce.sh"), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    call.start = start
    call.folder = tmp_path
    call.calls = lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    return call


@pytest.mark.parametrize(
    "table, runs",
    [("main", 6), ("sparse-attention", 6), ("k-sweep", 10), ("phases", 5), ("sites", 6), ("patterns", 64)],
)
def test_dry_run_lists_and_does_nothing(clone, table, runs):
    done = clone(table, "--seeds", "1", "--dry-run")
    assert done.returncode == 0 and clone.calls() == []
    assert f"table '{table}': {runs} runs" in done.stderr and f"left: {runs} runs, about" in done.stderr
    assert done.stdout == ""


def test_failures_are_told_and_tried_again(clone):
    (clone.folder / "broken-topk8-2").touch()
    done = clone("main", "--dataset", "multi30k.de-en", "--seeds", "1,2", "--", "--max-epoch", "1")
    assert done.returncode == 1
    assert "failed, 1 of 4" in done.stderr and "scripts/run.sh configs/multi30k.de-en/topk8.sh --seed 2" in done.stderr
    order = [f"multi30k.de-en/{name} {seed} --max-epoch 1" for name in ("dense", "topk8") for seed in (1, 2)]
    assert clone.calls() == order
    assert (
        done.stdout.startswith("TABLE ")
        and done.stdout.count("run.json") == 3
        and "--published EST/main" in done.stdout
    )

    (clone.folder / "broken-topk8-2").unlink()
    done = clone("main", "--dataset", "multi30k.de-en", "--seeds", "1,2")
    assert done.returncode == 0 and clone.calls()[4:] == ["multi30k.de-en/topk8 2 "]
    assert "begun" in done.stderr and done.stderr.count("done") >= 3 and done.stdout.count("run.json") == 4


def test_two_runs_at_a_time_share_the_cores(clone):
    (clone.folder / "together").touch()
    done = clone("main", "--dataset", "multi30k.de-en", "--seeds", "1", "--jobs", "2", OMP_NUM_THREADS="")
    assert done.returncode == 0, done.stderr
    assert sorted(clone.calls()) == ["multi30k.de-en/dense 1 ", "multi30k.de-en/topk8 1 "]
    threads = (clone.folder / "threads").read_text().splitlines()
    assert threads == [f"threads {max(1, len(os.sched_getaffinity(0)) // 2)}"] * 2


def test_a_failure_among_several_at_a_time_is_told(clone):
    (clone.folder / "broken-dense-1").touch()
    done = clone("main", "--dataset", "multi30k.de-en", "--seeds", "1,2", "--jobs", "3")
    assert done.returncode == 1 and "failed, 1 of 4" in done.stderr and done.stdout.count("run.json") == 3
    assert "scripts/run.sh configs/multi30k.de-en/dense.sh --seed 1" in done.stderr and len(clone.calls()) == 4


def test_an_interrupted_call_leaves_nobody_behind(clone):
    (clone.folder / "endless").touch()
    process = clone.start("main", "--dataset", "multi30k.de-en", "--seeds", "1", "--jobs", "2")
    pids = clone.folder / "pids"
    deadline = time.monotonic() + 60
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(timeout=30) == 130
    while any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()):
        assert time.monotonic() < deadline + 30
        time.sleep(0.05)


def test_fairseqs_recipe_has_runs_of_its_own(clone):
    assert clone("main", "--dataset", "iwslt14.de-en", "--seeds", "1").returncode == 0
    done = clone("main", "--dataset", "iwslt14.de-en", "--seeds", "1", RECIPE="fairseq")
    assert len(clone.calls()) == 4
    assert "--baseline dense (fairseq recipe)" in done.stdout
    assert "topk8.fairseq/seed1/run.json" in done.stdout and "topk8/seed1/run.json" not in done.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "which table?"),
        (["mian"], "no table 'mian'"),
        (["main", "--dataset", "wmt99"], "--dataset takes one of"),
        (["main", "--seeds", "one"], "--seeds takes numbers"),
        (["main", "--jobs", "0"], "--jobs takes a number of runs at a time, not '0'"),
        (["main", "--dry"], "unknown option '--dry'"),
        (["sites", "--dataset", "kftt.ja-en", "--dry-run"], "not configured: kftt.ja-en/topk8-self"),
    ],
)
def test_arguments(clone, arguments, message):
    done = clone(*arguments)
    assert message in done.stderr
    assert done.returncode == (0 if "--dry-run" in arguments else 1)
