"""The content of `tokens.json`: names, roles and hashes, never a secret."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, Optional, Tuple

from edge_agent.access.roles import Role

_VERSION = 1


@dataclass(frozen=True)
class Token:
    """What may be shown of a token."""

    name: str
    role: Role
    created: str  #: RFC 3339 UTC
    last_used: str = ""  #: the same; empty when never


@dataclass(frozen=True)
class Entry:
    """A token with the SHA-256 of its secret. The secret is 32 random bytes, so that a slow hash would add nothing."""

    token: Token
    digest: str

    def used(self, at: str) -> Entry:
        """The same, last used at `at`."""
        return replace(self, token=replace(self.token, last_used=at))


def digest_of(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def match(entries: Iterable[Entry], secret: str) -> Optional[Entry]:
    """The entry with this secret; takes as long for a wrong one as for a right one."""
    digest = digest_of(secret)
    found: Optional[Entry] = None
    for entry in entries:
        if hmac.compare_digest(entry.digest, digest):
            found = entry
    return found


def encode(entries: Iterable[Entry]) -> bytes:
    """The file's bytes."""
    tokens = [_as_json(entry) for entry in entries]
    return (json.dumps({"version": _VERSION, "tokens": tokens}, indent=2) + "\n").encode()


def decode(data: bytes) -> Tuple[Entry, ...]:
    """The entries of a file's bytes; raises ValueError when it is damaged."""
    document = json.loads(data.decode("utf-8"))
    if not isinstance(document, dict) or document.get("version") != _VERSION or not isinstance(document.get("tokens"), list):
        raise ValueError("not a list of tokens of version %d" % _VERSION)
    return tuple(_entry(item) for item in document["tokens"])


def _as_json(entry: Entry) -> Dict[str, Any]:
    token = entry.token
    return {
        "name": token.name,
        "role": token.role.value,
        "hash": "sha256:" + entry.digest,
        "created": token.created,
        "last_used": token.last_used,
    }


def _entry(item: Any) -> Entry:
    if not isinstance(item, dict) or not all(isinstance(item.get(key), str) for key in ("name", "role", "hash", "created")):
        raise ValueError("an entry lacks its name, role, hash or time")
    kind, _, digest = item["hash"].partition(":")
    if kind != "sha256" or len(digest) != 64:
        raise ValueError("the hash of %r is damaged" % item["name"])
    return Entry(Token(item["name"], Role(item["role"]), item["created"], str(item.get("last_used") or "")), digest)
