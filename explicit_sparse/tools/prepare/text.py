"""Tokenising and cleaning, as Moses' tools do them."""

import os
import subprocess
import unicodedata
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from ..command import ToolError
from .parallel import Transform

LONGEST_WORD = 1000  # characters; clean-corpus-n's own limit
ROMANIAN = ("keep", "normalise", "strip")

_CEDILLA_TO_COMMA = str.maketrans("ŞşŢţ", "ȘșȚț")
_PLAIN_ROMANIAN = str.maketrans("ȘșȚțĂăÂâÎî", "SsTtAaAaIi")


class _Printable(dict):
    """A translation table, filled as characters turn up: control and format characters become spaces."""

    def __missing__(self, code: int) -> int:
        self[code] = 0x20 if unicodedata.category(chr(code)).startswith("C") else code
        return self[code]


def romanian(text: str, how: str) -> str:
    """Romanian spelling: cedillas become commas ("normalise"); diacritics then go too ("strip")."""
    if how == "keep":
        return text
    text = text.translate(_CEDILLA_TO_COMMA)
    return text.translate(_PLAIN_ROMANIAN) if how == "strip" else text


def moses_script(folder: Path, name: str) -> Path:
    """A Perl script of a Moses checkout, which may be given as its root, scripts/ or scripts/tokenizer/."""
    for place in (folder / "scripts" / "tokenizer", folder / "tokenizer", folder):
        if (place / name).is_file():
            return place / name
    raise ToolError(f"no {name} in {folder}: --moses takes the folder of a Moses checkout (mosesdecoder)")


def _perl(script: Path, *options: str) -> Callable[[List[str]], List[str]]:
    def run(lines: List[str]) -> List[str]:
        try:
            done = subprocess.run(
                ["perl", str(script), *options],
                input="".join(line + "\n" for line in lines).encode("utf-8"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError:
            raise ToolError("--moses needs perl, which is not installed; without it sacremoses is used") from None
        if done.returncode:
            raise ToolError(f"perl {script} failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
        return done.stdout.decode("utf-8").split("\n")[:-1]  # every line ends with a line feed, an empty one too

    return run


def _each(function: Callable[[str], str]) -> Transform:
    return lambda lines: [function(line) for line in lines]


def tokeniser(
    language: str,
    moses: Optional[Path] = None,
    tokenise: bool = True,
    lowercase: bool = False,
    normalise_punctuation: bool = False,
    escape: bool = True,
    straight_apostrophe: bool = False,
    romanian_spelling: str = "keep",
) -> Callable[[], Transform]:
    """What a worker process calls once to get its function from text lines to token lines."""
    if not moses:
        import sacremoses  # once for all workers

    def make() -> Transform:
        stages: List[Transform] = []
        if straight_apostrophe:
            stages.append(_each(lambda line: line.replace("’", "'")))
        if normalise_punctuation:
            if moses:
                stages.append(_perl(moses_script(moses, "normalize-punctuation.perl"), "-l", language))
            else:
                stages.append(_each(sacremoses.MosesPunctNormalizer(lang=language).normalize))
            printable = _Printable()
            stages.append(_each(lambda line: line.translate(printable)))
        if language == "ro" and romanian_spelling != "keep":
            stages.append(_each(lambda line: romanian(line, romanian_spelling)))
        if tokenise and moses:
            options = ["-q", "-l", language, "-threads", "1"] + ([] if escape else ["-no-escape"])
            stages.append(_perl(moses_script(moses, "tokenizer.perl"), *options))
        elif tokenise:
            tokenizer = sacremoses.MosesTokenizer(lang=language)
            stages.append(_each(lambda line: tokenizer.tokenize(line, return_str=True, escape=escape)))
        # Rare characters count as white space for one tool and not for the next: single plain spaces from here.
        stages.append(_each(lambda line: " ".join(line.split())))
        if lowercase:
            stages.append(_each(str.lower))

        def transform(lines: List[str]) -> List[str]:
            for stage in stages:
                lines = stage(lines)
            return lines

        return transform

    return make


def rejection(source: str, target: str, limits: Tuple[int, int, float]) -> Optional[str]:
    """Why clean-corpus-n would drop a pair of tokenised lines, or None. A ratio of 0 allows any."""
    shortest, longest, ratio = limits
    lengths = [len(side.split(" ")) if side else 0 for side in (source, target)]
    if not all(lengths):
        return "empty line"
    if min(lengths) < shortest or max(lengths) > longest:
        return f"not {shortest} to {longest} tokens"
    if ratio and max(lengths) / min(lengths) > ratio:
        return f"length ratio above {ratio:g}"
    if any(len(side) > LONGEST_WORD and max(map(len, side.split(" "))) > LONGEST_WORD for side in (source, target)):
        return f"a word of more than {LONGEST_WORD} characters"
    return None
