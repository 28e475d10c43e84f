"""What the README shows is there: paths, options, architectures, and commands that fairseq's parser takes."""
import json
import re
import shlex
from pathlib import Path

import pytest
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY

import explicit_sparse  # noqa: F401  registers the architectures
from explicit_sparse.config import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True) for block in BLOCKS for line in block.replace("\\\n", " ").splitlines() if line
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?:scripts|configs|data|docs|results|tests|benchmarks|explicit_sparse)/[\w./-]*\w", text)
    missing = {path for path in named if "prepared" not in path and "NAME" not in path and not (ROOT / path).exists()}
    assert not missing
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert not {link for link in links if not (page.parent / link).exists()}


def test_tools_exist():
    tools = {name for page in PAGES for name in re.findall(r"-m explicit_sparse\.([\w.]+)", page.read_text("utf-8"))}
    assert {"tools.table", "tools.convert"} <= tools
    for name in tools:
        path = ROOT / "explicit_sparse" / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


def test_the_option_table_is_the_declaration():
    table = README.split("## Options")[1].split("##")[0]
    documented = {flag for row in re.findall(r"^\| (`--.*?) \|", table, re.MULTILINE) for flag in re.findall(r"--[\w-]+", row)}
    assert documented == {"--" + name.replace("_", "-") for name in OPTIONS}


def test_architectures_are_those_registered():
    named = set(re.findall(r"`(explicit_sparse_transformer\w*)`", README)) | {"explicit_sparse_transformer_wmt_en_de"}
    assert named == {name for name in ARCH_MODEL_REGISTRY if name.startswith("explicit_sparse")}


def test_commands_parse():
    """Scripts exist, and fairseq's own parser takes every flag of its commands."""
    seen = set()
    for words in COMMANDS:
        seen.add(words[0])
        if words[0] == "fairseq-train":
            args = options.parse_args_and_arch(options.get_training_parser(), words[1:])
            assert args.topk == 8 and args.required_batch_size_multiple == 1
        elif words[0] == "fairseq-generate":
            args = options.parse_args_and_arch(options.get_generation_parser(), words[1:])
            assert args.required_batch_size_multiple == 1
        elif words[0] == "bash":
            assert (ROOT / words[1]).exists()
    assert {"bash", "fairseq-train", "fairseq-generate", "python"} <= seen


def test_the_demos_table_is_that_of_its_runs():
    for experiment in ("dense", "topk8"):
        run = json.loads((ROOT / "results" / "demo" / experiment / "seed1" / "run.json").read_text(encoding="utf-8"))
        row = next(line for line in README.split("\n") if line.startswith(f"| {run['system']} |"))
        cells = [cell.split("(")[0].strip(" *") for cell in row.strip("|").split("|")][1:]
        test = run["test"]["test"]
        assert cells == [
            f"{test['bleu']['score']:.2f}",
            f"± {test['bleu']['ci']:.2f}",
            f"{test['chrf']['score']:.2f}",
            f"{run['train']['tokens_per_second']:.0f}",
            f"{test['decode_tokens_per_second']:.0f}",
            f"{run['parameters'] / 1e6:.2f} M",
            *(f"{run['support'][site]['support']:.1f}" for site in ("encoder-self", "decoder-self", "cross")),
        ]
