"""Training, averaging, translating and scoring through fairseq's own entry points."""
from pathlib import Path

import pytest
import torch
from in_process import call
from two_processes import train_over_gloo

from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.tools import average, score

USER_DIR = Path(average.__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory, toy_data, toy_flags):
    folder = tmp_path_factory.mktemp("checkpoints")
    call(
        "train", toy_data, "--user-dir", USER_DIR, "--save-dir", folder, "--cpu", "--seed", "1", "--no-progress-bar",
        "--topk", "2", "--max-epoch", "22", "--keep-last-epochs", "3", *toy_flags["train"],
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def averaged(checkpoints):
    path = checkpoints / "average.pt"
    average.main([str(checkpoints), "--output", str(path), "--last", "2"])
    return path


@pytest.fixture(scope="module")
def generate(toy_data, toy_flags, averaged):
    def translate(*flags):
        return call(
            "generate", toy_data, "--user-dir", USER_DIR, "--path", averaged, "--cpu", *toy_flags["generate"], *flags
        )

    return translate


@pytest.mark.slow
def test_thirteen_lines_in_thirteen_hypotheses_out(generate, toy_prepared):
    lines = generate("--gen-subset", "test").splitlines()
    scores, detokenised, _ = score.score_subset(lines, toy_prepared, "test")
    assert len(detokenised) == 13
    assert scores["bleu"]["score"] > 60


@pytest.mark.slow
def test_scoring_refuses_what_fairseq_drops(generate, toy_prepared):
    lines = generate("--gen-subset", "test", "--required-batch-size-multiple", "8").splitlines()
    count = sum(line.startswith("H-") for line in lines)
    if count == 13:
        pytest.skip("this fairseq keeps the last batch")
    with pytest.raises(ValueError, match=f"{count} hypotheses for 13 references.*--required-batch-size-multiple 1"):
        score.score_subset(lines, toy_prepared, "test")


@pytest.mark.slow
def test_averaging_is_the_mean_and_loads_with_the_check_on(checkpoints, averaged):
    paths = average.last_checkpoints(checkpoints, 2)
    models = [torch.load(path, map_location="cpu")["model"] for path in paths]
    result = torch.load(averaged, map_location="cpu")["model"]
    assert result.keys() == models[0].keys()
    for name, value in result.items():
        torch.testing.assert_close(value, (models[0][name] + models[1][name]) / 2, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_overrides_change_k_when_translating(generate, monkeypatch):
    seen = set()
    forward = SparseMultiheadAttention.forward

    def spy(self, *args, **kwargs):
        output, weights = forward(self, *args, **{**kwargs, "need_weights": True, "need_head_weights": True})
        seen.add(int((weights > 0).sum(-1).max()))
        return output, weights

    monkeypatch.setattr(SparseMultiheadAttention, "forward", spy)
    generate("--gen-subset", "test")
    assert max(seen) == 2
    seen.clear()
    generate("--gen-subset", "test", "--model-overrides", "{'topk': 1}")
    assert max(seen) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["auto", "long"])
def test_two_processes_over_gloo(tmp_path, toy_data, toy_flags, kernel):
    """Two processes, each on half of the data, from a folder outside the clone, agree on the model."""
    logs = train_over_gloo(
        tmp_path, toy_data, "--topk", 2, "--max-epoch", 2, "--attention-kernel", kernel, *toy_flags["train"],
        user_dir=USER_DIR,
    )  # fmt: skip
    for rank, log in enumerate(logs):
        assert f"distributed init (rank {rank})" in log
    assert torch.load(tmp_path / "checkpoints" / "checkpoint2.pt", map_location="cpu")["model"]
