"""A process whose batches are still being read ahead exits as it should."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STOPS_WITHIN_AN_EPOCH = """
import sys, threading
import torch
from fairseq.data.iterators import BackgroundConsumer, BufferedIterator
import explicit_sparse

class Batches:
    def __len__(self):
        return 10**9

    def __iter__(self):
        batch = torch.ones(100)
        while True:
            for _ in range(100):
                batch + batch
            yield batch

next(BufferedIterator(int(sys.argv[1]), Batches()))
assert any(isinstance(thread, BackgroundConsumer) for thread in threading.enumerate())
sys.exit(3)
"""


@pytest.mark.parametrize("buffer_size", ["1", "1000000"])  # waiting for room, and inside torch
def test_reading_ahead_ends_before_python_does(buffer_size):
    command = [sys.executable, "-c", STOPS_WITHIN_AN_EPOCH, buffer_size]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 3, done.stderr.decode()
