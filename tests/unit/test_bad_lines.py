"""Bad command lines of every tool end in a line that a person can act on: never in a traceback, never with status 0."""

import contextlib
import importlib
import json

import pytest
import torch

TOOLS = {
    "average": "tools.average", "convert": "tools.convert", "score": "tools.score", "support": "tools.support",
    "table": "tools.table.__main__", "prepare": "tools.prepare.__main__", "record": "tools.record",
    "report": "tools.report.__main__", "resume": "tools.resume", "pilot": "tools.pilot", "options": "tools.options",
    "demo": "tools.prepare_demo", "console": "__main__",
}  # fmt: skip

# {d} is a folder with: empty (a file), text, folder/, junk.pt, half.pt, good.pt, list.json, half.json, checkpoints/
LINES = """
average
average {d}
average {d}/none --output {d}/out.pt --last 1
average {d}/text --output {d}/out.pt --last 1
average {d}/checkpoints --output {d}/out.pt --last 0
average {d}/checkpoints --output {d}/out.pt --last x
average {d}/checkpoints --output {d}/out.pt --last 9
average {d}/checkpoints --output {d}/folder --last 1
average {d}/checkpoints --output {d}/text/out.pt --last 1
average {d}/checkpoints --output {d}/out.pt --last 1,2
average {d}/checkpoints --output {d}/out.pt --last 1 --by hour
average {d}/checkpoints --output {d}/out.pt --last 1 --select-on test
average {d}/checkpoints --output {d}/out.pt --last 1,2 --select-on valid
average {d}/checkpoints --output {d}/out.pt --last 2
convert
convert {d}/good.pt
convert {d}/good.pt {d}/out.pt
convert {d}/good.pt {d}/out.pt --to nowhere
convert {d}/good.pt {d}/out.pt --to fairseq
convert {d}/good.pt {d}/out.pt --to sparse --topk -1
convert {d}/good.pt {d}/out.pt --to sparse --topk many
convert {d}/good.pt {d}/folder --to sparse
convert {d}/good.pt {d}/text/out.pt --to sparse
convert {d}/none.pt {d}/out.pt --to sparse
convert {d}/empty {d}/out.pt --to sparse
convert {d}/text {d}/out.pt --to sparse
convert {d}/folder {d}/out.pt --to sparse
convert {d}/junk.pt {d}/out.pt --to sparse
convert {d}/half.pt {d}/out.pt --to sparse
convert {d}/bare.pt {d}/out.pt --to sparse
score
score {d}/generate-test.log
score {d}/none.log --prepared {d}/folder
score {d}/text --prepared {d}/folder
score {d}/generate-test.log --prepared {d}/none
score {d}/generate-test.log --prepared {d}/text
score {d}/generate-test.log --prepared {d}/listed
score {d}/generate-test.log --prepared {d}/halved
score {d}/generate-test.log --prepared {d}/wrong
score {d}/folder --prepared {d}/folder --subset test
score {d}/generate-test.log {d}/generate-a.log --prepared {d}/folder --subset test
score {d}/generate-test.log --prepared {d}/folder --bootstrap x
score --show {d}/none.json
score --show {d}/half.json
score --show {d}/list.json
score --show {d}/folder
support
support {d}/folder
support {d}/folder --path {d}/none.pt
support {d}/folder --path {d}/empty
support {d}/folder --path {d}/text
support {d}/folder --path {d}/folder
support {d}/folder --path {d}/junk.pt
support {d}/folder --path {d}/half.pt
support {d}/folder --path {d}/good.pt --model-overrides {{
support {d}/folder --path {d}/good.pt --model-overrides 7
support {d}/folder --path {d}/good.pt --max-sentences x
table
table {d}/none
table {d}/folder
table {d}/text
table {d}/empty
table {d}/list.json
table {d}/half.json
table {d}/object.json
table {d}/object.json --format xml
table {d}/object.json --samples -1
table {d}/object.json --speeds-from x
table {d}/object.json --paired maybe
table {d}/object.json --published Nobody
prepare
prepare nowhere.xx-yy
prepare multi30k.de-en
prepare multi30k.de-en --out {d}/out --from {d}/none
prepare multi30k.de-en --out {d}/out --from {d}/text
prepare multi30k.de-en --out {d}/out --from {d}/folder
prepare multi30k.de-en --out {d} --from {d}/folder
prepare multi30k.de-en --out {d}/text --from {d}/folder
prepare multi30k.de-en --out {d}/text/out --from {d}/folder
prepare multi30k.de-en --out {d}/listed --from {d}/folder
prepare multi30k.de-en --out {d}/halved --from {d}/folder
prepare multi30k.de-en --out {d}/wrong --from {d}/folder --force
prepare multi30k.de-en --out {d}/out --from {d}/folder --workers 0
prepare multi30k.de-en --out {d}/out --from {d}/folder --workers x
prepare multi30k.de-en --out {d}/out --from {d}/folder --vocab-size 0
prepare multi30k.de-en --out {d}/out --from {d}/folder --bpe words
prepare multi30k.de-en --out {d}/out --from {d}/folder --moses {d}/none
prepare multi30k.de-en --out {d}/out --from {d}/folder --romanian strip
record
record {d}/folder
record {d}/none --config {d}/text --system s --seed 1 --model {d}/good.pt --prepared {d}/folder
record {d}/folder --config {d}/text --system s --seed 1 --model {d}/good.pt --prepared {d}/folder
record {d}/folder --config {d}/text --system s --seed x --model {d}/good.pt --prepared {d}/folder
report
report {d}/good.pt
report {d}/none.pt --data {d}/folder --out {d}/out
report {d}/empty --data {d}/folder --out {d}/out
report {d}/text --data {d}/folder --out {d}/out
report {d}/folder --data {d}/folder --out {d}/out
report {d}/junk.pt --data {d}/folder --out {d}/out
report {d}/half.pt --data {d}/folder --out {d}/out
report {d}/good.pt --data {d}/folder --out {d}/out
report {d}/good.pt --data {d}/none --out {d}/out
report {d}/good.pt --data {d}/folder --out {d}
report {d}/good.pt --data {d}/folder --out {d}/text
report {d}/good.pt --data {d}/folder --out {d}/out --compare
report {d}/good.pt {d}/good.pt --data {d}/folder --out {d}/out
report {d}/good.pt --data {d}/folder --out {d}/out --sentences x
report {d}/good.pt --data {d}/folder --out {d}/out --max-sentences 0
resume
resume {d}/none
resume {d}/text
pilot
pilot {d}/none.log
pilot {d}/text
pilot {d}/folder
pilot --show {d}/none.json
pilot --show {d}/half.json
pilot --show {d}/list.json
pilot {d}/text --show {d}/list.json
options --unknown
options extra
report {d}/good.pt --data {d}/folder --out {d}/out --name a --name b
report {d}/good.pt --data {d}/folder --out {d}/out --site nowhere
report {d}/good.pt --data {d}/folder --out {d}/out --input {d}/none
report {d}/good.pt --data {d}/folder --out {d}/out --input {d}/text --gold {d}/text
report {d}/good.pt --data {d}/folder --out {d}/out --course {d}/junk.pt
report {d}/good.pt --data {d}/text --out {d}/out
table {d}/object.json --output {d}/folder
table {d}/object.json --plot {d}/none/x.png
table {d}/object.json --published-file {d}/none --published EST
table {d}/folder --skip-unfinished
table {d}/checkpoints {d}/none
score {d}/generate-test.log --prepared {d}/folder --tokenize nothing
score {d}/empty --prepared {d}/folder --subset test
score {d}/folder/generate-test.log --prepared {d}/folder
average {d}/checkpoints --output {d}/out.pt --last 1 --up-to 0
average {d}/checkpoints --output {d}/out.pt --last 1 --up-to 1,2
average {d}/checkpoints --output {d}/out.pt --last 1 --select-by chrf
convert {d}/good.pt {d}/out.pt --to sparse --unknown
convert {d}/good.pt {d}/out.pt more --to sparse
console nowhere
console TABLE {d}/none
console table {d}/none
console average
console convert {d}/none.pt {d}/out.pt --to sparse
console options --unknown
demo
demo --corpus {d}/none --out {d}/out
demo --corpus {d}/folder --out {d}
demo --corpus {d}/folder --out {d}/text
demo --corpus {d}/folder --out {d}/listed --force
demo --corpus {d}/folder --out {d}/out --merges x
""".strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    for name in ("folder", "checkpoints", "listed", "halved", "wrong"):
        (folder / name).mkdir()
    (folder / "empty").touch()
    for name in ("text", "generate-test.log", "generate-a.log"):
        (folder / name).write_text("just\nwords\n")
    (folder / "list.json").write_text("[1, 2]")
    (folder / "half.json").write_text('{"a": ')
    (folder / "object.json").write_text("{}")
    (folder / "listed" / "manifest.json").write_text("[1, 2]")
    (folder / "halved" / "manifest.json").write_text('{"a": ')
    (folder / "wrong" / "manifest.json").write_text('{"dataset": "x", "format": 1, "subsets": {}, "options": {}}')
    torch.save({"weights": 1}, folder / "junk.pt")
    torch.save({"model": {}}, folder / "bare.pt")
    torch.save({"model": {"a": torch.zeros(9)}, "cfg": {"model": {"_name": "transformer"}, "task": {}}}, folder / "good.pt")
    (folder / "half.pt").write_bytes((folder / "good.pt").read_bytes()[:500])
    (folder / "checkpoints" / "checkpoint1.pt").write_bytes((folder / "good.pt").read_bytes())
    (folder / "checkpoints" / "checkpoint2.pt").write_bytes((folder / "half.pt").read_bytes())
    return folder


def contents(folder):
    """All files but locks and a preparation's own folder aside, with which the next call goes on."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path): path.read_bytes() for path in files if ".out.work" not in path.parts}


@pytest.mark.parametrize("line", LINES)
def test_a_bad_line(line, folder, capsys, monkeypatch):
    monkeypatch.delenv("DATA_FROM", raising=False)
    name, *arguments = line.format(d=folder).split()
    before = contents(folder)
    main = importlib.import_module(f"explicit_sparse.{TOOLS[name]}").main
    status = None
    with contextlib.suppress(SystemExit):
        try:
            status = main(arguments)
        except SystemExit as stop:
            status = stop.code
    printed = capsys.readouterr()
    assert status not in (0, None), printed.out
    message = status if isinstance(status, str) else printed.err
    assert "error" in message or message == status
    assert "Traceback" not in message
    assert contents(folder) == before


def test_the_files_are_what_the_lines_say(folder):
    assert len(LINES) >= 150
    assert json.loads((folder / "list.json").read_text()) == [1, 2]
