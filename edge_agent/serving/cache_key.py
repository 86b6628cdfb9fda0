"""What makes two requests equal: the same tensors to the same files of a model, asked the same way."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional
from weakref import WeakKeyDictionary

from edge_agent import __version__
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import Lease
from edge_agent.serving.servable import Servable

#: inputs above this are hashed in a thread: 256 KB take a small board about 1 ms
_INLINE_BYTES = 256 * 1024
#: files above this count by size and time alone: weights beside the model file, which nobody wants to read twice
_READ_MAX_BYTES = 1024 * 1024
_MAX_DEPTH = 32  #: ensembles within ensembles
_TAG_CHARS = 16

Lookup = Callable[[str, Optional[str]], Servable]


def tag_of(key: str) -> str:
    """The part of a key that says which files of which model gave the answer."""
    return key[:_TAG_CHARS]


class Tags:
    """Short digests of all that an answer depends on beside the request; another file or another setting is another tag."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._own: WeakKeyDictionary[Servable, str] = WeakKeyDictionary()

    def loaded(self, served: Servable, files: str) -> None:
        """A version was loaded from files of this digest (`digest_beside`)."""
        self._own[served] = _digest(_settings(served), served.sha256, files)

    def of(self, served: Servable) -> Optional[str]:
        """The version's tag; None while it is not known. An ensemble's changes with any model that it calls."""
        return self._of(served, 0, {})

    def _of(self, served: Servable, depth: int, found: Dict[Servable, Optional[str]]) -> Optional[str]:
        """`found`: of this look, so that each ensemble is looked at once."""
        if served not in found:
            found[served] = self._made_of(served, depth, found)
        return found[served]

    def _made_of(self, served: Servable, depth: int, found: Dict[Servable, Optional[str]]) -> Optional[str]:
        scheduling = served.config.ensemble_scheduling
        if scheduling is None or depth > _MAX_DEPTH:
            return self._own.get(served)
        own = self._own.get(served)
        if own is None:
            own = self._own[served] = _digest(_settings(served))
        steps = [(step.model_name, str(step.model_version) if step.model_version > 0 else None) for step in scheduling.step]
        tags = [self._of(self._lookup(name, version), depth + 1, found) for name, version in steps]
        return None if None in tags else _digest(own, *[tag or "" for tag in tags])


def _settings(served: Servable) -> str:
    config = served.config
    return json.dumps(
        [__version__, served.name, served.version, served.platform, served.engine, config.model_dump_json(), config.labels]
    )


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:_TAG_CHARS]


def digest_beside(path: Path) -> str:
    """Of the files around a model file: decoders, labels, modules, outside weights. Reads them, so call it off the loop."""
    state = hashlib.sha256()
    files = [file for file in path.parent.parent.iterdir() if file.is_file()]
    files += [file for file in path.parent.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    for file in sorted(files):
        if file != path:
            state.update(
                ("%s\0%s\0" % (file.relative_to(path.parent.parent), _content(file))).encode("utf-8", "surrogateescape")
            )
    return state.hexdigest()


def _content(file: Path) -> str:
    stat = file.stat()
    if stat.st_size > _READ_MAX_BYTES:
        return "%d %d" % (stat.st_size, stat.st_mtime_ns)
    return hashlib.sha256(file.read_bytes()).hexdigest()


async def key_of(tag: str, request: InferRequest) -> str:
    """The request's key, which begins with `tag`. Order of inputs, id, priority and encoding of outputs make no difference."""
    if sum(tensor.nbytes for tensor in request.inputs) <= _INLINE_BYTES:
        return _key(tag, request)
    held = [tensor.lease.retain() for tensor in request.inputs]  # the thread reads on when the caller has left
    work = asyncio.get_running_loop().run_in_executor(None, _key, tag, request)
    work.add_done_callback(lambda _: _release(held))
    return await asyncio.shield(work)


def _key(tag: str, request: InferRequest) -> str:
    inputs = sorted(request.inputs, key=lambda tensor: tensor.name)
    head: List[Any] = [tag, request.decode, request.outputs, sorted(request.parameters.items())]
    head.append([(tensor.name, tensor.datatype.value, tensor.shape, tensor.nbytes) for tensor in inputs])
    text = json.dumps(head).encode()
    state = hashlib.sha256(struct.pack("<Q", len(text)) + text)
    for tensor in inputs:
        state.update(tensor.view())
    return "%s.%s" % (tag, state.hexdigest())


def _release(leases: Iterable[Lease]) -> None:
    for lease in leases:
        lease.release()
