"""Training schedules of top-k through fairseq's trainer: its updates, processes, checkpoints and log."""
import re
from pathlib import Path

import pytest
import torch
from in_process import call
from two_processes import train_over_gloo

from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.schedule import Schedule
from explicit_sparse.tools import average

USER_DIR = Path(average.__file__).resolve().parents[1]
SCHEDULE = ("--topk", 1, "--topk-warmup-updates", 6, "--topk-anneal-updates", 8, "--topk-dense-share", 0.2)


def train(data, flags, folder, *more):
    call(
        "train", data, "--user-dir", USER_DIR, "--save-dir", folder, "--cpu", "--seed", 7, "--no-progress-bar",
        "--update-epoch-batch-itr", "True", *flags, *more,
    )  # fmt: skip
    return torch.load(folder / "checkpoint_last.pt", map_location="cpu")["model"]


@pytest.fixture
def seen(monkeypatch):
    """(updates done, training, keys of the row, keys kept) at each call of the encoder's attention."""
    calls = []
    forward = SparseMultiheadAttention.forward

    def spy(self, *args, **kwargs):
        output, weights = forward(self, *args, **{**kwargs, "need_weights": True, "need_head_weights": True})
        if self.site == "encoder-self":
            calls.append((self.num_updates, self.training, weights.size(-1), int((weights > 0).sum(-1).max())))
        return output, weights

    monkeypatch.setattr(SparseMultiheadAttention, "forward", spy)
    return calls


@pytest.mark.slow
def test_k_at_each_update_of_a_training_and_none_of_it_in_validation(toy_data, toy_flags, tmp_path, seen, caplog):
    with caplog.at_level("INFO"), caplog.at_level("INFO", logger="fairseq"):  # the report's command quietens fairseq
        train(toy_data, toy_flags["train"], tmp_path, *SCHEDULE, "--max-update", 20, "--update-freq", 2, "--log-interval", 1)
    expected = Schedule(6, 8, 0.2, seed=7)
    in_training = [call for call in seen if call[1]]
    assert {updates for updates, *_ in in_training} == set(range(20))
    for updates, _, keys, kept in in_training:
        assert kept == expected.keys_kept(1, keys, updates)
    in_validation = [kept for _, training, _, kept in seen if not training]
    assert in_validation and set(in_validation) == {1}

    logged = re.findall(r'"k_of_100": "(\d+)".*?"num_updates"|\bk_of_100=(\d+)', caplog.text)
    assert [int(a or b) for a, b in logged][:20] == [expected.keys_kept(1, 100, t) for t in range(20)]


@pytest.mark.slow
def test_a_stopped_training_goes_on_as_if_it_had_not_stopped(toy_data, toy_flags, tmp_path):
    """Stopped within an epoch, and within the annealing: the parameters are the same to the bit."""
    whole = train(toy_data, toy_flags["train"], tmp_path / "whole", *SCHEDULE, "--max-update", 20)
    train(toy_data, toy_flags["train"], tmp_path / "parts", *SCHEDULE, "--max-update", 9)
    resumed = train(toy_data, toy_flags["train"], tmp_path / "parts", *SCHEDULE, "--max-update", 20)
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.slow
def test_generation_never_sees_the_schedule(toy_data, toy_flags, tmp_path, seen):
    train(toy_data, toy_flags["train"], tmp_path, "--topk", 1, "--topk-warmup-updates", 1000, "--max-update", 5)
    seen.clear()
    generate = ["generate", toy_data, "--user-dir", USER_DIR, "--cpu", "--path", tmp_path / "checkpoint_last.pt"]
    call(*generate, *toy_flags["generate"])
    assert {kept for *_, kept in seen} == {1}


@pytest.mark.slow
def test_training_after_the_softmax_and_translating_before_it(toy_data, toy_flags, tmp_path, monkeypatch):
    """What is left after the softmax, divided by its sum, is the softmax of what is left."""
    train(toy_data, toy_flags["train"], tmp_path, "--topk", 2, "--topk-order", "after", "--max-update", 60)
    generate = ["generate", toy_data, "--user-dir", USER_DIR, "--cpu", "--path", tmp_path / "checkpoint_last.pt"]

    def hypotheses(*flags):
        lines = call(*generate, *toy_flags["generate"], *flags).splitlines()
        return [line.split("\t")[2] for line in lines if line.startswith("H-")], [
            float(line.split("\t")[1]) for line in lines if line.startswith("H-")
        ]

    before = hypotheses("--model-overrides", "{'topk_order': 'before'}")
    renormalised = hypotheses("--model-overrides", "{'topk_renormalize': True}")
    assert before[0] == renormalised[0]
    assert before[1] == pytest.approx(renormalised[1], abs=2e-4)
    assert before[1] != pytest.approx(hypotheses()[1], abs=2e-4)


SPY = '''
import sys
sys.path.insert(0, {root!r})
import explicit_sparse
from explicit_sparse.schedule import Schedule

keys_kept = Schedule.keys_kept

def spy(self, k, keys, update):
    kept = keys_kept(self, k, keys, update)
    if keys == 100:
        with open("rank" + sys.argv[sys.argv.index("--distributed-rank") + 1], "a") as file:
            print(update, kept, file=file)
    return kept

Schedule.keys_kept = spy
'''


@pytest.mark.slow
def test_two_processes_draw_the_same(tmp_path, toy_data, toy_flags):
    user_dir = tmp_path / "spy"
    user_dir.mkdir()
    (user_dir / "__init__.py").write_text(SPY.format(root=str(USER_DIR.parent)))
    train_over_gloo(
        tmp_path, toy_data, "--topk", 2, "--max-update", 12, "--topk-dense-share", 0.5, *toy_flags["train"],
        user_dir=user_dir,
    )  # fmt: skip
    draws = [set((tmp_path / f"rank{rank}").read_text().splitlines()) for rank in range(2)]
    assert draws[0] == draws[1]
    assert len(draws[0]) >= 12 and len({line.split()[1] for line in draws[0]}) == 2
