from __future__ import annotations

import json
from typing import Any

import pytest

from edge_agent.access.roles import Role
from edge_agent.access.token_table import Entry, Token, decode, digest_of, encode, match

ENTRIES = (
    Entry(Token("a", Role.ADMIN, "2026-01-01T00:00:00.000Z"), digest_of("one")),
    Entry(Token("b", Role.DEVICE, "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"), digest_of("two")),
)


def test_what_is_encoded_decodes_the_same() -> None:
    assert decode(encode(ENTRIES)) == ENTRIES
    assert decode(encode(())) == ()


def test_no_secret_is_written() -> None:
    assert b"one" not in encode(ENTRIES)


def test_only_the_whole_secret_matches() -> None:
    assert match(ENTRIES, "two") is ENTRIES[1]
    assert match(ENTRIES, "tw") is None
    assert match(ENTRIES, "") is None
    assert match((), "two") is None


def broken(**changes: Any) -> bytes:
    document = json.loads(encode(ENTRIES))
    for key, value in changes.items():
        if key in document:
            document[key] = value
        else:
            document["tokens"][0][key] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 10,
        b"[]",
        b"{}",
        encode(ENTRIES)[:-20],
        b"\xff",
        broken(version=2),
        broken(tokens={}),
        broken(tokens=[5]),
        broken(role="root"),
        broken(role=None),
        broken(hash="md5:00"),
        broken(hash="sha256:short"),
        broken(name=5),
        broken(created=None),
    ],
    ids=range(15),
)
def test_damage_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode(data)
