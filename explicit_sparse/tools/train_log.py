"""What fairseq-train writes to its log with ``--log-format json``."""

import json
import re
from typing import Any, Dict, Iterable, Iterator, Tuple

_RECORD = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})\s*$")


def records(lines: Iterable[str]) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """(``train_inner``, ``train`` or ``valid``, its values) of every record; all values but the epoch are texts."""
    for line in lines:
        match = _RECORD.search(line)
        if match:
            yield match.group(1), json.loads(match.group(2))
