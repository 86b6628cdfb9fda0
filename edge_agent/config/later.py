"""Keys of the public interface whose function comes in a later version: one table, so that none is accepted in silence."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from edge_agent.config.layers import Location


class Later(NamedTuple):
    """One such key. A table is off when its `switch` key has an off value (or is silent and the default is off)."""

    path: Tuple[str, ...]  #: `*` is any table of a list or of a table
    what: str  #: what the key asks for
    off: Tuple[Any, ...] = ()  #: values that ask for nothing: accepted
    default: Tuple[Any, ...] = ()  #: the value that the key will have when silent: accepted, with a note
    values: Optional[Tuple[Any, ...]] = None  #: only these are for later; the others work
    switch: str = ""  #: the key of the table that turns it on, off by default


LATER: Tuple[Later, ...] = (
    Later(("http", "lan"), "a second listener"),
    Later(("http", "fast_path"), "the fast path", off=(True, False)),
    Later(("http", "shared_memory"), "system shared memory", off=(False,)),
    Later(("grpc",), "gRPC"),
    Later(("store", "max_bytes"), "a bound of the database", off=(0,), default=(2147483648,)),
    Later(("store", "retention_days"), "deleting old rows", off=(0,), default=(30,)),
    Later(("store", "media_max_bytes"), "a bound of stored pictures", off=(0,), default=(4294967296,)),
    Later(("store", "media_retention_days"), "deleting old pictures", off=(0,), default=(30,)),
    Later(("store", "reserve_bytes"), "a reserve for a full disk", off=(0,), default=(67108864,)),
    Later(("cameras", "*", "priority"), "serving cameras by priority", default=(1,)),
    Later(("cameras", "*", "keep"), "keeping only changes", values=("changes",)),
    Later(("cameras", "*", "snapshot"), "stored snapshots", off=("none",), default=("changes",)),
    Later(("cameras", "*", "zones"), "zones", off=({},)),
    Later(("cameras", "*", "masks"), "privacy masks", off=([],)),
    Later(("cameras", "*", "motion_gate"), "the motion gate", off=(False,)),
    Later(("cameras", "*", "tracker"), "tracking", off=(False,), default=(True,)),
    Later(("cameras", "*", "recorder_s"), "the flight recorder", off=(0,)),
    Later(("mqtt", "share_group"), "shared subscriptions", off=("",)),
    Later(("mqtt", "commands"), "commands by MQTT", off=([],)),
    Later(("mqtt", "home_assistant"), "Home Assistant discovery", switch="enabled"),
    Later(("mqtt", "routes"), "routes of devices with topics of their own", off=([],)),
    Later(("sync",), "sync", switch="sinks"),
    Later(("uplink",), "a metered uplink", switch="monthly_budget_mb"),
    Later(("updates",), "updates", switch="url"),
    Later(("device", "stats"), "reading the board by jtop", values=("jtop",)),
    Later(("device", "governor"), "the governor", off=(False,), default=(True,)),
    Later(("device", "thermal_limit_c"), "a thermal limit", off=(0,), default=("auto",)),
)


class Taken(NamedTuple):
    """What `take_out` found: locations that are faults, and notes on what does nothing yet."""

    faults: List[Tuple[Location, str, str]]
    notes: List[Tuple[Location, str]]


def take_out(tables: Dict[str, Any], table: Sequence[Later] = LATER) -> Taken:
    """Remove the keys of later versions from `tables`, in place, and say which of them asked for something."""
    taken = Taken([], [])
    for later in table:
        for holder, location in list(holders(tables, later.path)):
            key = later.path[-1]
            value = holder[key]
            if later.values is not None and not among(value, later.values):
                continue
            del holder[key]
            if among(value, later.default):
                taken.notes.append((location, "%s: not in this version, so this key does nothing yet" % later.what))
            elif not _is_off(later, value):
                taken.faults.append((location, "%s: not available in this version" % later.what, _cure(later)))
    return taken


def holders(node: Any, path: Sequence[str], location: Location = ()) -> Iterator[Tuple[Dict[str, Any], Location]]:
    """The tables that hold the path's last key, with the location of that key."""
    if path[0] == "*":
        items = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
        for step, item in items:
            yield from holders(item, path[1:], (*location, step))
    elif isinstance(node, dict) and path[0] in node:
        if len(path) == 1:
            yield node, (*location, path[0])
        else:
            yield from holders(node[path[0]], path[1:], (*location, path[0]))


def among(value: Any, values: Sequence[Any]) -> bool:
    """Whether it is one of them; 1 is not true."""
    return any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in values)


def _is_off(later: Later, value: Any) -> bool:
    if later.switch:
        return isinstance(value, dict) and not value.get(later.switch)
    return among(value, later.off)


def _cure(later: Later) -> str:
    if later.off and not isinstance(later.off[0], (dict, list)):
        shown = later.off[0]
        return (
            "remove the key"
            if shown in ("", 0) and not isinstance(shown, bool)
            else "remove the key or set it to %s" % _shown(shown)
        )
    return "remove it" if later.values is None else "use another value"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else '"%s"' % value
