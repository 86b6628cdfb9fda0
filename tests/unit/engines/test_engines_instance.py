from __future__ import annotations

import asyncio
import json

import pytest

from edge_agent import errors
from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.batching.policy import BatchPolicy
from edge_agent.domain.clock import Clock
from edge_agent.engine_host import wire
from edge_agent.engines.batch import Outcome
from tests.doubles.engine_host import REPORT, StandIn, answer, failure, until


@pytest.fixture
async def stand_in():
    stand_in = StandIn()
    yield stand_in
    stand_in.instance.close()
    stand_in.instance.lose("the test ended", suspect=False)
    stand_in.host.close()
    assert stand_in.slots == 0
    stand_in.arena.close()


async def finished(stand_in, count=1):
    await until(lambda: len(stand_in.owner.finished_batches) == count)
    return stand_in.owner.finished_batches[-1]


async def test_a_batch_goes_out_as_references_and_comes_back_with_tensors_and_times(stand_in):
    one, two = stand_in.item(), stand_in.item(outputs=("y",))
    batch = stand_in.send(one, two)
    kind, number, (first, second) = stand_in.got()
    assert kind == wire.EXECUTE
    (ref,) = first.inputs
    lease, room = one.request.inputs[0].lease, one.request.room
    assert (ref.index, ref.shape, ref.segment, ref.offset, ref.nbytes) == (0, (1, 4), lease.segment, lease.offset, 16)
    assert (first.rows, first.segment, first.offset, first.capacity) == (1, room.segment, room.offset, 64)
    assert (first.outputs, second.outputs) == ((0, 1), (0,))
    stand_in.says(number, answer(1, second), failure(0, text="bad row"))
    done, ran = await finished(stand_in)
    assert done is batch
    assert (ran.input_s, ran.infer_s, ran.output_s) == (0.001, 0.002, 0.003)
    refused, outcome = batch.answers
    assert isinstance(refused, errors.ExecutionError)
    assert str(refused) == "model 'm/1': bad row"
    assert isinstance(outcome, Outcome)
    (tensor,) = outcome.outputs
    assert (tensor.name, tensor.shape, tensor.lease, tensor.start) == ("y", (1, 4), two.request.room, 0)
    stand_in.release(one, two)


async def test_slots_are_held_until_the_host_has_answered_even_if_the_caller_has_left(stand_in):
    item = stand_in.item()
    stand_in.send(item)
    stand_in.release(item)
    assert stand_in.slots == 2
    _, number, (request,) = stand_in.got()
    stand_in.says(number, answer(0, request))
    await finished(stand_in)
    assert stand_in.slots == 0


async def test_detections_are_read_and_need_no_room(stand_in):
    item = stand_in.item(room=None, decode=True)
    batch = stand_in.send(item)
    _, number, (request,) = stand_in.got()
    assert (request.flags, request.outputs, request.capacity) == (wire.FLAG_DECODE, (), 0)
    objects = [{"label": "cat", "score": 0.5, "box": [1, 2, 3, 4], "age": 3}, {"label": "day", "score": 1, "box": None}]
    stand_in.says(number, wire.AnswerRef(0, wire.OK, (), json.dumps({"objects": objects}).encode()))
    await finished(stand_in)
    cat, day = batch.answers[0].detections
    assert (cat.label, cat.score, cat.box, cat.extra) == ("cat", 0.5, (1.0, 2.0, 3.0, 4.0), {"age": 3})
    assert (day.label, day.box) == ("day", None)
    stand_in.release(item)


async def test_answers_in_several_messages_end_the_batch_with_the_last(stand_in):
    items = [stand_in.item() for _ in range(2)]
    stand_in.send(*items)
    _, number, requests = stand_in.got()
    stand_in.says(number, answer(0, requests[0]), last=False)
    await asyncio.sleep(0.02)
    assert stand_in.owner.finished_batches == []
    stand_in.says(number, answer(1, requests[1]))
    await finished(stand_in)
    stand_in.release(*items)


# -- outputs that do not fit ------------------------------------------------------------------------------------------


def no_room(place, need):
    return wire.AnswerRef(place, wire.NO_ROOM, need=need)


async def test_outputs_that_do_not_fit_get_a_slot_that_the_answer_keeps(stand_in):
    item = stand_in.item()
    batch = stand_in.send(item)
    _, number, _ = stand_in.got()
    stand_in.says(number, no_room(0, 5000))
    await until(lambda: stand_in.slots == 3)
    kind, _, (place, segment, offset, capacity) = stand_in.got()
    assert (kind, place, capacity) == (wire.ROOM, 0, 5000)
    assert stand_in.owner.finished_batches == []
    ref = wire.TensorRef(1, wire.DATATYPE_CODES["INT64"], (625, 1), segment, offset, 5000)
    stand_in.says(number, wire.AnswerRef(0, wire.OK, [ref]), last=False)
    await finished(stand_in)
    (tensor,) = batch.answers[0].outputs
    assert (tensor.name, tensor.nbytes, len(tensor.view())) == ("z", 5000, 5000)
    stand_in.release(item)
    assert stand_in.slots == 1
    batch.answers[0].kept[0].release()


