"""Downloads: mirrors in order, resumed connections, checksums, and files that are not what they should be."""

import hashlib
import sys
from pathlib import Path

import pytest

from explicit_sparse.tools.command import ToolError
from explicit_sparse.tools.prepare import fetch as tool
from explicit_sparse.tools.prepare.__main__ import main as prepare_main
from explicit_sparse.tools.prepare.datasets import DATASETS, Archive, Copy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pipeline"))
from bad_server import serving  # noqa: E402
from original_archives import tgz  # noqa: E402

MEMBER = "a.txt"
DATA = tgz({MEMBER: bytes(range(256)) * 40})
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(tool, "PAUSE", 0.0)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.tgz").write_bytes(DATA)
    with serving(tmp_path / "served") as server:
        yield server


def archive(server, *kinds, **checks):
    return Archive(tuple(Copy(f"{server.url}/{kind}/a.tgz", **checks) for kind in kinds))


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_mirrors_are_tried_in_order_and_a_dropped_connection_resumes(server, tmp_path, capfd):
    mirrors = archive(server, "gone", "portal", "page", "drops", "files", bytes=len(DATA), sha256=SHA256)
    path, copy = tool.fetch(mirrors, tmp_path / "kept")
    assert path.read_bytes() == DATA and "/drops/" in copy.url
    assert [name for name, _ in server.requests].count("/files/a.tgz") == 0
    assert server.requests[-1] == ("/drops/a.tgz", f"bytes={len(DATA) // 2}-")
    messages = capfd.readouterr().err
    assert "HTTP 404" in messages and messages.count("web page") == 2
    assert leftovers(tmp_path / "kept") == ["a.tgz"]


def test_a_whole_file_is_not_downloaded_again(server, tmp_path):
    for _ in range(2):
        tool.fetch(archive(server, "files", sha256=SHA256), tmp_path / "kept")
    assert len(server.requests) == 1


def test_a_server_that_cannot_resume_starts_over(server, tmp_path):
    path, _ = tool.fetch(archive(server, "forgetful", sha256=SHA256), tmp_path / "kept")
    assert path.read_bytes() == DATA and server.requests[-1][1] is not None


def test_a_part_that_is_whole_already_counts(server, tmp_path):
    (tmp_path / "kept").mkdir()
    mirror = hashlib.sha1(f"{server.url}/files/a.tgz".encode()).hexdigest()[:8]
    (tmp_path / "kept" / f"a.tgz.{mirror}.part").write_bytes(DATA)  # killed between the last byte and the new name
    path, _ = tool.fetch(archive(server, "files", sha256=SHA256), tmp_path / "kept")
    assert path.read_bytes() == DATA


@pytest.mark.parametrize(
    "checks, complaint",
    [
        ({"sha256": "0" * 64}, f"sha256 {SHA256} instead of 000"),
        ({"md5": "0" * 32}, "md5 "),
        ({"bytes": 5}, f"{len(DATA):,} bytes instead of 5"),
    ],
)
def test_another_file_under_the_name_is_refused(server, tmp_path, checks, complaint):
    with pytest.raises(ToolError, match=complaint):
        tool.fetch(archive(server, "files", **checks), tmp_path / "kept")
    assert leftovers(tmp_path / "kept") == []
    path, _ = tool.fetch(archive(server, "files", **checks), tmp_path / "kept", verify=False)
    assert path.read_bytes() == DATA


def test_an_archive_that_ends_early_on_the_server_is_refused(server, tmp_path):
    (server.folder / "a.tgz").write_bytes(DATA[:-40])
    with pytest.raises(ToolError, match="damaged or ends early"):
        tool.fetch(archive(server, "files"), tmp_path / "kept")
    assert leftovers(tmp_path / "kept") == []


def test_no_mirror_left_says_what_happened_with_each(server, tmp_path):
    with pytest.raises(ToolError) as error:
        tool.fetch(archive(server, "gone", "portal"), tmp_path / "kept")
    message = str(error.value)
    assert "/gone/a.tgz: HTTP 404" in message and "/portal/a.tgz: answers with a web page" in message
    assert "--from FOLDER" in message


