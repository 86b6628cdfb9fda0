import numpy

from edge_agent.engine_host import wire
from edge_agent.engine_host.payload import Payload

SEGMENT = 3  # as the arena fixture numbers it


def row(value, count=5):
    return numpy.full(count, value, numpy.float32)


def test_outputs_lie_one_after_another_at_aligned_places(arena):
    payload = Payload()
    payload.add(4, "FP32", row(1))
    payload.add(2, "FP32", row(2))
    assert payload.nbytes == wire.ALIGNMENT + 20
    first, second = payload.place(arena.views, SEGMENT, 4096, payload.nbytes)
    assert (first.index, first.offset, second.index, second.offset) == (4, 4096, 2, 4096 + wire.ALIGNMENT)
    assert (arena.read(second) == 2).all()


def test_a_slot_one_byte_too_small_is_not_touched(arena):
    payload = Payload()
    payload.add(0, "FP32", row(1))
    assert payload.place(arena.views, SEGMENT, 4096, 19) is None
    assert bytes(arena.views.view(SEGMENT, 4096, 20)) == b"\0" * 20


def test_a_slot_that_begins_misaligned_holds_less(arena):
    payload = Payload()
    payload.add(0, "FP32", row(1))
    assert payload.place(arena.views, SEGMENT, 4097, 20 + 62) is None
    (ref,) = payload.place(arena.views, SEGMENT, 4097, 20 + 63)
    assert ref.offset == 4096 + wire.ALIGNMENT


def test_owning_copies_what_is_shared_and_nothing_else(arena):
    mine, theirs = row(1), row(2)
    payload = Payload()
    payload.add(0, "FP32", mine)
    payload.add(1, "FP32", theirs)
    payload.own([theirs])
    mine[:], theirs[:] = 10, 20
    first, second = payload.place(arena.views, SEGMENT, 0, 4096)
    assert (arena.read(first)[0], arena.read(second)[0]) == (10, 2)


def test_owning_all_lets_go_of_the_batch(arena):
    batch = numpy.zeros((8, 5), numpy.float32)
    payload = Payload()
    payload.add(0, "FP32", batch[3:4])
    payload.own(None)
    batch[:] = 7
    (ref,) = payload.place(arena.views, SEGMENT, 0, 4096)
    assert (arena.read(ref) == 0).all()
