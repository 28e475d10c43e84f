"""A training of two processes on this machine, each on half of the data, as torch.distributed does it without a GPU."""
import os
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train_over_gloo(folder, data, *flags, user_dir):
    """Trains in `folder`, with the checkpoints in checkpoints/; returns the two logs."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    processes = []
    for rank in range(2):
        command = [
            sys.executable, "-m", "fairseq_cli.train", data, "--user-dir", user_dir, "--save-dir", "checkpoints",
            "--cpu", "--distributed-world-size", 2, "--distributed-rank", rank, "--distributed-num-procs", 2,
            "--nprocs-per-node", 2, "--distributed-init-method", f"tcp://127.0.0.1:{port}", "--distributed-no-spawn",
            "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--no-progress-bar", *flags,
        ]  # fmt: skip
        processes.append(
            subprocess.Popen(
                list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                cwd=folder, env=dict(environment, OMP_NUM_THREADS="1"),
            )
        )  # fmt: skip
    try:
        logs = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], logs[0][-3000:]
    return logs
