"""Which of the versions on disk serve, and which one is compared with them: pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple

from edge_agent.serving.promotion.ledger import Record
from edge_agent.serving.promotion.refusal import Refusal
from edge_agent.serving.repository import ModelEntry


@dataclass(frozen=True)
class Choice:
    """Numbers of versions."""

    serve: Tuple[int, ...]  #: lowest first; empty where all were refused
    main: Optional[int] = None  #: of those the one that answers who names none
    candidate: Optional[int] = None
    refused: Mapping[int, Refusal] = field(default_factory=dict)  #: of those on disk
    held: Optional[int] = None  #: of those that serve the one whose folder is away


def choose(entry: ModelEntry, record: Record, held: Optional[int] = None) -> Choice:
    """What its version policy says, but for refused versions, and with `[accept]` for those that must be compared first.

    A version whose files are others than those that were refused has no place in the record: see refusal.py.
    `held`: it serves from memory while its folder is away.
    """
    policy = entry.config.version_policy
    there = [version.number for version in entry.on_disk]
    refused = {number: refusal for number, refusal in record.refused.items() if number in there}
    allowed = [number for number in there if number not in refused]
    if held is not None:
        allowed = sorted({*allowed, held})
    selected = policy.select(allowed)
    if not selected:
        return Choice((), refused=refused, held=held)
    active = record.active if record.active in allowed else record.unjudged
    named = policy.specific is None or active in policy.specific.versions
    if entry.config.accept is None or active not in allowed or active is None or not named:
        return Choice(selected, max(selected), refused=refused, held=held)  # nothing to compare with
    serve = {*policy.select(number for number in allowed if number <= active), active}
    newest = max(selected)
    return Choice(tuple(sorted(serve)), active, newest if newest > active else None, refused, held)
