"""Every command of fairseq that takes --user-dir, as a user calls it: in a process of its own, outside the clone.

Translations that are only compared with each other run in this process, which saves importing torch each time.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import in_process
import pytest
import torch

import explicit_sparse
from explicit_sparse.tools import checkpoints, convert, support

USER_DIR = Path(explicit_sparse.__file__).resolve().parent
pytestmark = pytest.mark.slow


def run(program, *arguments, cwd, environment, stdin=None, status=0):
    """Runs a command line of fairseq's and returns everything it wrote."""
    result = subprocess.run(
        [sys.executable, "-m", program, *map(str, arguments)], cwd=cwd, env=environment, input=stdin,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=300,
    )  # fmt: skip
    assert result.returncode == status, result.stdout[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def command(tmp_path_factory, outside_environment):
    folder = tmp_path_factory.mktemp("elsewhere")

    def call(program, *arguments, **options):
        return run(program, *arguments, cwd=folder, environment=outside_environment, **options)

    call.folder = folder
    return call


@pytest.fixture(scope="module")
def trained(command, toy_data, toy_flags):
    """Checkpoints of ours with top-k 2 and of fairseq's stock Transformer, a few updates each."""
    paths = {}
    for name, flags in {
        "topk": ["--topk", "2"],
        "stock": ["--arch", "transformer", "--encoder-layers", "1", "--decoder-layers", "1"],
    }.items():
        command(
            "fairseq_cli.train", toy_data, "--user-dir", USER_DIR, *toy_flags["train"], *flags, "--cpu",
            "--max-update", 60, "--no-epoch-checkpoints", "--save-dir", name,
        )  # fmt: skip
        paths[name] = command.folder / name / "checkpoint_best.pt"
    return paths


def hypotheses(output):
    return {int(number): text for number, text in re.findall(r"^H-(\d+)\t\S+\t(.*)$", output, re.MULTILINE)}


@pytest.fixture(scope="module")
def translate(toy_data, toy_flags):
    def call(path, *flags):
        return hypotheses(
            in_process.call(
                "generate", toy_data, "--user-dir", USER_DIR, "--path", path, "--cpu", *toy_flags["generate"], *flags
            )
        )

    return call


def test_interactive(command, trained, toy_data):
    output = command(
        "fairseq_cli.interactive", toy_data, "--user-dir", USER_DIR, "--path", trained["topk"], "--cpu",
        stdin="eins zwei .\n",
    )  # fmt: skip
    assert len(hypotheses(output)) == 1


def test_validate_sees_an_override(command, trained, toy_data):
    def loss(*flags):
        output = command(
            "fairseq_cli.validate", toy_data, "--task", "translation", "--user-dir", USER_DIR, "--path",
            trained["topk"], "--cpu", "--max-tokens", 400, "--required-batch-size-multiple", 1, *flags,
        )  # fmt: skip
        return float(re.search(r"valid on 'valid' subset \| loss (\S+)", output).group(1))

    assert loss() != loss("--model-overrides", "{'topk': 1}")


def test_without_user_dir_generation_names_the_architecture(command, trained, toy_data):
    output = command("fairseq_cli.generate", toy_data, "--path", trained["topk"], "--cpu", status=1)
    assert "explicit_sparse_transformer_tiny" in output or "Namespace" in output


def test_an_impossible_option_ends_with_one_line(command, toy_data, toy_flags):
    output = command(
        "fairseq_cli.train", toy_data, "--user-dir", USER_DIR, *toy_flags["train"], "--topk", 8, "--topk-ratio", 4, "--cpu",
        "--save-dir", "none", status=1,
    )  # fmt: skip
    assert output.splitlines()[-1].startswith("--topk 8 and --topk-ratio 4")
    assert "Traceback" not in output
    assert not list(command.folder.glob("none/*.pt"))


def test_a_dense_checkpoint_of_fairseq_translates_identically_here_and_back(command, trained, translate):
    ours, back = command.folder / "ours.pt", command.folder / "back.pt"
    convert.main([str(trained["stock"]), str(ours), "--to", "sparse"])
    convert.main([str(ours), str(back), "--to", "fairseq"])
    expected = translate(trained["stock"])
    assert len(expected) == 13
    assert translate(ours) == expected
    assert translate(back) == expected
    state = torch.load(back, map_location="cpu")
    assert convert.model_name(state) == "transformer"
    assert not hasattr(state["cfg"]["model"], "topk")


def test_conversion_refuses_what_fairseq_would_run_dense(command, trained):
    target = command.folder / "refused.pt"
    with pytest.raises(ValueError, match="topk"):
        convert.main([str(trained["topk"]), str(target), "--to", "fairseq"])
    with pytest.raises(ValueError, match="not fairseq's own"):
        convert.main([str(trained["topk"]), str(target), "--to", "sparse"])
    assert not target.exists()


def test_support_counts_what_the_model_used(trained, toy_data, capsys):
    def measure(*flags):
        support.main([str(toy_data), "--path", str(trained["topk"]), "--cpu", *flags])
        return json.loads(capsys.readouterr().out)

    sparse, dense = measure(), measure("--model-overrides", "{'topk': 0}")
    for site in ("encoder-self", "cross"):  # every sentence has more than two keys
        assert sparse[site]["support"] == pytest.approx(2, abs=0.01)
        assert dense[site]["density"] == 1
        assert sparse[site]["allowed"] == dense[site]["allowed"] == dense[site]["support"]
        assert sparse[site]["density"] == pytest.approx(2 / sparse[site]["allowed"], rel=0.2)
    assert 1.5 < sparse["decoder-self"]["support"] < 2  # the first query of a sentence has one key, the others two
    assert len(sparse["cross"]["layers"]) == 1


@pytest.mark.parametrize("mapping", ["entmax", "rela", "sparsemax"])
def test_a_dense_model_starts_another_mapping(trained, toy_data, toy_flags, tmp_path, mapping):
    """fairseq takes every parameter of the converted file, and the dense ones are in it untouched."""
    start = tmp_path / "start.pt"
    assert convert.main([str(trained["stock"]), str(start), "--to", "sparse", "--attention-mapping", mapping]) == 0
    dense, state = (checkpoints.read(path)["model"] for path in (trained["stock"], start))
    assert all(torch.equal(state[name], dense[name]) for name in dense)
    assert bool(set(state) - set(dense)) == (mapping != "sparsemax")
    in_process.call(
        "train", toy_data, "--user-dir", USER_DIR, *toy_flags["train"], "--attention-mapping", mapping, "--cpu",
        "--max-update", 2, "--save-dir", tmp_path / "run", "--finetune-from-model", start,
    )  # fmt: skip
    trained_on = checkpoints.read(tmp_path / "run" / "checkpoint_last.pt")["model"]
    assert trained_on.keys() == state.keys()


def test_support_refuses_a_model_without_sparse_attention(trained, toy_data, capsys):
    assert support.main([str(toy_data), "--path", str(trained["stock"]), "--cpu"]) == 1
    assert "error: the model holds no sparse attention" in capsys.readouterr().err


def test_language_model(command, toy_prepared):
    lines = (toy_prepared / "tok" / "train.en").read_text(encoding="utf-8")
    for subset in ("train", "valid", "test"):
        (command.folder / subset).write_text(lines if subset == "train" else lines[:2000], encoding="utf-8")
    command(
        "fairseq_cli.preprocess", "--only-source", "--trainpref", "train", "--validpref", "valid", "--testpref", "test",
        "--destdir", "lm-bin", "--workers", 1,
    )  # fmt: skip
    command(
        "fairseq_cli.train", "lm-bin", "--task", "language_modeling", "--user-dir", USER_DIR,
        "--arch", "explicit_sparse_transformer_lm", "--topk", 2, "--decoder-layers", 1, "--decoder-embed-dim", 32,
        "--decoder-input-dim", 32, "--decoder-output-dim", 32, "--decoder-ffn-embed-dim", 64,
        "--decoder-attention-heads", 2, "--sample-break-mode", "eos", "--tokens-per-sample", 64, "--max-tokens", 500,
        "--optimizer", "adam", "--lr", 0.01, "--max-update", 60, "--required-batch-size-multiple", 1, "--cpu",
        "--no-epoch-checkpoints", "--save-dir", "lm",
    )  # fmt: skip

    def loss(*flags):
        output = command(
            "fairseq_cli.eval_lm", "lm-bin", "--user-dir", USER_DIR, "--path", "lm/checkpoint_best.pt", "--cpu",
            "--sample-break-mode", "eos", "--max-tokens", 500, "--required-batch-size-multiple", 1, *flags,
        )  # fmt: skip
        return float(re.search(r"Loss \(base 2\): ([\d.]+)", output).group(1))

    trained = loss()
    assert 0 < trained < 4
    assert trained != loss("--model-overrides", "{'topk': 1}")


def test_hydra(command, toy_data, translate):
    command(
        "fairseq_cli.hydra_train", f"common.user_dir={USER_DIR}", "common.cpu=true", "task=translation",
        f"task.data={toy_data}", "task.source_lang=de", "task.target_lang=en",
        "+model._name=explicit_sparse_transformer_tiny", "+model.topk=2", "+model.share_all_embeddings=true",
        "+model.encoder_layers=1", "+model.decoder_layers=1", "criterion=label_smoothed_cross_entropy",
        "optimizer=adam", "optimization.lr=[0.01]", "lr_scheduler=inverse_sqrt", "lr_scheduler.warmup_updates=20",
        "optimization.max_update=30", "dataset.max_tokens=400", "dataset.required_batch_size_multiple=1",
        "dataset.num_workers=0", f"checkpoint.save_dir={command.folder / 'hydra'}",
    )  # fmt: skip
    path = command.folder / "hydra" / "checkpoint_last.pt"
    options = torch.load(path, map_location="cpu")["cfg"]["model"]
    assert options["topk"] == 2 and options["attention_pattern"] == "full"
    assert len(translate(path)) == 13
    # An option that the command did not mention is in the checkpoint all the same, so an override reaches it.
    assert len(translate(path, "--model-overrides", "{'attention_pattern': 'window', 'attention_span': 2}")) == 13


def test_python_needs_the_import_only(command, trained, toy_data):
    code = (
        "import sys, explicit_sparse\n"
        "from fairseq.models.transformer import TransformerModel\n"
        "hub = TransformerModel.from_pretrained(sys.argv[1], 'checkpoint_best.pt', sys.argv[2])\n"
        "print(type(hub.models[0]).__name__, hub.models[0].encoder.layers[0].self_attn.config.topk)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(trained["topk"].parent), str(toy_data)], stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=str(USER_DIR.parent)), encoding="utf-8", cwd=command.folder, check=True,
    )  # fmt: skip
    assert result.stdout.split() == ["ExplicitSparseTransformerModel", "2"]


def test_the_package_prints_its_user_dir(command):
    result = subprocess.run(
        [sys.executable, "-m", "explicit_sparse"], stdout=subprocess.PIPE, encoding="utf-8", cwd=command.folder,
        env=dict(os.environ, PYTHONPATH=str(USER_DIR.parent)), check=True,
    )  # fmt: skip
    assert result.stdout.strip() == str(USER_DIR)
