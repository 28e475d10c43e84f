"""Files, as all tools read and write them: never half written, found in a clone and in an installed package alike."""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import IO, Any, Dict, Iterator

from .command import ToolError

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent


def project_folder(name: str) -> Path:
    """``configs`` or ``data``: beside the package in a clone, inside it where pip installed it."""
    installed = PACKAGE / name
    return installed if installed.is_dir() else ROOT / name


@contextlib.contextmanager
def writing(path: Path, mode: str = "w", **options) -> Iterator[IO]:
    """Open a file that appears under its name only when it is whole: it is written aside, then renamed.

    Args:
        path: what the file will be called; its folder is made.
        mode: ``w`` or ``wb``. Text is UTF-8 with plain newlines.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise ToolError(f"{path}: is a folder; give the name of a file")
    aside = path.with_name(f"{path.name}.{os.getpid()}.partial")
    if "b" not in mode:
        options = {"encoding": "utf-8", "newline": "\n", **options}
    try:
        with open(aside, mode, **options) as file:
            yield file
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON for people and programs: one field a line."""
    with writing(path) as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        ToolError: if it is not there or holds something else.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ToolError(f"{path}: not valid JSON ({error}): truncated?") from error
    except OSError as error:
        raise ToolError(f"{path}: cannot be read ({error.strerror})") from error


def read_object(path: Path, *fields: str) -> Dict[str, Any]:
    """Read a JSON object that has these fields.

    Raises:
        ToolError: if it is not there, holds something else, or lacks one.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise ToolError(f"{path}: holds no JSON object; is it the right file?")
    missing = [field for field in fields if field not in value]
    if missing:
        raise ToolError(f"{path}: has no field {', '.join(map(repr, missing))}; is it the right file?")
    return value


def sha256(path: Path) -> str:
    """The checksum of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
