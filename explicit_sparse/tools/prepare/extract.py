"""Out of archives, XML and SGML into plain parallel text: one sentence a line, UTF-8, single spaces."""

import bz2
import gzip
import lzma
import re
import shutil
import tarfile
import zipfile
import zlib
from itertools import zip_longest
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ..command import ToolError

_BROKEN = (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_COMPRESSED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


# ---------------------------------------------------------------- archives


def _opener(path: Path) -> Optional[Callable]:
    """What decompresses a file, by its first bytes: its name may come from anywhere."""
    with open(path, "rb") as data:
        start = data.read(6)
    return next((opener for magic, opener in _COMPRESSED.items() if start.startswith(magic)), None)


def _broken(path: Path, error: Exception) -> ToolError:
    return ToolError(
        f"{path} is damaged or ends early ({error or type(error).__name__}): remove it, and it is downloaded again"
    )


def _unreadable(path: Path, error: Exception) -> ToolError:
    return ToolError(f"{path} cannot be unpacked here ({error}): unpack it with another program and pack it anew")


def _streams(path: Path) -> Iterator[Tuple[str, object]]:
    """(name, binary stream) of every file in an archive; a file that is no archive is its own only member."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                name = entry.filename.replace("\\", "/")  # as some Windows programs write folders
                if not name.endswith("/"):
                    with archive.open(entry) as stream:
                        yield name, stream
        return
    opener = _opener(path)
    if opener is None and not tarfile.is_tarfile(path):
        with open(path, "rb") as stream:
            yield _unsuffixed(path), stream
        return
    if opener is not None:
        with opener(path, "rb") as stream:
            block = stream.read(512)
        if not _is_tar_header(block):
            with opener(path, "rb") as stream:
                yield _unsuffixed(path), stream
            return
    # Read as a stream, so that the end of the archive is reached and its checksum compared.
    links = []
    with tarfile.open(path, "r|*") as archive:
        for entry in archive:
            if entry.isfile():
                yield entry.name, archive.extractfile(entry)
            elif entry.islnk():
                links.append(entry.name)
    if links:  # a hard link's content stands at an earlier member, to which a stream cannot go back
        with tarfile.open(path, "r:*") as archive:
            for name in links:
                yield name, archive.extractfile(name)


def _unsuffixed(path: Path) -> str:
    """What a compressed file is called inside. Browsers unpack some and leave the name as it was."""
    return re.sub(r"\.(gz|bz2|xz)$", "", path.name)


def _is_tar_header(block: bytes) -> bool:
    """By its checksum: older formats have no magic word."""
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _drain(path: Path) -> None:
    """Read to the end of the compressed stream: a tar reader stops at the last member it saw."""
    opener = _opener(path)
    if opener is not None:
        with opener(path, "rb") as stream:
            while stream.read(1 << 20):
                pass


def check_archive(path: Path) -> None:
    """Read an archive through. Raises :class:`ToolError` where it is damaged or truncated."""
    try:
        if path.suffix == ".zip" and not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("no zip directory")
        if zipfile.is_zipfile(path):
            for _, stream in _streams(path):
                while stream.read(1 << 20):
                    pass
        _drain(path)
    except (*_BROKEN, OSError) as error:
        raise _broken(path, error) from None
    except (NotImplementedError, RuntimeError) as error:
        raise _unreadable(path, error) from None


def _is_member(name: str, member: str) -> bool:
    """Whether a file of an archive is the one wanted: folders before a member's name do not matter."""
    return f"/{name}".endswith(f"/{member}") or name == member.split("/")[-1]


def missing_members(path: Path, members: Sequence[str], named: str) -> List[str]:
    """Which of the members an archive does not hold; a file that is no archive is its own, by the name it should have."""
    names = [name for name, _ in _streams(path)]
    if names == [_unsuffixed(path)]:
        names = [_unsuffixed(Path(named))]
    return [member for member in members if not any(_is_member(name, member) for name in names)]


def unpack(path: Path, members: Sequence[str], folder: Path) -> Dict[str, Path]:
    """Extract the named members in one pass; returns where each is. Folders before a member's name do not matter.

    Raises :class:`ToolError` where the archive is damaged or lacks a member.
    """
    found: Dict[str, Path] = {}
    seen: List[str] = []
    try:
        for name, stream in _streams(path):
            seen.append(name)
            for member in members:
                if member not in found and _is_member(name, member):
                    place = folder / str(len(found)) / member.split("/")[-1]
                    place.parent.mkdir(parents=True)
                    with open(place, "wb") as out:
                        shutil.copyfileobj(stream, out, 1 << 20)
                    found[member] = place
    except _BROKEN as error:
        raise _broken(path, error) from None
    except (NotImplementedError, RuntimeError) as error:  # zipfile's words for Deflate64 and for passwords
        raise _unreadable(path, error) from None
    except OSError as error:
        if error.errno is not None:  # the system's word, as of a full disk; bz2's "invalid data" has no number
            raise
        raise _broken(path, error) from None
    missing = [member for member in members if member not in found]
    if missing:
        raise ToolError(
            f"{path} has no {', '.join(missing)}; it has {', '.join(seen[:8])}"
            f"{' …' if len(seen) > 8 else ''}. Is it the right archive?"
        )
    return found


# ---------------------------------------------------------------- readers

INVALID = None  # stands for a line that is not UTF-8
MOST_INVALID = 0.1  # of the pairs of a training text: web text has a few broken lines, another encoding has many

_TITLE = re.compile(r"</?(?:title|description)>")
_SEGMENT = re.compile(r"<seg[^>]*>(.*)</seg>", re.IGNORECASE)


def _plain(lines):
    return lines


def _tagged(lines):
    """fairseq's IWSLT14 recipe: three kinds of tag lines go, titles and descriptions stay as text."""
    for line in lines:
        if line is INVALID or not any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
            yield line if line is INVALID else _TITLE.sub("", line)


def _untagged(lines):
    """The text lines of an IWSLT training file: everything that does not begin with a tag."""
    return (line for line in lines if line is INVALID or not line.lstrip().startswith("<"))


def _segments(lines):
    """The segments of an XML or SGML file, entities as they are: as sacreBLEU extracts them, and fairseq's recipe."""
    for line in lines:
        if line is INVALID:
            yield line
        elif "<seg" in line.lower():
            match = _SEGMENT.search(line)
            if match is None:
                raise ToolError(f"a segment without an end on its line: {line.strip()[:80]!r}")
            yield match.group(1)


READERS = {"plain": _plain, "tagged": _tagged, "untagged": _untagged, "segments": _segments}


def _decoded(path: Path, notes: Dict[str, int]) -> Iterator[Optional[str]]:
    with open(path, "rb") as data:
        for number, line in enumerate(data):
            if number == 0 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
                notes["byte-order mark removed"] = notes.get("byte-order mark removed", 0) + 1
            if line.endswith(b"\r\n"):
                notes["Windows line end"] = notes.get("Windows line end", 0) + 1
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                yield INVALID


def read_side(path: Path, reader: str, notes: Dict[str, int]) -> Iterator[Optional[str]]:
    """The sentences of one file, white space made single spaces; :data:`INVALID` where a line is not UTF-8."""
    try:
        for line in READERS[reader](_decoded(path, notes)):
            yield line if line is INVALID else " ".join(line.split())
    except ToolError as error:
        raise ToolError(f"{path.name}: {error}") from None


def write_pairs(
    sides: Tuple[Path, Path], reader: str, outs: Tuple[object, object], training: bool, notes: Dict[str, int]
) -> int:
    """Append the pairs of two files to two open text files; returns how many.

    A training pair that is not UTF-8 is left out and counted in ``notes``; in other subsets it is an error,
    since a test set must never be changed. Empty lines stay (cleaning removes them from the training set).

    Raises :class:`ToolError` where the two sides differ in length, or the text is in another encoding.
    """
    pairs = bad = 0
    missing = object()
    readers = [read_side(side, reader, notes) for side in sides]
    lengths = [0, 0]
    for pair in zip_longest(*readers, fillvalue=missing):
        for side in (0, 1):
            lengths[side] += pair[side] is not missing
        if missing in pair:
            continue
        if INVALID in pair:
            if not training:
                raise ToolError(
                    f"{sides[pair.index(INVALID)].name}: sentence {lengths[0]} is not UTF-8. "
                    "Test and validation files are not repaired: get the original file"
                )
            notes["not UTF-8"] = notes.get("not UTF-8", 0) + 1
            bad += 1
            continue
        if not training and not all(pair):
            notes["empty line kept"] = notes.get("empty line kept", 0) + 1
        for out, text in zip(outs, pair):
            out.write(text + "\n")
        pairs += 1
    if lengths[0] != lengths[1]:
        raise ToolError(
            f"{sides[0].name} has {lengths[0]:,} sentences and {sides[1].name} has {lengths[1]:,}: "
            "they are no translation of each other line by line. Get both files anew, from one source"
        )
    if bad > MOST_INVALID * lengths[0]:
        raise ToolError(
            f"{sides[0].name} and {sides[1].name}: {bad:,} of {lengths[0]:,} pairs are not UTF-8, so the text is in another "
            "encoding. Convert both files, for example with iconv -f LATIN1 -t UTF-8"
        )
    return pairs