@pytest.mark.parametrize(
    "kind, complaint",
    [
        ("empty", "is empty"),
        ("nothing", "is empty"),
        ("xml", "has no train.txt: not the archive"),
        ("elsewhere", "nowhere:at all"),
        ("endless", "offers .* bytes instead of"),
    ],
)
@pytest.mark.parametrize("verify", [True, False], ids=["verified", "unverified"])
def test_what_is_no_archive_is_never_kept(server, tmp_path, monkeypatch, kind, complaint, verify):
    """No checksum is known, as of a third of the archives; the next mirror is asked, and the next call begins anew."""
    monkeypatch.setattr(tool, "PAUSE", 0.0)
    size = len(DATA) if kind == "endless" else None
    if size and not verify:
        pytest.skip("a size is not held against a file that is taken unverified")
    bad = archive(server, kind, bytes=size)
    with pytest.raises(ToolError, match=complaint):
        tool.fetch(bad, tmp_path / "kept", verify=verify, members=["train.txt"])
    assert leftovers(tmp_path / "kept") == []
    both = archive(server, kind, "files", bytes=size)
    path, copy = tool.fetch(both, tmp_path / "kept", verify=verify, members=[MEMBER])
    assert path.read_bytes() == DATA and "/files/" in copy.url


def test_a_kept_file_without_the_members_is_fetched_again(server, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a.tgz").write_bytes(b"<Error>try later</Error>")
    path, _ = tool.fetch(archive(server, "files"), tmp_path / "kept", members=[MEMBER])
    assert path.read_bytes() == DATA


def test_a_mad_length_is_ignored(server, tmp_path):
    path, _ = tool.fetch(archive(server, "mad", sha256=SHA256), tmp_path / "kept")
    assert path.read_bytes() == DATA


def test_a_refused_connection_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(tool.time, "sleep", lambda seconds: pytest.fail("waited for nobody"))
    with pytest.raises(ToolError, match="refused"):
        tool.fetch(Archive((Copy("http://127.0.0.1:9/a.tgz"),)), tmp_path / "kept", ["http://127.0.0.1:9"])


def test_a_folder_that_is_not_there_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        prepare_main(["multi30k.de-en", "--from", str(tmp_path / "typo"), "--out", str(tmp_path / "out")])
    assert f"--from {tmp_path / 'typo'}: there is no such folder" in capsys.readouterr().err


def test_nobody_there(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(tool, "PAUSE", 0.0)
    with pytest.raises(ToolError, match="refused"):
        tool.fetch(Archive((Copy("http://127.0.0.1:9/a.tgz"),)), tmp_path / "kept")


def test_a_folder_takes_the_place_of_the_servers(server, tmp_path):
    """Archives of one name are told apart by their folders, else by their checksums."""
    one = Archive((Copy(f"{server.url}/texts/fr/en/fr-en.tgz", sha256=SHA256, name="first-fr-en.tgz"),))
    (tmp_path / "mine" / "fr" / "en").mkdir(parents=True)
    (tmp_path / "mine" / "fr-en.tgz").write_bytes(b"another archive of the same name")
    with pytest.raises(ToolError, match="fr-en.tgz: sha256"):
        tool.fetch(one, tmp_path / "kept", [str(tmp_path / "mine")])
    (tmp_path / "mine" / "fr" / "en" / "fr-en.tgz").write_bytes(DATA)
    path, _ = tool.fetch(one, tmp_path / "kept", [str(tmp_path / "mine")])
    assert path == tmp_path / "mine" / "fr" / "en" / "fr-en.tgz"
    assert server.requests == []


def test_a_folder_without_the_file_names_it(tmp_path):
    with pytest.raises(ToolError, match="none of these names was found: a.tgz"):
        tool.fetch(Archive((Copy("http://127.0.0.1:9/a.tgz"),)), tmp_path / "kept", [str(tmp_path)])


def all_copies():
    for dataset in DATASETS.values():
        for recipe in (dataset, *dataset.variants.values()):
            subsets = [recipe.train, *([recipe.valid] if recipe.valid else []), *recipe.tests]
            parts = [part for subset in subsets for part in subset.parts]
            parts += [part.instead for part in parts if part.instead]
            for part in parts:
                for one in (part.archive, part.target_archive):
                    yield from ((dataset.name, copy) for copy in (one.copies if one else ()))


def test_files_of_a_data_set_have_different_names_on_disk():
    names = {}
    for dataset, copy in all_copies():
        of_name = names.setdefault((dataset, copy.name), copy)
        assert (of_name.bytes, of_name.sha256, of_name.md5) == (copy.bytes, copy.sha256, copy.md5)
    assert len(names) > 20
