"""Archives and files as the organisers made them, to plain text; on the real files where they are at hand."""

import gzip
import io
import re
import sys
import tarfile
from pathlib import Path

import pytest

from explicit_sparse.tools.command import ToolError
from explicit_sparse.tools.prepare import extract as tool
from explicit_sparse.tools.prepare.datasets import IWSLT14_DE_EN, IWSLT15_EN_VI
from explicit_sparse.tools.prepare.fetch import fetch, sha256
from explicit_sparse.tools.prepare.text import tokeniser

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pipeline"))
from original_archives import sgml, ted_xml, tgz, zipped  # noqa: E402

REAL_DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
needs_real_data = pytest.mark.skipif(not REAL_DATA.is_dir(), reason="the real archives are not at hand")


def packed(kind):
    files = {"./top/a.txt": b"one\n", "top/sub/b.txt": b"two\n", "top/._b.txt": b"junk"}
    if kind == "zip":
        return zipped(files)
    if kind == "tgz":
        return tgz(files)
    plain = gzip.decompress(tgz(files))
    if kind == "tar":
        return plain
    import bz2
    import lzma

    return {"bz2": bz2, "xz": lzma}[kind].compress(plain)


@pytest.mark.parametrize("kind", ["zip", "tgz", "tar", "bz2", "xz"])
def test_unpack(tmp_path, kind):
    (tmp_path / "x.bin").write_bytes(packed(kind))  # the name does not tell what it is
    found = tool.unpack(tmp_path / "x.bin", ["top/a.txt", "b.txt"], tmp_path)
    assert found["top/a.txt"].read_bytes() == b"one\n" and found["b.txt"].read_bytes() == b"two\n"
    tool.check_archive(tmp_path / "x.bin")
    with pytest.raises(ToolError, match="has no c.txt; it has .*a.txt"):
        tool.unpack(tmp_path / "x.bin", ["c.txt"], tmp_path / "again")


def test_a_training_text_in_another_encoding_is_refused(tmp_path):
    lines = ["Ein Häuschen", "Zwei Straßen", "Drei Bäume", "Vier"] * 5
    (tmp_path / "a.de").write_bytes("".join(line + "\n" for line in lines).encode("latin-1"))
    (tmp_path / "a.en").write_bytes(b"One\n" * len(lines))
    sides = (tmp_path / "a.de", tmp_path / "a.en")
    with pytest.raises(ToolError, match="a.de and a.en: 15 of 20 pairs are not UTF-8.*iconv"):
        tool.write_pairs(sides, "plain", (io.StringIO(), io.StringIO()), True, {})


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, "v7"])
def test_tars_of_every_kind(tmp_path, mode, format_):
    """Older than POSIX, and with hard links: as GNU tar reads them."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode.replace("w:gz", "w").replace("w:xz", "w")) as archive:
        archive.format = tarfile.PAX_FORMAT if format_ == "v7" else format_
        for name, data in (("top/first.txt", b"one\n"), ("top/other.txt", b"two\n")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("top/a.txt")
        link.type, link.linkname = tarfile.LNKTYPE, "top/first.txt"
        archive.addfile(link)
    data = content.getvalue()
    if format_ == "v7":
        data = as_v7(data)
    if mode != "w":
        import lzma

        data = gzip.compress(data) if mode == "w:gz" else lzma.compress(data)
    (tmp_path / "x.bin").write_bytes(data)
    found = tool.unpack(tmp_path / "x.bin", ["top/a.txt", "other.txt"], tmp_path)
    assert found["top/a.txt"].read_bytes() == b"one\n" and found["other.txt"].read_bytes() == b"two\n"


def as_v7(data):
    """A tar without the magic word, as before POSIX; each header's checksum made anew."""
    blocks = [bytearray(data[start : start + 512]) for start in range(0, len(data), 512)]
    for block in blocks:
        if block[257:262] == b"ustar":
            block[257:512] = bytes(255)
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
    return b"".join(map(bytes, blocks))


def test_zips_with_backslashes(tmp_path):
    data = zipped({"top/a.txt": b"one\n"}).replace(b"top/a.txt", b"top\\a.txt")
    (tmp_path / "x.zip").write_bytes(data)
    assert tool.unpack(tmp_path / "x.zip", ["top/a.txt"], tmp_path)["top/a.txt"].read_bytes() == b"one\n"


def test_zips_that_python_cannot_unpack(tmp_path):
    data = bytearray(zipped({"a.txt": b"one\n" * 100}))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.index(signature) + offset] = 9  # Deflate64, as Windows writes large files
    (tmp_path / "x.zip").write_bytes(bytes(data))
    for call in (lambda: tool.check_archive(tmp_path / "x.zip"), lambda: tool.unpack(tmp_path / "x.zip", ["a.txt"], tmp_path)):
        with pytest.raises(ToolError, match="x.zip cannot be unpacked here.*another program"):
            call()


@pytest.mark.parametrize(
    "data, name", [(gzip.compress(b"one\n"), "a.txt.gz"), (b"one\n", "a.txt"), (b"one\n", "a.txt.gz")]
)
def test_a_single_file_is_its_own_member(tmp_path, data, name):
    (tmp_path / name).write_bytes(data)
    tool.check_archive(tmp_path / name)
    assert tool.unpack(tmp_path / name, ["a.txt"], tmp_path)["a.txt"].read_bytes() == b"one\n"


