"""Recorded runs for the tests of the table tool: a toy test set, and run.json files as the pipelines write them."""

import hashlib
import json
import re

from sacrebleu.metrics import BLEU, CHRF

REFERENCE = [
    "The cat sat on the mat while it rained outside.",
    "Nobody knew where the old road would lead them.",
    "She bought three apples and a loaf of fresh bread.",
    "The train to the coast leaves at half past nine.",
    "In winter the river freezes and children skate on it.",
    "He read the letter twice before he answered it.",
]
GOOD = [
    "The cat sat on the mat while it was raining outside.",
    "Nobody knew where the old road would lead them.",
    "She bought three apples and a fresh loaf of bread.",
    "The train to the coast leaves at half past nine.",
    "In winter the river freezes and children skate there.",
    "He read the letter twice before he answered.",
]
POOR = [
    "The cat was sitting on a mat and outside it rained.",
    "Nobody knew where the old street leads them.",
    "She bought three apples and bread.",
    "The train at the coast goes at nine thirty.",
    "In winter the river freezes and children skate on it.",
    "He has read the letter two times before he answered it.",
]


def score(metric, hypotheses):
    """A score and its signature, as run.json holds them, without the version that is installed here."""
    value = metric.corpus_score(hypotheses, [REFERENCE]).score
    return {"score": round(value, 2), "signature": re.sub(r"version:.*", "version:x", str(metric.get_signature()))}


def write_reference(root, lines=REFERENCE):
    path = root / "prepared" / "toy" / "ref" / "test.en"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def make_run(
    root, system, seed=1, hypotheses=GOOD, dataset="toy", experiment=None, speed=1000.0, support=8.0, **changes
):
    """Write a run below root/runs and return the path of its run.json.

    ``changes`` replace fields, named with double underscores for dots: ``train__updates=5``; the test set is ``test``.
    """
    reference = write_reference(root)
    experiment = experiment or re.sub(r"\W", "", system)
    folder = root / "runs" / dataset / experiment / f"seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test.hyp").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
    run = {
        "format": 1,
        "dataset": dataset,
        "experiment": experiment,
        "system": system,
        "seed": seed,
        "hardware": {"cpu": "some processor", "cores": 2, "threads": 1, "gpu": None},
        "options": {"arch": "tiny", "topk": 8},
        "parameters": 1303040,
        "train": {
            "updates": 300,
            "tokens_per_second": speed,
            "best_valid_loss": 3.5,
            "peak_memory_mb": 512,
            "curve": [{"update": 100 * n, "epoch": n, "valid_loss": 5 - n / 2} for n in (1, 2, 3)],
        },
        "test": {
            "test": {
                "name": "toy2024",
                "sentences": len(REFERENCE),
                "hypotheses": "test.hyp",
                "sha256_reference": hashlib.sha256(reference.read_bytes()).hexdigest(),
                "reference": "toy/ref/test.en",
                "bleu": {**score(BLEU(), hypotheses), "ci": 9.5},
                "chrf": score(CHRF(), hypotheses),
                "tokenised_bleu": {"score": 40.0, "label": "tokenised, lowercased"},
                "decode_tokens_per_second": speed / 2,
            }
        },
        "support": {site: {"support": support, "density": 0.5} for site in ("encoder-self", "decoder-self", "cross")},
    }
    for name, value in changes.items():
        change(run, name.split("__"), value)
    path = folder / "run.json"
    path.write_text(json.dumps(run), encoding="utf-8")
    return path


def change(data, keys, value):
    for key in keys[:-1]:
        data = data[key]
    if value is ...:  # leave it out
        del data[keys[-1]]
    else:
        data[keys[-1]] = value
