"""Every configuration is understood by fairseq and the plugin, keeps all sentences, and says how it is run."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from explicit_sparse.config import SparseAttentionConfig

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted(path for path in (ROOT / "configs").glob("*/*.sh") if not path.name.endswith(".inc.sh"))
PAPER_DATASETS = sorted({path.parent.name for path in CONFIGS} - {"demo", "open.de-en"})
EVERYWHERE = {"dense", "topk4", "topk8", "topk16", "topk32", "sparsemax", "entmax15", "entmax", "rela"}
PRINT = r"""
source scripts/lib.sh
SEED=1
for config in "$@"; do
  load_config "$config"
  printf '%s\0' "$RUN_DIR" "$SYSTEM" "${#TRAIN[@]}" "${TRAIN[@]}" "${#GENERATE[@]}" "${GENERATE[@]}" \
    "${#AVERAGE[@]}" "${AVERAGE[@]}" "${#SCORE[@]}" "${SCORE[@]}"
done
"""


def load(configs, **environment):
    """{path: (run folder, system, {"TRAIN": flags, ...})} of configurations, as the scripts see them."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment}
    command = ["bash", "-c", PRINT, "-", *map(str, configs)]
    fields = iter(
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
        .stdout.decode()
        .split("\0")
    )
    take = lambda: [next(fields) for _ in range(int(next(fields)))]
    return {
        path: (next(fields), next(fields), {name: take() for name in ("TRAIN", "GENERATE", "AVERAGE", "SCORE")})
        for path in configs
    }


@pytest.fixture(scope="module", params=["paper", "fairseq"])
def loaded(request):
    few = ("multi30k.de-en", "open.de-en", "demo")
    return load(
        [path for path in CONFIGS if request.param == "paper" or path.parent.name not in few], RECIPE=request.param
    )


RECORDED = json.loads(gzip.decompress((ROOT / "tests" / "data" / "configurations.json.gz").read_bytes()))


@pytest.mark.parametrize("gpus", [0, 1, 4, 8])
@pytest.mark.parametrize("recipe", ["paper", "fairseq"])
def test_every_value_of_every_recipe_is_the_recorded_one(recipe, gpus):
    """A slip of the hand in a learning rate, a beam or a k is seen here. A change on purpose is recorded anew."""
    expected = {
        ROOT / "configs" / f"{entry['config']}.sh": entry
        for entry in RECORDED
        if (entry["recipe"], entry["gpus"]) == (recipe, gpus) and "error" not in entry
    }
    assert len(expected) > 10
    found = load(list(expected), RECIPE=recipe, CUDA_VISIBLE_DEVICES=",".join(map(str, range(gpus))))
    for path, (_, system, flags) in found.items():
        recorded = expected[path]
        assert system == recorded["system"], path
        assert flags == {name: recorded[name.lower()] for name in flags}, path


def test_every_configuration_is_recorded():
    assert {entry["config"] for entry in RECORDED} == {f"{path.parent.name}/{path.stem}" for path in CONFIGS}


def test_flags_are_fairseqs_and_the_plugins(loaded):
    from fairseq import options

    from explicit_sparse.tools import average

    for path, (_, system, flags) in loaded.items():
        train = options.parse_args_and_arch(options.get_training_parser(), ["data", *flags["TRAIN"]])
        SparseAttentionConfig.from_model(train).resolve()
        generate = options.parse_args_and_arch(
            options.get_generation_parser(), ["data", "--path", "model", *flags["GENERATE"]]
        )
        # Other fairseqs' default drops the last sentences of a data set.
        assert train.required_batch_size_multiple == generate.required_batch_size_multiple == 1, path
        assert train.max_epoch or train.max_update, path
        if flags["AVERAGE"]:
            arguments = average.parse_args(["x", "--output", "y", "--prepared", "z", *flags["AVERAGE"]])
            kept = train.keep_interval_updates if arguments.by == "update" else train.keep_last_epochs
            assert kept < 0 or kept >= max(arguments.last), path
        assert system, path


def test_systems_of_a_data_set_have_names_of_their_own(loaded):
    seen = {}
    for path, (_, system, flags) in loaded.items():
        assert seen.setdefault((path.parent.name, system), path) == path
        flags_key = (path.parent.name, tuple(flags["TRAIN"]))
        assert seen.setdefault(flags_key, path) == path


def test_headers_name_the_commands():
    for path in CONFIGS:
        name = path.relative_to(ROOT)
        text = path.read_text(encoding="utf-8")
        assert f"bash scripts/run.sh {name}" in text, path
        if "pattern.inc.sh" not in text:
            for script in ("train", "average", "generate", "score"):
                assert any(
                    line.split()[1:] == ["bash", f"scripts/{script}.sh", str(name)] for line in text.split("\n")
                ), path
        assert (ROOT / "scripts" / "prepare" / f"{path.parent.name}.sh").is_file()


def test_every_data_set_has_the_papers_systems():
    assert len(PAPER_DATASETS) == 8
    for dataset in PAPER_DATASETS:
        assert EVERYWHERE <= {path.stem for path in CONFIGS if path.parent.name == dataset}, dataset


def test_iwslt14_is_the_authors_recipe(loaded):
    folder, _, flags = loaded[ROOT / "configs" / "iwslt14.de-en" / "topk8.sh"]
    train = " ".join(flags["TRAIN"])
    if folder.endswith(".fairseq/seed1"):
        assert "--lr 5e-4" in train and "--dropout 0.3" in train and "--max-tokens 4096 --update-freq 1" in train
        return
    assert "--lr 0.001 " in train and "--dropout 0.4" in train and "--max-epoch 90" in train
    assert "--max-tokens 4000 --update-freq 4" in train and "--keep-last-epochs 50" in train
    assert flags["AVERAGE"] == "--last 10 --up-to 50,55,60,65,70,75,80,85,90 --select-on valid --select-by bleu".split()
    assert flags["GENERATE"][:4] == ["--beam", "5", "--batch-size", "128"]


def test_wmt14_scores_compounds_too(loaded):
    assert loaded[ROOT / "configs" / "wmt14.en-de" / "dense.sh"][2]["SCORE"] == ["--compound-split"]


@pytest.mark.parametrize(
    "gpus, processes, frequency", [("", None, 128), ("0,1,2,3", None, 32), ("0", "64", 2), ("-1", None, 128)]
)
def test_the_effective_batch_does_not_depend_on_the_number_of_gpus(gpus, processes, frequency):
    config = ROOT / "configs" / "wmt14.en-de" / "topk8.sh"
    environment = {"PROCESSES": processes} if processes else {}
    train = load([config], CUDA_VISIBLE_DEVICES=gpus, **environment)[config][2]["TRAIN"]
    assert train[train.index("--update-freq") + 1] == str(frequency)
    assert ("--fp16" in train) == (gpus not in ("", "-1"))


@pytest.mark.parametrize(
    "environment, message",
    [
        ({"PROCESSES": "3"}, "one update is 4 batches of 4000 tokens here, which 3 processes"),
        ({"RECIPE": "mine"}, "there are: paper, fairseq"),
    ],
)
def test_impossible_settings(environment, message):
    command = ["bash", "-c", PRINT, "-", str(ROOT / "configs" / "iwslt14.de-en" / "topk8.sh")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert done.returncode == 1 and message in done.stderr.decode()
