"""Get a file from the first of its mirrors that has it, whole and verified. The only module that uses the network."""

import hashlib
import http.client
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from ..command import ToolError
from .datasets import Archive, Copy
from .errors import DISK_FULL
from .extract import check_archive, missing_members
from .steps import info, locked

CHUNK = 1 << 20
TIMEOUT = 60  # seconds without a byte
TRIES = 4  # in a row without progress
PAUSE = 0.5  # seconds before the second try; doubles from there
REPORT_EVERY = 15  # seconds


def fetch(
    archive: Archive, folder: Path, origins: Sequence[str] = (), verify: bool = True, members: Sequence[str] = ()
) -> Tuple[Path, Copy]:
    """Return the local file and which copy it is.

    Parameters
    ----------
    archive : its copies are tried in order.
    folder : where downloads are kept; a file there that is whole and right is used again.
    origins : folders or base URLs to use instead of the official mirrors; nothing else is contacted then.
    verify : False accepts a file whose size or checksum is not the published one, with a warning.
    members : what must be in it. Where no checksum is known, a file is right if it can be unpacked and has them.

    Raises
    ------
    ToolError : no copy could be had; says what happened with each.
    """
    failures: List[str] = []
    for copy in archive.copies:
        for place in _places(copy, origins):
            if not is_url(place):
                path = Path(place)
                if path.is_file():
                    complaint = _complaint(path, copy, verify, members)
                    if complaint is None:
                        return path, copy
                    failures.append(f"{path}: {complaint}")
                continue
            path = folder / copy.name
            with locked(folder / f".{copy.name}.lock"):
                if path.is_file() and _complaint(path, copy, verify, members) is None:
                    return path, copy
                try:
                    part = _download(place, path, copy.bytes if verify else None)
                except ToolError as error:
                    failures.append(f"{place}: {error}")
                    info(f"  {place}: {error}")
                    continue
                complaint = _complaint(part, copy, verify, members)
                if complaint is None:
                    os.replace(part, path)
                    return path, copy
                part.unlink()
                failures.append(f"{place}: {complaint}")
                info(f"  {place}: {complaint}")
    tried = "\n  ".join(failures) or "none of these names was found: " + ", ".join(
        dict.fromkeys(copy.name for copy in archive.copies)
    )
    raise ToolError(
        f"could not get {archive.copies[0].name}:\n  {tried}\n"
        "If you have the file, put it in a folder and run again with --from FOLDER"
    )


def sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    return _digest(path, "sha256")


def is_url(place: str) -> bool:
    """Whether a place to take files from is a server, not a folder."""
    return urllib.parse.urlsplit(place).scheme in ("http", "https", "ftp", "file")


def _places(copy: Copy, origins: Sequence[str]) -> List[str]:
    """Where one copy may be: its own URL, or below each origin under its name or a tail of its URL's path."""
    if not origins:
        return [copy.url]
    parts = urllib.parse.urlsplit(copy.url).path.strip("/").split("/")
    tails = [copy.name] + ["/".join(parts[cut:]) for cut in range(len(parts))]
    names = list(dict.fromkeys(tails))
    return [f"{origin.rstrip('/')}/{name}" for origin in origins for name in names]


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with open(path, "rb") as data:
        for chunk in iter(lambda: data.read(CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _complaint(path: Path, copy: Copy, verify: bool, members: Sequence[str]) -> Optional[str]:
    """What is wrong with a file, or None. A web page, an empty file or a broken archive is never accepted."""
    if path.stat().st_size == 0:
        return "is empty"
    with open(path, "rb") as data:
        start = data.read(512).lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "this is a web page, not the file (a login, an error page or a proxy's notice?)"
    wrong = []
    size = path.stat().st_size
    if copy.bytes is not None and size != copy.bytes:
        wrong.append(f"{size:,} bytes instead of {copy.bytes:,}")
    else:
        for algorithm, expected in (("sha256", copy.sha256), ("md5", copy.md5)):
            if expected is not None:
                found = _digest(path, algorithm)
                if found != expected:
                    wrong.append(f"{algorithm} {found} instead of {expected}")
    if wrong and verify:
        return "; ".join(wrong) + " (--unverified accepts it all the same)"
    if wrong:
        info(f"warning: {path.name} is not the published file: {'; '.join(wrong)}")
    if wrong or not (copy.sha256 or copy.md5):
        try:
            check_archive(path)
            missing = missing_members(path, members, named=copy.name)
            if missing:
                return f"has no {', '.join(missing)}: not the archive, or another one"
        except ToolError as error:
            return str(error)
    return None


def _download(url: str, target: Path, size: Optional[int]) -> Path:
    """Download to a file aside and return it; continue where a dropped connection or a killed run left it.

    More than ``size`` bytes are never taken. Nobody at home (no such host, connection refused) is not asked again.
    """
    mirror = hashlib.sha1(url.encode()).hexdigest()[:8]  # parts of two mirrors must never be joined
    part = target.with_name(f"{target.name}.{mirror}.part")
    failed = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        info(f"  {url}" + (f" from byte {before:,}" if before else ""))
        try:
            _continue(url, part, before, size)
            return part
        except ToolError:
            part.unlink(missing_ok=True)
            raise
        except urllib.error.HTTPError as error:
            if error.code == 416 and before:  # asked for more than there is: whole already, or another file now
                if error.headers.get("Content-Range", "").endswith(f"/{before}"):
                    return part
                part.unlink()
            elif error.code < 500:
                raise ToolError(f"HTTP {error.code} {error.reason}") from None
            problem = f"HTTP {error.code} {error.reason}"
        except (urllib.error.URLError, http.client.HTTPException, socket.timeout, OSError) as error:
            if getattr(error, "errno", None) in DISK_FULL:
                part.unlink()
                raise
            reason = getattr(error, "reason", error)
            problem = str(reason or type(error).__name__)
            if isinstance(reason, (ConnectionRefusedError, socket.gaierror)):
                raise ToolError(problem) from None
        except ValueError as error:  # a redirect to what is no URL
            raise ToolError(f"answers with what cannot be followed ({error})") from None
        grown = part.exists() and part.stat().st_size > before
        failed = 1 if grown else failed + 1
        if failed >= TRIES:
            raise ToolError(problem)
        time.sleep(min(PAUSE * 2 ** (failed - 1), 30))


def _continue(url: str, part: Path, have: int, size: Optional[int]) -> None:
    """One request; appends to ``part``. Raises ConnectionError where fewer bytes came than were announced."""
    request = urllib.request.Request(url, headers={"User-Agent": "explicit-sparse"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if response.headers.get_content_type() == "text/html":
            raise ToolError("answers with a web page, not the file")
        resumed = have and getattr(response, "status", None) == 206
        length = response.headers.get("Content-Length", "")
        total = int(length) + (have if resumed else 0) if length.isdigit() else None
        if size is not None and total is not None and total > size:
            raise ToolError(f"offers {total:,} bytes instead of {size:,}")
        reported = time.monotonic()
        with open(part, "ab" if resumed else "wb") as out:
            while True:
                chunk = response.read(CHUNK)
                if not chunk:
                    break
                out.write(chunk)
                if size is not None and out.tell() > size:
                    raise ToolError(f"sends more than the {size:,} bytes that the file has")
                if time.monotonic() - reported > REPORT_EVERY:
                    reported = time.monotonic()
                    info(f"    {out.tell():,} of {total:,} bytes" if total else f"    {out.tell():,} bytes")
    got = part.stat().st_size
    if total is not None and got < total:
        raise ConnectionError(f"the connection was dropped after {got:,} of {total:,} bytes")
