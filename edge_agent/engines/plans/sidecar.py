"""`KEY.json` beside `KEY.plan`: what the plan is, whether it was verified, or why it is not used any more."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edge_agent.engines.plans.key import PlanKey

_SCHEMA = 1
_MAX_REASON = 1000
_MAX_REFUSED = 16
_HEX = {"key": re.compile(r"[0-9a-f]{32}\Z"), "sha256": re.compile(r"[0-9a-f]{64}\Z")}


class Refusal(NamedTuple):
    """Why a plan is not loaded again."""

    code: str
    reason: str
    at: str  #: RFC 3339


@dataclass(frozen=True)
class Sidecar:
    """What is known of a plan. The shelf fills in `sha256`, `size` and `serial`."""

    key: str  #: PlanKey.digest
    model: str  #: `NAME/VERSION`, for people
    precision: str  #: what it became; the key has what was asked
    built_at: str
    key_fields: Mapping[str, Any] = field(default_factory=dict)
    io: Tuple[Mapping[str, Any], ...] = ()  #: name, shape, datatype, and whether it is an input
    report: Mapping[str, Any] = field(default_factory=dict)  #: of the build
    verified: bool = False
    figures: Mapping[str, Any] = field(default_factory=dict)  #: of the verification
    sha256: str = ""  #: of the plan
    size: int = 0
    serial: int = 0  #: rises with each plan: the clock of a board may not
    refused: Optional[Refusal] = None
    refused_plans: Tuple[str, ...] = ()  #: SHA-256 of plans of this key that are never loaded again

    @classmethod
    def of(
        cls,
        key: PlanKey,
        model: str,
        precision: str,
        built_at: str,
        io: Sequence[Mapping[str, Any]] = (),
        report: Optional[Mapping[str, Any]] = None,
    ) -> Sidecar:
        """Of a plan that was just built."""
        return cls(key.digest, model, precision, built_at, key.fields(), tuple(io), dict(report or {}))

    def refuse(self, code: str, reason: str, at: str) -> Sidecar:
        """The same of a plan that is not loaded any more."""
        refused = [sha256 for sha256 in (*self.refused_plans, self.sha256) if sha256]
        return dataclasses.replace(
            self,
            verified=False,
            refused=Refusal(code, reason[:_MAX_REASON], at),
            refused_plans=tuple(dict.fromkeys(refused))[-_MAX_REFUSED:],
        )

    def encode(self) -> bytes:
        """As the file has it."""
        fields = dataclasses.asdict(self)
        fields["refused"] = None if self.refused is None else self.refused._asdict()
        return json.dumps({"schema": _SCHEMA, **fields}, indent=1, sort_keys=True).encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Sidecar:
        """Raises ValueError saying what is wrong with the file."""
        try:
            document = json.loads(data.decode("utf-8"))
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        if not isinstance(document, dict):
            raise ValueError("it is no table")
        if document.pop("schema", None) != _SCHEMA:
            raise ValueError("it is of another version of the agent")
        return cls(**_checked(document))


_KINDS: Mapping[str, Any] = {
    "key": str,
    "model": str,
    "precision": str,
    "built_at": str,
    "key_fields": dict,
    "io": list,
    "report": dict,
    "verified": bool,
    "figures": dict,
    "sha256": str,
    "size": int,
    "serial": int,
    "refused": (dict, type(None)),
    "refused_plans": list,
}


def _checked(document: Dict[str, Any]) -> Dict[str, Any]:
    if set(document) != set(_KINDS):
        raise ValueError("it has not the fields that it should have")
    for name, kind in _KINDS.items():
        value = document[name]
        if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 0)):
            raise ValueError("%s is not what it should be" % name)
    if not _HEX["key"].match(document["key"]):
        raise ValueError("key is not what it should be")
    for sha256 in (document["sha256"], *document["refused_plans"]):
        if not isinstance(sha256, str) or not _HEX["sha256"].match(sha256):
            raise ValueError("sha256 is not what it should be")
    document["io"] = _tables(document["io"])
    document["refused_plans"] = tuple(document["refused_plans"])
    document["refused"] = _refusal(document["refused"])
    return document


def _tables(items: List[Any]) -> Tuple[Mapping[str, Any], ...]:
    if not all(isinstance(item, dict) for item in items):
        raise ValueError("io is not what it should be")
    return tuple(items)


def _refusal(table: Optional[Dict[str, Any]]) -> Optional[Refusal]:
    if table is None:
        return None
    if set(table) != set(Refusal._fields) or not all(isinstance(value, str) for value in table.values()):
        raise ValueError("refused is not what it should be")
    return Refusal(**table)
