"""The shell scripts on the toy task, called as a user calls them: from a folder outside the clone."""
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

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
            if path.is_file()
        }


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


def test_an_unknown_configuration_is_answered_with_what_there_is(make_pipeline):
    pipeline = make_pipeline("gone")
    pipeline.config.unlink()
    done = pipeline("train")
    assert done.returncode == 1 and "no configuration" in done.stderr and "demo/topk8.sh" in done.stderr
