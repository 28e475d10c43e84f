"""The fused top-k for GPUs: in Triton's interpreter and compiled for NVIDIA, without a GPU; and when it is used."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from explicit_sparse import mappings

ROOT = Path(__file__).resolve().parents[2]
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed; pip install triton (Linux on x86)"
)
COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from explicit_sparse.kernels import triton_topk

def compile(kernel, pointers, **sizes):
    constants = dict(sizes, BLOCK_ROWS=1, BLOCK_KEYS=triton_topk.MAX_KEYS)
    signature = {name: "*fp32" if name in pointers else "i32" for name in kernel.arg_names}
    signature.update((name, "constexpr") for name in constants)
    source = ASTSource(kernel, signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 16}).asm["ptx"]

compile(triton_topk._forward_kernel, ("scores", "weights"), EXACTLY=True)
compile(triton_topk._backward_kernel, ("weights", "grad", "grad_scores"))
"""


def run_python(*arguments, **environment):
    """A process of its own: whether Triton interprets or compiles is settled when it is imported."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **environment}
    return subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=environment,
        cwd=str(ROOT),
    )


def run_cases(**environment):
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/triton_cases.py", **environment)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


@needs_triton
@pytest.mark.slow
def test_equals_torch_in_the_interpreter():
    run_cases(TRITON_INTERPRET="1")


@needs_triton
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_equals_torch_on_a_gpu():
    run_cases(TRITON_INTERPRET="0")


@needs_triton
@pytest.mark.slow
def test_compiles_for_nvidia_gpus(tmp_path):
    done = run_python("-c", COMPILE, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout


def test_is_used_only_for_what_it_computes(monkeypatch):
    calls = []
    record = lambda scores, k, exactly: calls.append((k, exactly))
    fused = SimpleNamespace(takes=lambda scores: True, topk_softmax=record)
    monkeypatch.setattr(mappings, "_fused", fused)
    scores = torch.randn(2, 9)
    mappings.topk(scores, 3, ties="break")
    assert calls == [(3, True)]
    mappings.topk(scores, 3, order="after")
    mappings.topk(scores, 9)
    fused.takes = lambda scores: False
    mappings.topk(scores, 3)
    assert len(calls) == 1


def test_is_off_unless_asked_for():
    code = "import sys, explicit_sparse; print('explicit_sparse.kernels.triton_topk' in sys.modules)"
    done = run_python("-c", code, EXPLICIT_SPARSE_KERNELS="1")
    assert done.stdout.splitlines()[-1] == "False"


def test_asking_for_it_without_triton_says_what_to_do():
    code = "import sys; sys.modules['triton'] = None; import explicit_sparse"
    done = run_python("-c", code, EXPLICIT_SPARSE_KERNELS="triton")
    assert done.returncode == 1 and "pip install triton" in done.stdout.splitlines()[-1]
