"""Files with the names of classes."""

from __future__ import annotations

from pathlib import Path
from typing import List, Tuple

from edge_agent.config.faults import Fault

_MAX_BYTES = 4_194_304


def read_labels(file: Path, key: str, faults: List[Fault]) -> Tuple[str, ...]:
    """The names one a line; an empty line is a class without a name of its own. `key` is where the file is named."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as exc:
        cure = "put the file there, or correct %s" % key
        faults.append((str(file), "the labels cannot be read: %s" % exc.strerror, cure))
        return ()
    except UnicodeDecodeError:
        faults.append((str(file), "the labels are not UTF-8 text", "save them as UTF-8, one a line"))
        return ()
    if len(data) > _MAX_BYTES:
        faults.append((str(file), "the labels are over %d bytes" % _MAX_BYTES, "check that the right file is named"))
        return ()
    lines = [line.strip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)
