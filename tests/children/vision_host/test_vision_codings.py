import gzip
import os
import time
import zlib

import pytest

from edge_agent.vision_host import codings

PLAIN = os.urandom(300000) + bytes(3000000) + os.urandom(1000)
PACK = {"gzip": gzip.compress, "deflate": zlib.compress}


def inflated(data, coding, limit=1 << 30, room=4000000):
    memory = bytearray(room)
    target = codings.Target(memoryview(memory))
    codings.inflate(memoryview(data), coding, limit, target)
    return bytes(memory[: target.written]), target


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_was_compressed_comes_back(coding):
    assert inflated(PACK[coding](PLAIN), coding)[0] == PLAIN
    memory = bytearray(len(PLAIN))
    target = codings.Target(memoryview(memory))
    codings.deflate(memoryview(PLAIN), coding, target)
    assert target.written < 400000
    assert inflated(bytes(memory[: target.written]), coding)[0] == PLAIN


def test_gzip_may_come_in_several_members():
    data = b"".join(gzip.compress(PLAIN[at : at + 100000]) for at in range(0, len(PLAIN), 100000))
    assert inflated(data, "gzip")[0] == PLAIN


@pytest.mark.parametrize(
    ("data", "coding", "text"),
    [
        (b"", "gzip", "ends within its gzip data"),
        (b"{}", "gzip", "is no gzip data"),
        (gzip.compress(PLAIN)[:-1], "gzip", "ends within its gzip data"),
        (gzip.compress(PLAIN) + b"junk", "gzip", "is no gzip data"),
        (zlib.compress(PLAIN) + b"junk", "deflate", "goes on behind its deflate data"),
        (zlib.compress(PLAIN), "gzip", "is no gzip data"),
        (gzip.compress(b"") * 100000, "gzip", "too many tiny gzip members"),
    ],
    # their bytes would be in the names otherwise, and gzip's have the time in them
    ids=["nothing", "no gzip", "cut gzip", "junk behind gzip", "junk behind deflate", "another coding", "tiny members"],
)
def test_what_is_not_whole_or_not_in_this_coding_is_refused(data, coding, text):
    with pytest.raises(codings.BadCoding) as caught:
        inflated(data, coding)
    assert text in str(caught.value)


def test_a_bomb_is_let_go_at_the_limit():
    bomb = zlib.compress(bytes(200 << 20), 9)
    started = time.time()
    with pytest.raises(codings.TooLarge):
        inflated(bomb, "deflate", limit=1000000)
    assert time.time() - started < 0.5


def test_what_does_not_fit_is_counted_so_that_the_next_try_does():
    _, target = inflated(gzip.compress(PLAIN), "gzip", room=1000)
    assert not target.fits
    assert target.written == len(PLAIN)
