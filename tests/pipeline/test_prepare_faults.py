"""Killed, full disks, two at once, and bad input: nothing half-written, and the same bytes in the end."""

import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from original_archives import build, iwslt14_de_en, iwslt15_en_vi, multi30k_de_en, plain, tgz

from explicit_sparse.tools.prepare import pipeline
from explicit_sparse.tools.prepare.__main__ import main

SMALL = ["--unverified", "--vocab-size", "60", "--workers", "2"]


def fork(function):
    """Run ``function()`` in a child process; returns its exit code, negative for a signal."""
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(function()))
    child.start()
    child.join()
    return child.exitcode


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def die_at(module, name, call, after):
    """Let the process be killed right before or right after the given call of ``module.name``."""
    real, count = getattr(module, name), [0]

    def watched(*arguments, **options):
        count[0] += 1
        if count[0] == call and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **options)
        if count[0] == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, name, watched)


@pytest.mark.slow
def test_killed_at_every_step_the_next_run_ends_with_the_same_bytes(tmp_path):
    archives = build(tmp_path / "archives", iwslt14_de_en())

    def run(out, *kills):
        for kill in kills:
            die_at(*kill)
        return main(["iwslt14.de-en", "--from", str(archives), "--out", str(out), *SMALL])

    assert fork(lambda: run(tmp_path / "whole")) == 0
    out = tmp_path / "killed"
    # Each run gets one step further: killed before the step's folder gets its name (the step is lost), then after.
    for step in range(7):
        for after in (False, True):
            assert fork(lambda: run(out, (os, "rename", 1, after))) == -signal.SIGKILL
            assert out.exists() == (step == 6 and after)
        if step == 0:  # in the middle of putting pieces together
            assert fork(lambda: run(out, (shutil, "copyfileobj", 2, False))) == -signal.SIGKILL
        if step == 5:  # in the middle of the last step
            assert fork(lambda: run(out, (os, "link", 3, True))) == -signal.SIGKILL
    assert fork(lambda: run(out)) == 0
    assert contents(out) == contents(tmp_path / "whole")
    assert not (tmp_path / ".killed.work").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a worker finishes its piece first")
def test_workers_end_with_a_killed_run(tmp_path):
    from explicit_sparse.tools.prepare.parallel import run_jobs

    def work(job):
        (tmp_path / "worker").write_text(str(os.getpid()))
        time.sleep(60)

    def killed():
        threading.Thread(target=lambda: (wait_for(tmp_path / "worker"), os.kill(os.getpid(), signal.SIGKILL))).start()
        run_jobs(work, [1], 1)

    assert fork(killed) == -signal.SIGKILL
    worker = int((tmp_path / "worker").read_text())
    for _ in range(100):
        stat = Path(f"/proc/{worker}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the worker went on")


def wait_for(path):
    while not path.exists() or not path.read_text():
        time.sleep(0.01)


def without_binarising(monkeypatch):
    monkeypatch.setattr(pipeline, "binarise", lambda *arguments, **options: None)


