"""Which installed fonts have the characters of some text: tokens of any script become labels of pictures."""

import unicodedata
from functools import lru_cache
from typing import Dict, FrozenSet, Iterable, List, Tuple

_DEFAULT = "DejaVu Sans"  # comes with matplotlib
_REGULAR = ("regular", "book", "normal", "medium", "roman")


def fonts_for(text: Iterable[str]) -> Tuple[List[str], str]:
    """Fonts that together draw a text, and the characters that none of them has.

    matplotlib takes each character from the first font that has it. DejaVu Sans comes first: it covers the Latin,
    Greek and Cyrillic alphabets with their diacritics, Romanian's and Vietnamese's among them. For what it lacks, such
    as Chinese, the installed font that has most of it is added, Noto's and sans-serif ones first, until nothing is
    missing or no font helps.

    Returns:
        Names of font families for matplotlib's ``font.family``, and the characters without a glyph.
    """
    needed = {c for string in text for c in string if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf")}
    families = [_DEFAULT]
    missing = needed - _characters(_DEFAULT)
    while missing:
        candidates = {name: missing & _characters(name) for name in _installed()}
        best = max(
            candidates, key=lambda name: (len(candidates[name]), "Noto" in name, "Sans" in name, name), default=None
        )
        if best is None or not candidates[best]:
            break
        families.append(best)
        missing -= candidates[best]
    return families, "".join(sorted(missing))


@lru_cache(maxsize=None)
def _installed() -> Dict[str, str]:
    """{family: file of its upright face} of the fonts that matplotlib finds, its own included."""
    from matplotlib import font_manager

    # matplotlib remembers the fonts of its first run: fonts installed since are added here.
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            try:
                font_manager.fontManager.addfont(path)
            except (OSError, RuntimeError, ValueError):  # not a font that FreeType can read
                continue
    files: Dict[str, str] = {}
    for entry in font_manager.fontManager.ttflist:
        if entry.name.startswith("Last Resort"):  # has a box for every character
            continue
        if entry.style == "normal" and (entry.name not in files or str(entry.weight) in ("400", *_REGULAR)):
            files[entry.name] = entry.fname
    return files


@lru_cache(maxsize=None)
def _characters(family: str) -> FrozenSet[str]:
    from matplotlib import font_manager

    try:
        return frozenset(map(chr, font_manager.get_font(_installed()[family]).get_charmap()))
    except (KeyError, OSError, RuntimeError):  # a file that is gone, or that FreeType cannot read
        return frozenset()
