"""Which version of each model serves, which one did before, which is tried and which were refused: kept over restarts."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from edge_agent.config.durable import write_durably
from edge_agent.serving.promotion.refusal import Refusal

_log = logging.getLogger(__name__)

FILE_NAME = "promotions.json"
COPY_NAME = FILE_NAME + ".1"  #: the same once more, for when the first one is damaged
_FORM = 2  #: number of the file's form
_FORMS = (1, _FORM)  #: that can be read
_DAMAGE = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass
class Record:
    """What is known of one model."""

    active: Optional[int] = None  #: it serves, or did last
    previous: Optional[int] = None  #: it served before: the way back
    candidate: Optional[int] = None  #: it is compared with the active one
    refused: Dict[int, Refusal] = field(default_factory=dict)
    answered: int = 0  #: requests, well, by the active one since it took the place of the previous one
    served_s: float = 0.0  #: how long that took it
    unjudged: Optional[int] = None  #: it serves as the active one cannot, and was not compared to the end
    unsure: bool = False  #: what was known before is lost: a version may serve that was refused

    @property
    def base(self) -> Optional[int]:
        """The version whose answers count as right."""
        return self.active if self.unjudged is None else self.unjudged

    def as_json(self) -> Dict[str, Any]:
        """An entry of `models` in the file."""
        refused = {str(number): refusal.as_json() for number, refusal in sorted(self.refused.items())}
        numbers = {"active": self.active, "previous": self.previous, "candidate": self.candidate}
        counted = {"answered": self.answered, "served_s": round(self.served_s, 1)} if self.answered else {}
        doubts = {"unjudged": self.unjudged} if self.unjudged is not None else {}
        return {**numbers, "refused": refused, **counted, **doubts, **({"unsure": True} if self.unsure else {})}

    def copy(self) -> Record:
        """One that can be changed for a trial."""
        return replace(self, refused=dict(self.refused))


class Ledger:
    """Records in one small file; without a folder they last as long as the agent runs."""

    def __init__(self, state_dir: Optional[Path]) -> None:
        self.lost = False  #: there was something to read, and nothing of it can be believed
        self._path = None if state_dir is None else state_dir / FILE_NAME
        self._copy = None if state_dir is None else state_dir / COPY_NAME
        self._records: Dict[str, Record] = {}
        self._changes = 0
        self._saved = 0
        self._saving = threading.Lock()  # callers of `save` are threads of a pool

    def load(self) -> None:
        """Reads the file, or its copy; of what cannot be read nothing is believed, and that is said."""
        for path in (self._path, self._copy):
            if path is None or not path.exists():
                continue
            try:
                self._records = _records(json.loads(path.read_text("utf-8")))
            except _DAMAGE as error:
                self.lost = True
                text = "%s cannot be read: %s: %s"
                _log.error(text, path, type(error).__name__, error, extra={"code": "model.promotions_lost"})
            else:
                if path == self._copy:
                    text = "which versions serve was read from %s, as %s is missing or damaged"
                    _log.warning(text, path, self._path, extra={"code": "model.promotions_lost"})
                self.lost = False
                return
        if self.lost:
            text = "every version counts as new and none as refused, as %s and its copy are lost"
            _log.error(text, self._path, extra={"code": "model.promotions_lost"})

    def of(self, name: str) -> Record:
        """What is known of a model; nothing at first. Not to be changed."""
        return self._records.get(name) or Record()

    def all(self) -> Mapping[str, Record]:
        """What is known, by model. Not to be changed."""
        return self._records

    def put(self, name: str, record: Optional[Record]) -> bool:
        """From now on that is so (None: nothing is known); answers whether it is news, for `save`."""
        if self._records.get(name) == record:
            return False
        if record is None:
            del self._records[name]
        else:
            self._records[name] = record
        self._changes += 1
        return True

    def content(self) -> Tuple[int, bytes]:
        """What `save` takes: made on the loop, so that no change is half in it."""
        models = {name: record.as_json() for name, record in sorted(self._records.items())}
        return self._changes, json.dumps({"form": _FORM, "models": models}, indent=1).encode()

    def save(self, number: int, content: bytes) -> None:
        """Writes it; blocks. What cannot be written is told, and is written with the next change."""
        if self._path is None or self._copy is None:
            return
        with self._saving:
            if number <= self._saved:
                return  # a later one was faster
            try:
                write_durably(self._path, content)
            except OSError as error:
                text = "%s cannot be written, a restart will not know which version serves: %s"
                _log.error(text, self._path, error, extra={"code": "model.promotions_lost"})
                return
            self._saved = number
            try:
                write_durably(self._copy, content)
            except OSError as error:
                text = "%s cannot be written, so there is no copy of what %s says: %s"
                _log.warning(text, self._copy, self._path, error, extra={"code": "model.promotions_lost"})


def _records(document: Any) -> Dict[str, Record]:
    """Out of the file's JSON; whatever else raises."""
    form = document["form"]
    if form not in _FORMS:
        raise ValueError("form %r is not known" % form)
    return {str(name): _record(fields, form) for name, fields in document["models"].items()}


def _record(fields: Any, form: int) -> Record:
    refused = {int(number): Refusal.from_json(refusal, form) for number, refusal in fields["refused"].items()}
    numbers = [fields[key] for key in ("active", "previous", "candidate")]
    if not all(number is None or type(number) is int for number in numbers):
        raise TypeError("a version is a whole number")
    unjudged, unsure = fields.get("unjudged"), fields.get("unsure", False)
    if type(unjudged) not in (int, type(None)) or type(unsure) is not bool:
        raise TypeError("what is not known for sure is a version, and true or false")
    answered, served_s = fields.get("answered", 0), fields.get("served_s", 0.0)
    if type(answered) is not int or type(served_s) not in (int, float):
        raise TypeError("what was counted is a number")
    return Record(numbers[0], numbers[1], numbers[2], refused, answered, float(served_s), unjudged, unsure)
