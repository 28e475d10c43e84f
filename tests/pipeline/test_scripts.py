"""The shell scripts on the toy task, called as a user calls them: from a folder outside the clone."""
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from explicit_sparse.tools import checkpoints

ROOT = Path(__file__).resolve().parents[2]

CONFIG = """\
SYSTEM="top-k 2"
TRAIN=({train} --topk 2 --max-epoch {epochs} --keep-last-epochs 3)
AVERAGE=({average})
GENERATE=({generate})
"""
EPOCHS = 22


class Pipeline:
    """Calls scripts/NAME.sh with one configuration, in an environment and a folder outside the clone."""

    def __init__(self, folder, environment, config):
        self.folder, self.environment, self.config = folder, environment, config
        self.run_dir = Path(environment["RUNS_ROOT"]) / "toy" / config.stem / "seed1"

    def __call__(self, script, *arguments):
        command = ["bash", str(ROOT / "scripts" / f"{script}.sh"), str(self.config), *arguments]
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=self.folder, env=self.environment
        )

    def files(self):
        return {
            str(path.relative_to(self.run_dir)): path.stat().st_mtime_ns
            for path in self.run_dir.rglob("*")
            if path.is_file() and path.name != ".owner"
        }

    def start(self, script):
        """Calls a script and does not wait: (process, standard error's file)."""
        errors = self.folder / f"{script}.err"
        with errors.open("wb") as file:
            process = subprocess.Popen(
                ["bash", str(ROOT / "scripts" / f"{script}.sh"), str(self.config)],
                cwd=self.folder, env=self.environment, stderr=file, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return process, errors

    def wait_for_checkpoint(self, process):
        last = self.run_dir / "checkpoints" / "checkpoint_last.pt"
        wait_until(lambda: last.exists() or process.poll() is not None)
        assert last.exists()
        return last

    def trainings(self):
        """Numbers of the processes that train in this run's folder, wherever they hang in the tree."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(self.run_dir / "checkpoints").encode() in words and not any(b"launch.py" in word for word in words):
                found.append(int(folder.name))
        return found


def wait_until(condition, seconds=120):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.2)
    assert condition()


@pytest.fixture(scope="session")
def make_pipeline(tmp_path_factory, toy_prepared, toy_flags, outside_environment):
    def make(name, epochs=EPOCHS, average="--last 2"):
        folder = tmp_path_factory.mktemp("user")
        config = folder / "configs" / "toy" / f"{name}.sh"
        config.parent.mkdir(parents=True)
        flags = {part: " ".join(values) for part, values in toy_flags.items()}
        config.write_text(CONFIG.format(epochs=epochs, average=average, **flags))
        environment = dict(outside_environment, DATA_ROOT=str(toy_prepared.parent))
        return Pipeline(folder, environment, config)

    return make


@pytest.fixture(scope="session")
def finished(make_pipeline):
    """A run of the whole chain, and what it printed."""
    pipeline = make_pipeline("topk2", average="--last 1,2 --select-on valid")
    pipeline.done = pipeline("run")
    assert pipeline.done.returncode == 0, pipeline.done.stderr
    return pipeline


pytestmark = pytest.mark.slow


def test_the_chain_learns_the_task(finished, toy_prepared):
    scores = json.loads((finished.run_dir / "scores.json").read_text())["test"]
    assert scores["sentences"] == 13
    assert scores["bleu"]["score"] > 60
    assert "sacreBLEU" in finished.done.stdout and scores["bleu"]["signature"] in finished.done.stdout
    hypotheses = (finished.run_dir / "test.hyp").read_text().splitlines()
    references = (toy_prepared / "ref" / "test.en").read_text().splitlines()
    assert len(hypotheses) == 13 and "@@" not in "".join(hypotheses)
    assert sum(h == r for h, r in zip(hypotheses, references)) > 3


def test_progress_is_visible(finished):
    assert "training topk2:" in finished.done.stderr and "translating test:" in finished.done.stderr


def test_the_record_is_complete(finished):
    run = json.loads((finished.run_dir / "run.json").read_text())
    assert run["format"] == 1 and run["system"] == "top-k 2" and run["seed"] == 1
    assert run["options"]["topk"] == 2
    assert run["train"]["epochs"] == EPOCHS and run["train"]["tokens_per_second"] > 0
    assert run["train"]["peak_memory_mb"] > 10
    assert run["test"]["test"]["decode_tokens_per_second"] > 0
    assert run["checkpoints"]["used"] == "average.pt" and run["checkpoints"]["chosen_on"] == "valid"
    for site in ("encoder-self", "decoder-self", "cross"):
        assert 0 < run["support"][site]["support"] <= 2.01, site
    assert "--topk 2" in run["command"]["train"] and "--beam 3" in run["command"]["generate"]


def test_nothing_half_written_is_left(finished):
    assert not [name for name in finished.files() if ".partial" in name or ".average-" in name]


def test_a_second_call_does_no_work_twice(finished):
    before = finished.files()
    again = finished("run")
    assert again.returncode == 0, again.stderr
    assert finished.files() == before
    assert again.stderr.count("already done") >= 5
    assert again.stdout == finished.done.stdout  # the scores are shown all the same


def test_other_flags_do_not_pass_for_the_same_run(finished):
    again = finished("train", "--", "--dropout", "0.3")
    assert again.returncode == 1
    assert "was trained with other flags" in again.stderr and "--force" in again.stderr


def test_force_repeats_a_step(finished):
    before = finished.files()
    again = finished("score", "--force")
    assert again.returncode == 0, again.stderr
    after = finished.files()
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"test.hyp", "test.hyp.tok", "scores.json", "support.json", "support.log", "run.json"}


def test_another_subset_can_be_translated(finished):
    before = finished.files()
    for script in ("generate", "score"):
        done = finished(script, "--subset", "valid")
        assert done.returncode == 0, done.stderr
    assert "valid (toy valid), 21 sentences" in done.stdout
    assert len((finished.run_dir / "valid.hyp").read_text().splitlines()) == 21
    after = finished.files()
    assert all(after[name] == before[name] for name in ("test.hyp", "generate-test.log"))


def test_a_failed_translation_leaves_nothing_and_names_the_log(finished):
    before = finished.files()
    done = finished("generate", "--subset", "valid", "--force", "--", "--no-such-flag")
    assert done.returncode != 0
    log = finished.run_dir / "generate-valid.log.partial"
    assert "--no-such-flag" in done.stderr and str(log) in done.stderr and log.exists()
    assert not (finished.run_dir / "generate-valid.log").exists()
    log.unlink()
    assert finished.files().keys() - before.keys() == set()


def test_steps_ask_for_the_one_before(make_pipeline):
    pipeline = make_pipeline("untrained")
    for script in ("average", "generate", "score"):
        done = pipeline(script)
        assert done.returncode == 1 and "scripts/train.sh" in done.stderr


def test_a_failed_training_is_not_taken_for_a_finished_one(make_pipeline):
    pipeline = make_pipeline("broken")
    done = pipeline("train", "--", "--encoder-topk", "-3")
    assert done.returncode != 0
    assert "encoder-topk" in done.stderr and str(pipeline.run_dir / "train.log") in done.stderr
    assert not (pipeline.run_dir / "train.json").exists()


def test_a_stopped_training_goes_on(make_pipeline):
    pipeline = make_pipeline("stopped", epochs=400)
    script = ROOT / "scripts" / "launch.py"
    assert script.exists()
    process = subprocess.Popen(
        ["bash", str(ROOT / "scripts" / "train.sh"), str(pipeline.config)],
        cwd=pipeline.folder, env=pipeline.environment, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    checkpoint = pipeline.run_dir / "checkpoints" / "checkpoint_last.pt"
    limit = time.monotonic() + 120
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    subprocess.run(["kill", "--", f"-{process.pid}"], check=False)
    process.communicate(timeout=60)
    assert checkpoint.exists() and not (pipeline.run_dir / "train.json").exists()

    # The rest, cut short: the flags are told apart from the first call's by a file, which says how to go on.
    (pipeline.run_dir / "train.flags").unlink()
    done = pipeline("train", "--", "--stop-time-hours", "0.0001")
    assert done.returncode == 0, done.stderr
    assert "going on from checkpoint_last.pt" in done.stderr
    log = (pipeline.run_dir / "train.log").read_text()
    assert log.count("$ fairseq-train") == 2 and "Loaded checkpoint" in log.split("$ fairseq-train")[2]


needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "kill"])
def test_a_runner_that_dies_takes_its_training_along(make_pipeline, number):
    """Only the outermost script gets the signal, as from systemd, or from a user who reads its number off ps."""
    pipeline = make_pipeline(f"dies-{number}", epochs=400)
    process, _ = pipeline.start("run")
    pipeline.wait_for_checkpoint(process)
    assert pipeline.trainings()
    process.send_signal(number)
    process.wait(timeout=20)
    wait_until(lambda: not pipeline.trainings(), 40)
    assert not (pipeline.run_dir / "train.json").exists()


@needs_proc
def test_two_runs_never_share_a_folder(make_pipeline):
    pipeline = make_pipeline("twice", epochs=400)
    process, _ = pipeline.start("run")
    try:
        pipeline.wait_for_checkpoint(process)
        before = pipeline.trainings()
        for script in ("run", "train", "average", "generate", "score"):
            second = pipeline(script)
            assert second.returncode == 1
            assert f"error: {pipeline.run_dir} is in use by process {process.pid} on " in second.stderr
        assert pipeline.trainings() == before and process.poll() is None
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not pipeline.trainings(), 40)
    (pipeline.run_dir / "train.flags").unlink()
    assert pipeline("train", "--", "--stop-time-hours", "0.0001").returncode == 0  # the lock went with its owner


@pytest.mark.parametrize("damage", ["empty", "cut"])
def test_a_checkpoint_cut_short_does_not_stop_a_run(make_pipeline, damage):
    pipeline = make_pipeline(f"damaged-{damage}", epochs=2)
    assert pipeline("train").returncode == 0
    last = pipeline.run_dir / "checkpoints" / "checkpoint_last.pt"
    last.write_bytes(b"" if damage == "empty" else last.read_bytes()[:-1000])
    (pipeline.run_dir / "train.json").unlink()
    done = pipeline("train")
    assert done.returncode == 0, done.stderr
    assert f"{last} was cut short: going on from checkpoint" in done.stderr
    log = (pipeline.run_dir / "train.log").read_text()
    assert "Loaded checkpoint" in log.split("$ fairseq-train")[2]


def test_a_folder_without_a_whole_checkpoint_begins_anew(make_pipeline):
    pipeline = make_pipeline("hopeless", epochs=1)
    (pipeline.run_dir / "checkpoints").mkdir(parents=True)
    (pipeline.run_dir / "checkpoints" / "checkpoint_last.pt").touch()
    done = pipeline("train")
    assert done.returncode == 0, done.stderr
    assert "holds no whole checkpoint: training begins anew" in done.stderr


@pytest.mark.parametrize("updates", [9, 20], ids=["within an epoch", "at another place"])
def test_a_stopped_training_becomes_the_same_model(make_pipeline, updates):
    """Bit for bit: fairseq's batches are those that the run would have had."""
    whole, parts = make_pipeline(f"whole-{updates}", epochs=3), make_pipeline(f"parts-{updates}", epochs=3)
    assert whole("train").returncode == 0
    assert parts("train", "--", "--max-update", str(updates)).returncode == 0
    for name in ("train.json", "train.flags"):
        (parts.run_dir / name).unlink()
    assert parts("train").returncode == 0
    expected, found = (
        checkpoints.read(pipeline.run_dir / "checkpoints" / "checkpoint3.pt")["model"]
        for pipeline in (whole, parts)
    )
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_an_unknown_configuration_is_answered_with_what_there_is(make_pipeline):
    pipeline = make_pipeline("gone")
    pipeline.config.unlink()
    done = pipeline("train")
    assert done.returncode == 1 and "no configuration" in done.stderr and "demo/topk8.sh" in done.stderr