async def test_outputs_for_which_nothing_is_free_are_dropped_and_their_neighbours_are_answered(stand_in):
    item, neighbour = stand_in.item(), stand_in.item()
    (filler,) = stand_in.arena.try_acquire([(stand_in.segment, 600_000)])
    batch = stand_in.send(item, neighbour)
    _, number, requests = stand_in.got()
    stand_in.says(number, no_room(0, 500_000), answer(1, requests[1]))
    await finished(stand_in)
    kind, _, (place, *_) = stand_in.got()
    assert (kind, place) == (wire.DROP, 0)
    full, outcome = batch.answers
    assert isinstance(full, errors.ArenaFull)
    assert isinstance(outcome, Outcome)
    filler.release()
    stand_in.release(item, neighbour)


async def test_outputs_larger_than_all_tensor_memory_fail_their_request_and_nothing_hangs(stand_in):
    item = stand_in.item()
    batch = stand_in.send(item)
    _, number, _ = stand_in.got()
    stand_in.says(number, no_room(0, 50 << 20))
    await finished(stand_in)
    assert isinstance(batch.answers[0], errors.PayloadTooLarge)
    assert "the outputs of m/1 take %d bytes" % (50 << 20) in str(batch.answers[0])
    assert stand_in.got()[0] == wire.DROP
    stand_in.release(item)


async def test_a_kept_answer_that_the_host_lost_gives_its_new_slot_back(stand_in):
    item = stand_in.item()
    stand_in.send(item)
    _, number, _ = stand_in.got()
    stand_in.says(number, no_room(0, 5000))
    await until(lambda: stand_in.slots == 3)
    stand_in.says(number, failure(0, "engine.answer_dropped"), last=False)
    await finished(stand_in)
    stand_in.release(item)
    assert stand_in.slots == 0


async def test_a_host_that_dies_while_an_answer_waits_for_its_slot_gives_all_slots_back(stand_in):
    item = stand_in.item()
    batch = stand_in.send(item)
    _, number, _ = stand_in.got()
    stand_in.says(number, no_room(0, 5000))
    await until(lambda: stand_in.slots == 3)
    stand_in.instance.close()
    stand_in.instance.lose("killed", suspect=True)
    assert stand_in.owner.lost_batches == [(batch, "killed", True)]
    stand_in.release(item)
    assert stand_in.slots == 0


async def test_a_channel_that_breaks_before_the_slot_could_be_told_leaves_nothing_behind(stand_in):
    item = stand_in.item()
    stand_in.send(item)
    _, number, _ = stand_in.got()
    stand_in.says(number, no_room(0, 5000))
    stand_in.host.close()
    await until(lambda: not stand_in.instance.up)
    stand_in.instance.close()
    stand_in.instance.lose("killed", suspect=True)
    stand_in.release(item)
    assert stand_in.slots == 0


# -- ends -------------------------------------------------------------------------------------------------------------


async def test_a_batch_for_a_channel_that_is_gone_never_reached_the_host_and_is_under_no_suspicion(stand_in):
    item = stand_in.item()
    stand_in.host.close()
    batch = stand_in.send(item)  # the loop has not yet heard of the end
    assert stand_in.owner.lost_batches == []
    await until(lambda: stand_in.owner.lost_batches)
    ((lost, _, suspect),) = stand_in.owner.lost_batches
    assert (lost, suspect) == (batch, False)
    assert stand_in.traffic.held == 0
    assert not stand_in.instance.up
    stand_in.release(item)


async def test_what_the_host_held_is_lost_once_and_later_messages_are_nobodys(stand_in):
    item = stand_in.item()
    stand_in.send(item)
    stand_in.got()
    stand_in.instance.close()
    for _ in range(2):
        stand_in.instance.lose("killed", suspect=True)
    await asyncio.sleep(0.01)
    assert len(stand_in.owner.lost_batches) == 1
    stand_in.release(item)


async def test_a_request_that_no_message_can_hold_is_refused_and_the_instance_goes_on(stand_in):
    items = [stand_in.item(shape=(1,) * 300), stand_in.item(shape=(1 << 70,))]
    batches = [stand_in.send(item) for item in items]
    await finished(stand_in, 2)
    assert all(isinstance(batch.answers[0], errors.InvalidRequest) for batch in batches)
    assert stand_in.busy[-1] == (1, 0.0)
    assert stand_in.traffic.held == 0
    good = stand_in.item()
    stand_in.send(good)
    _, number, (request,) = stand_in.got()
    stand_in.says(number, answer(0, request))
    await finished(stand_in, 3)
    stand_in.release(*items, good)


