"""Bytes to InferBody: every check of an inference request that needs no model."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence, Union

from edge_agent.domain.tensors import DataType
from edge_agent.errors import InvalidRequest, RequestError
from edge_agent.kserve import bytes_tensors, fields
from edge_agent.kserve.body import InferBody, InputPart
from edge_agent.kserve.document import DocumentReader
from edge_agent.kserve.fields import shown
from edge_agent.kserve.shapes import count_of

#: ends the text about a body that came without a header length and is no JSON
HINT = " (a body with binary tensors needs the header Inference-Header-Content-Length)"


def prefixed(text: str, request_id: str) -> str:
    """An inference error's text with the request's id in front, as Triton gives it."""
    if text.startswith("[request id: "):
        return text
    return "[request id: %s] %s" % (request_id or "<id_unknown>", text)


def parse_header_length(value: Optional[str]) -> Optional[int]:
    """The header Inference-Header-Content-Length as a number; None when absent."""
    if value is None:
        return None
    stripped = value.strip()
    if not (stripped.isascii() and stripped.isdigit() and len(stripped) < 20):
        raise InvalidRequest("Inference-Header-Content-Length must be a number of bytes, got '%s'" % shown(value))
    return int(stripped)


def parse_infer(body: Union[bytes, memoryview], header_length: Optional[int] = None) -> InferBody:
    """A whole body: JSON (`header_length` None), JSON and binary tensors, or one raw tensor (0). Raises InvalidRequest."""
    view = memoryview(body)
    if header_length == 0:
        return raw_body(len(view))
    if header_length is None:
        return parse_head(view, 0, hint=HINT)
    check_header_length(header_length, len(view))
    parsed = parse_head(view[:header_length], len(view) - header_length)
    check_framing(parsed, view)
    return parsed


def check_header_length(header_length: int, body_bytes: int) -> None:
    """InvalidRequest when the JSON part would end behind the body."""
    if header_length > body_bytes:
        text = "inference header size should be in range (0, %d), got: %d"
        raise InvalidRequest(text % (body_bytes, header_length))


def raw_body(nbytes: int) -> InferBody:
    """A body that is one raw tensor; match() finds out which."""
    return InferBody(binary_default=True, raw_bytes=nbytes)


def parse_head(head: Union[bytes, memoryview], binary_bytes: Optional[int], hint: str = "") -> InferBody:
    """The JSON part alone, before the `binary_bytes` behind it have come (None: not known); check_framing does the rest."""
    try:
        document = fields.load_object(head, hint)
    except InvalidRequest as exc:
        raise InvalidRequest(prefixed(str(exc), "")) from exc
    request_id = document.get("id", "")
    try:
        request_id = fields.text(request_id, "'id'")
        return DocumentReader(len(head), binary_bytes, hint).read(document, request_id)
    except RequestError as exc:
        known = request_id if isinstance(request_id, str) else ""
        raise type(exc)(prefixed(str(exc), shown(known))) from exc


def check_framing(parsed: InferBody, body: memoryview) -> None:
    """InvalidRequest when a binary BYTES tensor is not made of length and bytes."""
    for _ in framing_steps(parsed, [body[part.start :] for part in parsed.inputs if part.start is not None]):
        pass


def framing_steps(parsed: InferBody, views: Sequence[memoryview]) -> Iterator[None]:
    """The same in steps, between which the loop may do something else; `views` begin where the binary inputs' bytes do."""
    binary = [part for part in parsed.inputs if part.start is not None]
    for part, view in zip(binary, views):
        if part.datatype is DataType.BYTES:
            yield from _strings(part, view[: part.nbytes], parsed.id)


def _strings(part: InputPart, view: memoryview, request_id: str) -> Iterator[None]:
    try:
        yield from bytes_tensors.check_steps(view, count_of(part.shape), shown(part.name))
    except InvalidRequest as exc:
        raise InvalidRequest(prefixed(str(exc), shown(request_id))) from exc
