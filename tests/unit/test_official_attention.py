"""The layer against numbers that the authors' published attention module returned.

data/official_attention.json holds its weights, inputs, outputs, per-head weights and gradients in
float64. That module too computes its softmax in float32, whose rounding depends on the processor's vector instructions
(torch's exp on AVX2 and on AVX-512 differs in the last bit), on the compiled kernel, and in alpha-entmax on the way to
the threshold, which the module bisects.
"""

import json
from pathlib import Path

import pytest
import torch

from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import SparseAttentionConfig
from explicit_sparse.kernels import library, short

CASES = json.loads((Path(__file__).parent.parent / "data" / "official_attention.json").read_text())
SITES = {"es": "encoder-self", "ds": "decoder-self", "dc": "cross"}


def our_options(official):
    """The published code's sign-coded options in our words."""
    options = {"sparse_sites": ",".join(SITES[site] for site in official["use_att"])}
    if official["entmax"]:
        options["attention_mapping"] = ("sparsemax", "entmax15", "entmax")[official["entmax"] - 1]
        if official["entmax"] == 3:
            options["entmax_alpha"] = 1.5
    elif official["div"] > 0:
        options["topk_ratio"] = float(official["div"])
        options["topk_min"] = official["lb"] or None
    else:
        options["topk"] = -official["div"]
    return options


def tensor(values, dtype=torch.float64):
    return None if values is None else torch.tensor(values, dtype=dtype)


def build(case):
    self_attention = case["site"] != "cross"
    layer = SparseMultiheadAttention(
        case["embed_dim"],
        case["num_heads"],
        site=case["site"],
        config=SparseAttentionConfig(**our_options(case["official_options"])).resolve()[case["site"]],
        kdim=case["kdim"],
        vdim=case["kdim"],
        self_attention=self_attention,
        encoder_decoder_attention=not self_attention,
    )
    layer = layer.double().eval()
    layer.load_state_dict({name: tensor(value) for name, value in case["weights"].items()})
    return layer


@pytest.fixture(params=["pure torch", "compiled"])
def assert_close(request, monkeypatch):
    if request.param == "pure torch":
        monkeypatch.setattr(short, "takes", lambda scores, k: False)
    elif short._library is None:
        pytest.skip(library.status())
    atol = 5e-6 if "bisect" in request.node.name else 1e-6

    def compare(actual, expected):
        torch.testing.assert_close(actual, tensor(expected), rtol=0, atol=atol, check_dtype=False)

    return compare


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_outputs_weights_and_gradients(case, assert_close):
    layer = build(case)
    query = tensor(case["query"]).requires_grad_()
    key = query if case["key"] is None else tensor(case["key"]).requires_grad_()
    causal = torch.full((query.size(0),) * 2, float("-inf")).triu(1).double() if case["causal"] else None
    padding = tensor(case["key_padding_mask"], torch.bool)

    output, weights = layer(query, key, key, padding, attn_mask=causal, need_head_weights=True)
    (output * tensor(case["grad_output"])).sum().backward()

    assert_close(output, case["output"])
    assert_close(weights, case["head_weights"])
    assert_close(query.grad, case["grad_query"])
    assert_close(layer.q_proj.weight.grad, case["grad_q_proj_weight"])
    if case["grad_key"] is not None:
        assert_close(key.grad, case["grad_key"])


INCREMENTAL = [case for case in CASES if "incremental_output" in case]


@pytest.mark.parametrize("case", INCREMENTAL, ids=[case["name"] for case in INCREMENTAL])
def test_one_query_at_a_time(case, assert_close):
    layer = build(case)
    query, key = tensor(case["query"]), tensor(case["key"])
    padding = tensor(case["key_padding_mask"], torch.bool)
    cache = {}
    steps = [
        layer(
            step,
            step if key is None else key,
            step if key is None else key,
            padding,
            incremental_state=cache,
            static_kv=key is not None,
        )[0]
        for step in query.split(1)
    ]
    assert_close(torch.cat(steps), case["incremental_output"])
