"""`{state_dir}/tokens.json`: shared by the running agent and the commands beside it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
import time
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from edge_agent.access.roles import Role
from edge_agent.access.token_table import Entry, Token, decode, digest_of, encode, match
from edge_agent.config.durable import give_to_owner_of, write_durably
from edge_agent.config.section import NAME_PATTERN
from edge_agent.domain.clock import Clock
from edge_agent.errors import ConfigError, InvalidRequest

FILE_NAME = "tokens.json"
#: names that the gate gives to callers without a token
RESERVED_NAMES = ("anonymous", "loopback", "self")

_MAX_TOKENS = 256
_MAX_BYTES = 1_048_576
_LOCK_TIMEOUT_S = 5.0
_LOCK_RETRY_S = 0.02

_FAULT_RETRY_S = 1.0

_Signature = Tuple[int, int, int]


class _Known(NamedTuple):
    """What was read and from which state of the file; one object, so that a thread that writes cannot tear them apart."""

    entries: Tuple[Entry, ...]
    signature: Optional[_Signature]


class TokenFile:
    """The tokens, read again when the file has changed. A damaged file is an error and is never written over."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._known = _Known((), None)
        self._fault: Optional[ConfigError] = None
        self._retry_at = 0.0
        self._uses: Dict[str, str] = {}
        self._mutex = threading.Lock()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def fault(self) -> Optional[ConfigError]:
        """Why the file cannot be read at the moment; the tokens read before stay valid."""
        return self._fault

    def load(self) -> None:
        """Read the file now; raises ConfigError when it is damaged or unreadable. No file is no tokens."""
        self._retry_at = 0.0
        self._refresh()
        if self._fault is not None:
            raise self._fault

    def empty(self) -> bool:
        """Whether there is no token at all."""
        self._refresh()
        return not self._known.entries

    def authenticate(self, secret: str) -> Optional[Token]:
        """The token with this secret, or None. Costs a stat and a hash, and never writes: see save_uses."""
        self._refresh()
        entry = match(self._known.entries, secret)
        if entry is None:
            return None
        with self._mutex:
            self._uses[entry.token.name] = self._clock.now()
        return entry.token

    def list(self) -> List[Token]:
        """Every token by name."""
        self.load()
        return [entry.token for entry in self._known.entries]

    def add(self, name: str, role: Role) -> str:
        """A new token; answers its secret, which is stored nowhere. Raises InvalidRequest for a bad or taken name."""
        if not NAME_PATTERN.match(name) or name in RESERVED_NAMES:
            raise InvalidRequest(
                "%r cannot be a token's name: use 1 to 64 of A-Z a-z 0-9 _ -, none of %s" % (name, RESERVED_NAMES)
            )
        with self._locked():
            self.load()
            if any(entry.token.name == name for entry in self._known.entries):
                raise InvalidRequest("there is a token called %s already: revoke it first, or take another name" % name)
            if len(self._known.entries) >= _MAX_TOKENS:
                raise InvalidRequest("there are %d tokens already: revoke some first" % _MAX_TOKENS)
            secret = secrets.token_urlsafe(32)
            token = Token(name, role, self._clock.now())
            self._write((*self._known.entries, Entry(token, digest_of(secret))))
        return secret

    def revoke(self, name: str) -> None:
        """End a token, for the running agent too; raises InvalidRequest when there is none of this name."""
        with self._locked():
            self.load()
            kept = tuple(entry for entry in self._known.entries if entry.token.name != name)
            if len(kept) == len(self._known.entries):
                raise InvalidRequest("no token is called %s" % name)
            self._write(kept)

    def save_uses(self) -> bool:
        """Write when tokens were last used, if any was since the last call. It waits for the disk: call it off the loop."""
        with self._mutex:
            uses, self._uses = self._uses, {}
        if not uses:
            return False
        with self._locked():
            self.load()
            entries = (entry.used(uses.get(entry.token.name, entry.token.last_used)) for entry in self._known.entries)
            self._write(tuple(entries))
        return True

    def _refresh(self) -> None:
        if self._fault is not None and self._clock.monotonic() < self._retry_at:
            return
        try:
            signature = self._stat()
            if signature == self._known.signature and self._fault is None:
                return
            entries = self._read() if signature is not None else ()
        except OSError as exc:
            self._fail("cannot be read: %s" % exc.strerror, "make it readable for the agent's user")
        except (ValueError, RecursionError) as exc:
            self._fail("is damaged: %s" % exc, "put a good copy back, or remove the file and add the tokens again")
        else:
            self._known, self._fault = _Known(entries, signature), None

    def _fail(self, what: str, cure: str) -> None:
        self._fault = self._error(what, cure)
        self._retry_at = self._clock.monotonic() + _FAULT_RETRY_S

    def _stat(self) -> Optional[_Signature]:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> Tuple[Entry, ...]:
        with self._path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError("over 1 MB")
        return decode(data)

    def _write(self, entries: Tuple[Entry, ...]) -> None:
        try:
            write_durably(self._path, encode(entries))
        except OSError as exc:
            raise self._unwritable(exc) from exc
        self._refresh()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among processes: reading, changing and writing is one step."""
        lock = self._path.with_name(self._path.name + ".lock")
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(str(lock), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            give_to_owner_of(self._path.parent, descriptor)
        except OSError as exc:
            raise self._unwritable(exc) from exc
        try:
            self._wait_for(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        deadline = self._clock.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if self._clock.monotonic() > deadline:
                    raise self._error(
                        "is being changed by another process", "try again; look who holds %s.lock" % self._path
                    ) from None
            time.sleep(_LOCK_RETRY_S)

    def _unwritable(self, exc: OSError) -> ConfigError:
        return self._error("cannot be written: %s" % exc.strerror, "run the command as the agent's user or as root")

    def _error(self, what: str, cure: str) -> ConfigError:
        return ConfigError([(str(self._path), what, cure)])
