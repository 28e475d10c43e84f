"""scripts/launch.py: logs, progress and the time left."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LAUNCH = Path(__file__).resolve().parents[2] / "scripts" / "launch.py"
TRAINING = """
import json, time
for update in range(1, 5):
    time.sleep(0.05)
    values = {"epoch": 1, "update": update / 10, "loss": "7.25", "wps": "5000.4", "num_updates": str(update * 100)}
    print("2026-01-01 | INFO | train_inner |", json.dumps(values))
"""


def launch(folder, code, *options, command=()):
    command = [sys.executable, "-c", code, *command]
    return subprocess.run(
        [sys.executable, str(LAUNCH), "--log", "x.log", "--result", "x.json", "--every", "0", *options, "--", *command],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip


def test_updates_and_time_left(tmp_path):
    done = launch(tmp_path, TRAINING, "--title", "training", command=["--max-update", "9", "--max-update", "500"])
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert lines[0] == "training:  20 %, epoch 1, update 100, loss 7.25, 5000 tokens/s"
    assert lines[3].startswith("training:  80 %, 0:00 left, epoch 1, update 400")


def test_epochs_count_where_they_end_the_training(tmp_path):
    done = launch(tmp_path, TRAINING, command=["--max-epoch=2", "--max-update", "1000000"])
    assert "20 %" in done.stderr.splitlines()[3]


def test_hypotheses_are_counted(tmp_path):
    code = "for i in range(4): print('S-%d\\tx' % i); print('H-%d\\t-1\\tx' % i)"
    done = launch(tmp_path, code, "--sentences", "4")
    assert [line.split(",")[-1] for line in done.stderr.splitlines()] == [f" {i} of 4 sentences" for i in (1, 2, 3, 4)]


def test_the_result_is_written_after_success(tmp_path):
    assert launch(tmp_path, "print('hello')").returncode == 0
    result = json.loads((tmp_path / "x.json").read_text())
    assert "hello" in result["command"] and result["seconds"] >= 0 and result["peak_memory_mb"] > 1
    assert (tmp_path / "x.log").read_text().splitlines()[0] == "$ " + result["command"]


def test_a_resumed_log_keeps_its_past(tmp_path):
    for word in ("first", "second"):
        launch(tmp_path, f"print('{word} call')")
    assert [line for line in (tmp_path / "x.log").read_text().splitlines() if line.endswith(" call")] == [
        "first call",
        "second call",
    ]


def test_a_failure_is_shown_and_leaves_no_result(tmp_path):
    done = launch(tmp_path, "print('the reason'); raise SystemExit(3)")
    assert done.returncode == 3
    assert "the reason" in done.stderr and "failed with status 3. Its whole log: x.log" in done.stderr
    assert not (tmp_path / "x.json").exists()


def test_the_command_ends_with_the_scripts_that_it_runs_for(tmp_path):
    runner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    environment = dict(os.environ, EXPLICIT_SPARSE_RUNNERS=f"{os.getpid()} {runner.pid}")
    process = subprocess.Popen(
        [sys.executable, str(LAUNCH), "--log", "x.log", "--", sys.executable, "-c", "import time; time.sleep(60)"],
        cwd=tmp_path, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    time.sleep(2)
    assert process.poll() is None
    runner.kill()  # and nobody asks for its status: it stays as a zombie
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    runner.communicate()


def test_ending_the_launcher_ends_the_command(tmp_path):
    code = "import os, time; print(os.getpid()); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, str(LAUNCH), "--log", "x.log", "--", sys.executable, "-c", code],
        cwd=tmp_path, stderr=subprocess.PIPE,
    )  # fmt: skip
    log = tmp_path / "x.log"
    limit = time.monotonic() + 20
    while not (log.exists() and len(log.read_text().splitlines()) > 1) and time.monotonic() < limit:
        time.sleep(0.05)
    child = int(log.read_text().splitlines()[1])
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        return
    raise AssertionError("the command outlived its launcher")