@pytest.mark.parametrize(
    "said",
    [
        b"\x63" + bytes(40),
        b"\x01",
        wire.pack_answers(1, [failure(7)], wire.Times(True, 1, 0, 0, 0))[0],
        wire.pack_answers(1, [wire.AnswerRef(0, wire.OK, (), b'{"objects": [{}]}')], wire.Times(True, 1, 0, 0, 0))[0],
        wire.pack_answers(1, [wire.AnswerRef(0, wire.FAILED, (), b"\xff")], wire.Times(True, 1, 0, 0, 0))[0],
        wire.pack_answers(1, [wire.AnswerRef(0, wire.OK, [wire.TensorRef(9, 9, (), 1, 0, 0)])], wire.Times(True, 1, 0, 0, 0))[
            0
        ],
    ],
    ids=["version", "short", "place", "objects", "text", "output"],
)
async def test_a_host_that_talks_nonsense_is_started_again(stand_in, said):
    item = stand_in.item()
    stand_in.send(item)
    stand_in.got()
    stand_in.host.send(said)
    says = "m/1 answered in a form that cannot be read"
    await until(lambda: any(says in text for text in stand_in.hangs))  # on a busy machine the batch may be late, too
    stand_in.release(item)


async def test_answers_to_batches_that_nobody_knows_are_ignored(stand_in):
    stand_in.says(99, failure(0))
    stand_in.host.send(wire.pack_room(1, 0, 1, 0, 0))
    await asyncio.sleep(0.02)
    assert stand_in.hangs == []


async def test_a_batch_over_its_budget_hangs_and_a_refused_one_before_it_costs_it_nothing(stand_in):
    bad, item = stand_in.item(shape=(1,) * 300), stand_in.item()
    stand_in.send(bad)
    stand_in.send(item)
    started = asyncio.get_running_loop().time()
    await until(lambda: stand_in.hangs)
    assert 0.15 < asyncio.get_running_loop().time() - started < 1.0
    assert stand_in.hangs == ["a batch of m/1 ran for more than 0.2 s"]
    stand_in.release(bad, item)


async def test_a_host_is_busy_as_long_as_one_batch_is_there(stand_in):
    items = [stand_in.item(), stand_in.item()]
    for item in items:
        stand_in.send(item)
    for left in (1, 0):
        _, number, (request,) = stand_in.got()
        stand_in.says(number, answer(0, request))
        await finished(stand_in, 2 - left)
        assert bool(stand_in.busy[-1][1]) is bool(left)
    stand_in.release(*items)


# -- another process --------------------------------------------------------------------------------------------------


async def test_a_new_channel_takes_the_place_of_one_whose_end_was_never_told(stand_in):
    old = stand_in.host
    stand_in.host = stand_in.connect(stand_in.instance)
    assert old.recv(1) == b""
    old.close()
    await asyncio.sleep(0.01)
    assert stand_in.instance.up


async def test_a_model_with_other_batching_counts_shapes_anew(stand_in):
    item = stand_in.item()
    stand_in.send(item)
    _, number, (request,) = stand_in.got()
    stand_in.says(number, answer(0, request))
    await finished(stand_in)
    budget = [until_ - Clock().monotonic() for _, until_ in stand_in.busy if until_]
    assert budget[0] == pytest.approx(0.2, abs=0.1)  # one row was run by the warm-up
    wide = stand_in.item(shape=(1, 5))
    stand_in.send(wide)
    assert stand_in.busy[-1][1] - Clock().monotonic() == pytest.approx(0.5, abs=0.1)
    stand_in.release(item, wide)


async def test_two_instances_that_die_together_blame_no_request(stand_in):
    """The second one still looks up when the first one's batch comes back: it must not get it."""
    other = stand_in.another(2)
    host = stand_in.connect(other, REPORT)
    other.open()
    deaths = []
    batcher = DynamicBatcher("m", "1", BatchPolicy(1), Clock(), on_lone_death=lambda: deaths.append(1))
    batcher.use([stand_in.instance, other])
    items = [stand_in.item(), stand_in.item()]
    asked = [asyncio.ensure_future(batcher.submit(item.request, 1, "k", None)) for item in items]
    await asyncio.sleep(0)
    stand_in.traffic.reset()
    for instance in (stand_in.instance, other):
        instance.close()
    for instance in (stand_in.instance, other):
        instance.lose("killed", suspect=True)
    await asyncio.sleep(0.01)
    assert deaths == []
    assert not any(task.done() for task in asked)
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    host.close()
    stand_in.release(*items)