@pytest.mark.parametrize("kind, name", [("zip", "x.zip"), ("tgz", "x.tgz"), ("bz2", "x.tar.bz2"), ("xz", "x.tar.xz")])
def test_truncated(tmp_path, kind, name):
    (tmp_path / name).write_bytes(packed(kind)[:-30])
    with pytest.raises(ToolError, match="damaged or ends early.*remove it"):
        tool.check_archive(tmp_path / name)


def test_a_member_cut_short_is_not_used(tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = 100_000
        archive.addfile(entry, io.BytesIO(bytes(range(250)) * 400))
    (tmp_path / "x.tgz").write_bytes(content.getvalue()[: len(content.getvalue()) // 2])
    with pytest.raises(ToolError, match="damaged or ends early"):
        tool.unpack(tmp_path / "x.tgz", ["a.txt"], tmp_path)


def read(tmp_path, data, reader):
    (tmp_path / "side").write_bytes(data)
    notes = {}
    return list(tool.read_side(tmp_path / "side", reader, notes)), notes


def test_readers(tmp_path):
    training = b"<url>u</url>\n<keywords>k</keywords>\n<speaker>S</speaker>\n<talkid>1</talkid>\n<title>T</title>\n<description>D</description>\n a  b \n"
    assert read(tmp_path, training, "tagged")[0] == ["<speaker>S</speaker>", "T", "D", "a b"]
    assert read(tmp_path, training, "untagged")[0] == ["a b"]
    assert read(tmp_path, training, "plain")[0][-1] == "a b"
    assert read(tmp_path, b"\xef\xbb\xbfa\r\nb\xffc\n", "plain") == (
        ["a", tool.INVALID],
        {"byte-order mark removed": 1, "Windows line end": 1},
    )


@pytest.mark.parametrize("make", [lambda lines: ted_xml(lines, "de", "x"), lambda lines: sgml(lines, "ref", "de")])
def test_segments_are_what_sacrebleu_extracts(tmp_path, make):
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    lines = ["Das ist R&amp;D.", "  zwei   Räume ", "&quot;x&quot; > y", "", "tab\there"]
    ours, _ = read(tmp_path, make(lines), "segments")
    FakeSGMLDataset._convert_format(object.__new__(FakeSGMLDataset), str(tmp_path / "side"), str(tmp_path / "theirs"))
    assert ours == (tmp_path / "theirs").read_text(encoding="utf-8").rstrip("\n").split("\n")


@needs_real_data
def test_real_en_vi_archives(tmp_path):
    for subset, count in ((IWSLT15_EN_VI.valid, 1553), (IWSLT15_EN_VI.tests[0], 1268)):
        part = subset.parts[0].instead
        path, _ = fetch(part.archive, tmp_path, [str(REAL_DATA / "iwslt15-en-vi")])
        found = tool.unpack(path, [part.source, part.target], tmp_path / subset.name)
        for name in (part.source, part.target):
            assert sha256(found[name]) == IWSLT15_EN_VI.member_sha256[name]
        with open(tmp_path / "en", "w") as source, open(tmp_path / "vi", "w") as target:
            notes = {}
            sides = (found[part.source], found[part.target])
            assert tool.write_pairs(sides, part.reader, (source, target), False, notes) == count
            assert notes == {}


@needs_real_data
def test_real_ted_files_through_the_iwslt14_extraction(tmp_path):
    """The talks of IWSLT14's test set, in the same format but under IWSLT16's names."""
    archive = REAL_DATA / "iwslt16-de-en-devtest.tar.xz"
    parts = IWSLT14_DE_EN.tests[0].parts
    names = [name.split("/")[-1].replace("IWSLT14", "IWSLT16") for part in parts for name in (part.source, part.target)]
    found = tool.unpack(archive, names, tmp_path / "members")
    total, notes = 0, {}
    with open(tmp_path / "de", "w", encoding="utf-8") as source, open(tmp_path / "en", "w", encoding="utf-8") as target:
        for index in range(0, len(names), 2):
            sides = (found[names[index]], found[names[index + 1]])
            total += tool.write_pairs(sides, "segments", (source, target), False, notes)
    assert total == 6750 and notes == {}

    for language in ("de", "en"):
        ours = (tmp_path / language).read_text(encoding="utf-8").rstrip("\n").split("\n")
        # What fairseq's recipe does to these files, in its own terms.
        theirs = []
        for name in names:
            if name.endswith(f".{language}.xml"):
                for line in found[name].read_text(encoding="utf-8").split("\n"):
                    if "<seg id" in line:
                        theirs.append(re.sub(r"\s*</seg>\s*", "", re.sub(r'<seg id="[0-9]*">\s*', "", line)))
        assert len(theirs) == 6750
        assert tokeniser(language)()(ours) == tokeniser(language)()(theirs)
    assert any("&amp;" in line for line in ours) and not any(line != line.strip() or "  " in line for line in ours)
    tokens = tokeniser("en", lowercase=True, straight_apostrophe=True)()(ours)
    assert not any("’" in line for line in tokens) and any(" &amp; amp ; " in line for line in tokens)


def test_sides_of_unequal_length(tmp_path):
    (tmp_path / "a").write_text("1\n2\n3\n")
    (tmp_path / "b").write_text("1\n2\n")
    with pytest.raises(ToolError, match="a has 3 sentences and b has 2"):
        tool.write_pairs((tmp_path / "a", tmp_path / "b"), "plain", (io.StringIO(), io.StringIO()), True, {})
