"""The API's pure parts, in tables: answers, multipart, memory of bodies, statuses."""

from __future__ import annotations

import gzip
import zlib
from typing import AsyncIterator, List, Tuple, Type

import pytest

from edge_agent import errors
from edge_agent.api.answers import choose_coding, coded_response
from edge_agent.api.bodies import BodyMemory
from edge_agent.api.middleware import status_of
from edge_agent.api.multipart import boundary_of, first_file
from edge_agent.cameras.bodies import BodyChild
from edge_agent.domain.clock import Clock
from edge_agent.processes.arena import Arena

CODINGS = [
    ("", "identity"),
    ("gzip", "gzip"),
    ("deflate", "deflate"),
    ("gzip, deflate, br", "gzip"),
    ("gzip;q=0.5, deflate;q=0.9", "deflate"),
    ("gzip;q=0", "identity"),
    ("identity, gzip;q=0.5", "identity"),
    ("*", "gzip"),
    ("*;q=0", "identity"),
    ("br", "identity"),
    ("gzip;q=nonsense", "identity"),
    ("GZIP ; Q=1", "gzip"),
]


@pytest.fixture
async def bodies() -> AsyncIterator[BodyChild]:
    arena = Arena(1 << 20)
    child = BodyChild(arena, Clock())
    yield child
    await child.stop()
    arena.close()


@pytest.mark.parametrize(("accepted", "coding"), CODINGS)
def test_coding_of_the_answer_is_the_one_liked_best(accepted: str, coding: str) -> None:
    assert choose_coding(accepted) == coding


@pytest.mark.parametrize("size", [1_000, 200_000])
async def test_large_and_small_answers_are_compressed_to_the_same_bytes(bodies: BodyChild, size: int) -> None:
    body = bytes(size)
    packed = await coded_response(body, "application/json", {"A": "b"}, "gzip", bodies)
    assert isinstance(packed.body, (bytes, bytearray))
    assert gzip.decompress(packed.body) == body
    assert (packed.headers["Content-Encoding"], packed.headers["A"]) == ("gzip", "b")
    other = await coded_response(body, "application/json", {}, "deflate", bodies)
    assert isinstance(other.body, (bytes, bytearray))
    assert zlib.decompress(other.body) == body


async def test_tiny_answer_is_not_worth_compressing(bodies: BodyChild) -> None:
    assert "Content-Encoding" not in (await coded_response(b"{}", "application/json", {}, "gzip", bodies)).headers


async def test_answer_that_cannot_be_compressed_now_is_sent_as_it_is(bodies: BodyChild) -> None:
    await bodies.stop()
    plain = await coded_response(bytes(200_000), "application/json", {"A": "b"}, "gzip", bodies)
    assert plain.body == bytes(200_000)
    assert "Content-Encoding" not in plain.headers


FORMS = [
    (b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nDATA\r\n--b--\r\n', b"DATA"),
    (b'preamble\r\n--b\r\nA: b\r\n\r\none\r\n--b\r\nX: y; filename="a"\r\n\r\ntwo\r\n--b--', b"two"),
    (b"--b\r\nA: b\r\n\r\none\r\n--b\r\nA: b\r\n\r\ntwo\r\n--b--", b"one"),
    (b"--b\r\nA: b; FileName=x\r\n\r\n\r\n--b--", b""),
    (b"--b\r\nA: b; filename=x\r\n\r\n-b\r\n--\r\nb\r\n--b--", b"-b\r\n--\r\nb"),
]


@pytest.mark.parametrize(("body", "content"), FORMS)
def test_first_file_of_a_form_is_found(body: bytes, content: bytes) -> None:
    assert bytes(first_file(memoryview(body), b"b")) == content


BAD_FORMS = [b"", b"--b", b"--b--", b"--b\r\nA: b", b"--b\r\nA: b\r\n\r\nx", b"x--b\r\nA: b\r\n\r\nx\r\n--b--"]


@pytest.mark.parametrize("body", BAD_FORMS)
def test_malformed_form_is_refused(body: bytes) -> None:
    with pytest.raises(errors.InvalidRequest, match="multipart/form-data"):
        first_file(memoryview(body), b"b")


def test_boundary_is_read_quoted_and_plain() -> None:
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
    assert boundary_of("multipart/form-data; charset=x; Boundary=ab;x=y") == b"ab"


def test_bodies_share_one_memory() -> None:
    memory = BodyMemory(100)
    memory.take(60)
    with pytest.raises(errors.ArenaFull, match="no memory for request bodies"):
        memory.take(50)
    memory.give(60)
    memory.take(100)
    assert (memory.used_bytes, memory.refused) == (100, 1)


STATUSES: List[Tuple[Type[errors.EdgeAgentError], int]] = [
    (errors.InvalidRequest, 400),
    (errors.TensorMismatch, 400),
    (errors.ModelNotFound, 404),
    (errors.PayloadTooLarge, 413),
    (errors.Unsupported, 501),
    (errors.QueueFull, 503),
    (errors.ArenaFull, 503),
    (errors.Draining, 503),
    (errors.ExecutionError, 500),
    (errors.HostDied, 500),
    (errors.ChildGone, 503),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.SourceUnavailable, 503),
    (errors.StoreFull, 507),
    (errors.StoreError, 503),
]


@pytest.mark.parametrize(("kind", "status"), STATUSES)
def test_every_error_has_its_status(kind: Type[errors.EdgeAgentError], status: int) -> None:
    assert status_of(kind("x"), {}) == status
    assert status_of(kind("x"), {errors.EdgeAgentError: 418}) == 418
