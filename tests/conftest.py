"""Fixtures that several test files share.

toy_prepared   a prepared data set, as the scripts in scripts/prepare leave it: bin/, ref/, tok/ and manifest.json
toy_data       its bin/ folder, what fairseq-train takes

The toy task translates German number words to English ones, word by word, in sentences of three to six: a model of a few
thousand parameters learns it in seconds. Its test set has 13 sentences, no multiple of fairseq's batch sizes, and its
words are cut into subwords with "@@", so that whatever loses a sentence or forgets to join subwords is seen.
"""
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

NUMBERS = {
    "eins": "one", "zwei": "two", "drei": "three", "vier": "four", "sechs": "six",
    "sieben": "seven", "acht": "eight", "zehn": "ten", "elf": "eleven", "zwanzig": "twenty",
}  # fmt: skip
SIZES = {"train": 800, "valid": 21, "test": 13}


def toy_sentences(count, generator):
    """Returns `count` pairs of token lists, such as (Zwei elf drei ., Two eleven three .)."""
    pairs = []
    for _ in range(count):
        german = [generator.choice(list(NUMBERS)) for _ in range(generator.randint(3, 6))]
        english = [NUMBERS[word] for word in german]
        pairs.append([[words[0].capitalize(), *words[1:], "."] for words in (german, english)])
    return pairs


def cut(word):
    """Cuts a word after its third letter, in subword-nmt's notation: seven -> sev@@ en."""
    return f"{word[:3]}@@ {word[3:]}" if len(word) > 3 else word


@pytest.fixture(scope="session")
def toy_prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "toy"
    generator = random.Random(1)
    text = folder.parent / "text"
    for part in (folder / "ref", folder / "tok", text):
        part.mkdir(parents=True)
    for subset, size in SIZES.items():
        pairs = toy_sentences(size, generator)
        for side, language in enumerate(("de", "en")):
            tokens = [pair[side] for pair in pairs]
            write = lambda path, lines: path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            write(folder / "ref" / f"{subset}.{language}", [" ".join(line).replace(" .", ".") for line in tokens])
            write(folder / "tok" / f"{subset}.{language}", [" ".join(line) for line in tokens])
            write(text / f"{subset}.{language}", [" ".join(map(cut, line)) for line in tokens])
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--source-lang", "de", "--target-lang", "en"]
    for subset in SIZES:
        command += [f"--{subset}pref", str(text / subset)]
    command += ["--joined-dictionary", "--destdir", str(folder / "bin"), "--workers", "1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    manifest = {
        "format": 1, "dataset": "toy", "source_lang": "de", "target_lang": "en",
        "bpe": "subword-nmt", "tokenizer": "sacremoses", "lowercase": False,
        "subsets": {subset: {"pairs": size, "name": f"toy {subset}"} for subset, size in SIZES.items()},
        "inputs": [], "options": {}, "versions": {},
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def toy_data(toy_prepared):
    return toy_prepared / "bin"


# A model of 1+1 layers that learns the toy task in about 300 updates; without data, save dir and seed.
TOY_TRAIN = (
    "--arch explicit_sparse_transformer_tiny --share-all-embeddings --encoder-layers 1 --decoder-layers 1 "
    "--encoder-embed-dim 32 --decoder-embed-dim 32 --encoder-ffn-embed-dim 64 --decoder-ffn-embed-dim 64 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2 --optimizer adam --lr 0.01 --lr-scheduler inverse_sqrt "
    "--warmup-updates 50 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 400 "
    "--num-workers 0 --required-batch-size-multiple 1"
).split()
TOY_GENERATE = "--beam 3 --max-tokens 400 --num-workers 0 --required-batch-size-multiple 1".split()


@pytest.fixture(scope="session")
def toy_flags():
    """{"train": [...], "generate": [...]}: flags of fairseq-train and fairseq-generate for the toy task."""
    return {"train": list(TOY_TRAIN), "generate": list(TOY_GENERATE)}


@pytest.fixture(scope="session")
def outside_environment(tmp_path_factory):
    """The environment of a user's shell outside the clone, with the Python that runs the tests first on PATH."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["RUNS_ROOT"] = str(tmp_path_factory.mktemp("runs"))
    for name in ("PYTHONPATH", "DATA_ROOT", "LOGLEVEL"):
        environment.pop(name, None)
    return environment