def test_the_number_of_workers_does_not_matter(tmp_path, monkeypatch):
    from explicit_sparse.tools.prepare import parallel

    without_binarising(monkeypatch)
    monkeypatch.setattr(parallel, "SMALLEST_PIECE", 100)
    archives = build(tmp_path / "archives", multi30k_de_en())
    for workers in ("1", "3"):
        arguments = ["multi30k.de-en", "--from", str(archives), "--out", str(tmp_path / workers)]
        assert main([*arguments, "--unverified", "--vocab-size", "60", "--workers", workers]) == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch, capfd):
    without_binarising(monkeypatch)
    archives = build(tmp_path / "archives", multi30k_de_en())
    arguments = ["multi30k.de-en", "--from", str(archives), "--out", str(tmp_path / "out"), *SMALL]

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        return main(arguments)

    assert fork(limited) == 1
    message = capfd.readouterr().err
    assert "no space left" in message and "run the same command again" in message and "Traceback" not in message
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out.work/*.part*"))
    assert main(arguments) == 0


def test_two_at_once_the_second_waits_and_finds_it_done(tmp_path, monkeypatch, capfd):
    without_binarising(monkeypatch)
    archives = build(tmp_path / "archives", multi30k_de_en())
    arguments = ["multi30k.de-en", "--from", str(archives), "--out", str(tmp_path / "out"), *SMALL]
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=lambda: os._exit(main(arguments))) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    messages = capfd.readouterr().err
    assert messages.count("4-model …") == 1 and messages.count("prepared before") == 1


# ---------------------------------------------------------------- bad input


def iwslt14_with(**changes):
    """IWSLT14's files with some members' bytes replaced (None: left out)."""
    import gzip
    import io
    import tarfile

    archive = iwslt14_de_en()["fairseq/data/iwslt14/de-en.tgz"]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as members:
        files = {entry.name: members.extractfile(entry).read() for entry in members}
    for name, change in changes.items():
        key = next(key for key in files if key.endswith(name) and "._" not in key)
        files[key] = change(files[key])
        if files[key] is None:
            del files[key]
    return {"fairseq/data/iwslt14/de-en.tgz": tgz(files)}


BAD = {
    "unequal": (
        {"train.tags.de-en.de": lambda data: data + b"Noch ein Satz.\n"},
        ["train.tags.de-en.de has 103 sentences", "train.tags.de-en.en has 102", "no translation of each other"],
    ),
    "missing member": (
        {"TEDX.dev2012.de-en.en.xml": lambda data: None},
        ["has no de-en/IWSLT14.TEDX.dev2012", "Is it the right archive"],
    ),
    "test not UTF-8": (
        {
            "TED.tst2010.de-en.de.xml": lambda data: data.replace("ß".encode(), b"\xdf").replace(
                "Haus".encode(), b"H\xe4us"
            )
        },
        ["TED.tst2010.de-en.de.xml: sentence 1 is not UTF-8", "get the original file"],
    ),
    "broken segment": (
        {"TED.tst2010.de-en.de.xml": lambda data: data.replace(b" </seg>", b" ", 1)},
        ["TED.tst2010.de-en.de.xml: a segment without an end"],
    ),
    "no sentences": (
        {"train.tags.de-en.de": lambda data: b"<url>x</url>\n", "train.tags.de-en.en": lambda data: b"<url>x</url>\n"},
        ["no sentence found"],
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_input_is_a_clear_error(tmp_path, monkeypatch, capfd, name):
    without_binarising(monkeypatch)
    changes, words = BAD[name]
    archives = build(tmp_path / "archives", iwslt14_with(**changes))
    assert main(["iwslt14.de-en", "--from", str(archives), "--out", str(tmp_path / "out"), *SMALL]) == 1
    message = capfd.readouterr().err
    assert all(part in message for part in words), message
    assert (
        "Traceback" not in message and not (tmp_path / "out").exists() and not list(tmp_path.glob(".out.work/*.part*"))
    )


def test_documented_cleaning_is_counted(tmp_path, monkeypatch):
    without_binarising(monkeypatch)
    lines = [b"one line .", b"", b"bad \xff byte .", b"a b c d .", b"Windows \r line ."] + [b"x y ."] * 30
    english = b"\xef\xbb\xbf" + b"".join(line + (b"\r\n" if i == 0 else b"\n") for i, line in enumerate(lines))
    files = {
        **iwslt15_en_vi(),
        "stefan-it/nmt-en-vi/raw/master/data/train-en-vi.tgz": tgz(
            {"train.en": english, "train.vi": plain(["mot hai ba ."] * 35)}
        ),
    }
    archives = build(tmp_path / "archives", files)
    assert main(["iwslt15.en-vi", "--from", str(archives), "--out", str(tmp_path / "out"), *SMALL]) == 0
    entry = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))["subsets"]["train"]
    assert entry["pairs"] == 33 and entry["read"] == 35
    assert entry["dropped or repaired"] == {
        "not UTF-8": 1, "Windows line end": 1, "byte-order mark removed": 1, "empty line": 1,
    }  # fmt: skip
    text = (tmp_path / "out" / "tok" / "train.en").read_bytes()
    assert text.startswith(b"one line .\na b c d .\nWindows line .\n") and b"\r" not in text


def test_an_empty_line_in_a_test_set_stays(tmp_path, monkeypatch):
    """Line numbers of a test set must stay those of the official file."""
    without_binarising(monkeypatch)
    files = {
        **iwslt15_en_vi(),
        "stefan-it/nmt-en-vi/raw/master/data/test-2013-en-vi.tgz": tgz(
            {"tst2013.en": b"a .\n\nb .\n", "tst2013.vi": b"c .\nd .\ne .\n"}
        ),
    }
    archives = build(tmp_path / "archives", files)
    assert main(["iwslt15.en-vi", "--from", str(archives), "--out", str(tmp_path / "out"), *SMALL]) == 0
    entry = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))["subsets"]["test"]
    assert entry["pairs"] == 3 and entry["empty line kept"] == 1


def test_published_counts_are_insisted_on(tmp_path, monkeypatch, capfd):
    from dataclasses import replace

    from explicit_sparse.tools.prepare import datasets

    without_binarising(monkeypatch)
    archives = build(tmp_path / "archives", iwslt15_en_vi())
    forgiving = replace(
        datasets.IWSLT15_EN_VI,
        member_sha256={},
        train=_unchecked("train"),
        valid=_unchecked("dev-2012", "tst2012"),
        tests=(_unchecked("test-2013", "tst2013"),),
    )
    monkeypatch.setitem(datasets.DATASETS, "iwslt15.en-vi", forgiving)
    arguments = ["iwslt15.en-vi", "--from", str(archives), "--out", str(tmp_path / "out"), "--vocab-size", "60"]
    assert main(arguments) == 1
    assert "valid: 6 pairs instead of 1,553; test: 5 pairs instead of 1,268" in capfd.readouterr().err
    assert main([*arguments, "--unverified"]) == 0
    assert "warning: valid: 6 pairs" in capfd.readouterr().err


def _unchecked(mirror, stem=None):
    from explicit_sparse.tools.prepare.datasets import Archive, Copy, Part, Subset

    stem = stem or mirror
    archive = Archive((Copy(f"http://x/stefan-it/nmt-en-vi/raw/master/data/{mirror}-en-vi.tgz"),))
    return Subset((Part(archive, f"{stem}.en", f"{stem}.vi"),))


def test_a_folder_with_other_files_is_left_alone(tmp_path, capfd):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    assert main(["multi30k.de-en", "--from", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "move it away" in capfd.readouterr().err and (tmp_path / "out" / "thesis.txt").exists()


def test_force_makes_it_anew(tmp_path, monkeypatch):
    without_binarising(monkeypatch)
    archives = build(tmp_path / "archives", multi30k_de_en())
    arguments = ["multi30k.de-en", "--from", str(archives), "--out", str(tmp_path / "out"), "--unverified"]
    assert main([*arguments, "--vocab-size", "60"]) == 0
    assert main([*arguments, "--vocab-size", "50", "--force"]) == 0
    assert len((tmp_path / "out" / "codes").read_text(encoding="utf-8").splitlines()) == 51
    assert not (tmp_path / ".out.work").exists()


def test_another_recipe_does_not_use_the_rest_of_a_stopped_run(tmp_path, monkeypatch):
    without_binarising(monkeypatch)
    archives = build(tmp_path / "archives", multi30k_de_en())
    arguments = ["multi30k.de-en", "--from", str(archives), "--out", str(tmp_path / "out"), "--unverified"]

    def stopped():
        die_at(os, "rename", 5, True)
        return main([*arguments, "--vocab-size", "60"])

    assert fork(stopped) == -signal.SIGKILL and (tmp_path / ".out.work" / "5-subwords").is_dir()
    assert main([*arguments, "--vocab-size", "40"]) == 0
    assert len((tmp_path / "out" / "codes").read_text(encoding="utf-8").splitlines()) == 41
