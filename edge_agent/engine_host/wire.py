"""What the agent and its children say to each other: message structs, control framing, arena views.

Python 3.6, standard library only: the one module that both sides import.

Two kinds of channel, both SOCK_SEQPACKET socket pairs:

* a *control* channel per child: JSON objects, one a datagram, descriptors by SCM_RIGHTS. The agent sends
  `{"id": n, "op": name, ...}`, the child answers `{"id": n, "ok": true, ...}` or
  `{"id": n, "ok": false, "error": {"code": ..., "text": ...}}`. What a child says unasked has `"event"` and no id.
* an *instance* channel per model instance: the fixed structs below, never more than MAX_MESSAGE bytes.
"""

import collections
import json
import mmap
import os
import socket
import struct

VERSION = 1
MAX_MESSAGE = 60000

EXECUTE = 1  # agent -> host: one batch
ANSWER = 2  # host -> agent: answers of a batch, the last message of it says so
ROOM = 3  # agent -> host: a slot for an answer that did not fit
DROP = 4  # agent -> host: the answer is not wanted any more
TELL = 5  # agent -> host: id and parameters of a request in the batch that follows; a note, as are all below
CALL = 6  # host -> agent: a Python model asks another model; the number is the call's
CALL_ROOM = 7  # agent -> host: where its inputs go, or an error
CALL_GO = 8  # host -> agent: the inputs lie there
CALL_DONE = 9  # agent -> host: where the outputs lie, or an error
CALL_FREE = 10  # host -> agent: the outputs are read, or the call is given up

OK = 0  # outputs lie in the slot
FAILED = 1  # error text instead
NO_ROOM = 2  # the outputs need `need` bytes: ROOM or DROP

FLAG_DECODE = 1  # the request wants detections, not tensors

DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "BF16", "BYTES",
)  # fmt: skip
DATATYPE_CODES = {name: code for code, name in enumerate(DATATYPES)}

ALIGNMENT = 64  # outputs in a slot start at multiples of this

_HEAD = struct.Struct("<BBHQ")  # version, kind, count, batch id
_REQUEST = struct.Struct("<BBBxIHxxQQ")  # inputs, outputs, flags, rows, room: segment, offset, capacity
_TENSOR = struct.Struct("<BBBxIQQ")  # index, datatype, dims, segment, offset, bytes
_TIMES = struct.Struct("<BxxxIQQQ")  # last, rows, input ns, infer ns, output ns
_ANSWER = struct.Struct("<HBBI")  # request, status, outputs, length of the text after the outputs
_ROOM = struct.Struct("<HHxxxxQQ")  # request, segment, offset, capacity
_NEED = struct.Struct("<Q")


class WireError(Exception):
    """A message that this version does not understand."""


#: where a tensor lies: index in the model's list, datatype code, dims, segment, offset, bytes
TensorRef = collections.namedtuple("TensorRef", "index datatype shape segment offset nbytes")


class RequestRef:
    """One request of a batch: its inputs, the outputs it wants (indices) and the slot for them."""

    __slots__ = ("inputs", "outputs", "flags", "rows", "segment", "offset", "capacity")

    def __init__(self, inputs, outputs, flags, rows, segment, offset, capacity):
        self.inputs = inputs
        self.outputs = outputs
        self.flags = flags
        self.rows = rows
        self.segment = segment
        self.offset = offset
        self.capacity = capacity


class AnswerRef:
    """One answer: status, outputs (offsets within the room's segment), text (error or detections, JSON), bytes needed."""

    __slots__ = ("request", "status", "outputs", "text", "need")

    def __init__(self, request, status, outputs=(), text=b"", need=0):
        self.request = request
        self.status = status
        self.outputs = outputs
        self.text = text
        self.need = need


#: times of a batch, nanoseconds, valid with its last message
Times = collections.namedtuple("Times", "last rows input_ns infer_ns output_ns")
Times.__new__.__defaults__ = (0, 0, 0, 0)


def message_kind(data):
    """Kind, count and batch id of a message; WireError when its version is another."""
    version, kind, count, batch = _HEAD.unpack_from(data, 0)
    if version != VERSION:
        raise WireError("message version %d, this side speaks %d" % (version, VERSION))
    return kind, count, batch


def _pack_tensor(parts, ref):
    dims = len(ref.shape)
    parts.append(_TENSOR.pack(ref.index, ref.datatype, dims, ref.segment, ref.offset, ref.nbytes))
    if dims:
        parts.append(struct.pack("<%dq" % dims, *ref.shape))


def _unpack_tensor(data, at):
    index, datatype, dims, segment, offset, nbytes = _TENSOR.unpack_from(data, at)
    at += _TENSOR.size
    shape = struct.unpack_from("<%dq" % dims, data, at)
    return TensorRef(index, datatype, shape, segment, offset, nbytes), at + 8 * dims


def pack_execute(batch, requests):
    """One batch as bytes. WireError when it would not fit one datagram."""
    parts = [_HEAD.pack(VERSION, EXECUTE, len(requests), batch)]
    for request in requests:
        counts = (len(request.inputs), len(request.outputs), request.flags, request.rows)
        parts.append(_REQUEST.pack(*counts, request.segment, request.offset, request.capacity))
        for ref in request.inputs:
            _pack_tensor(parts, ref)
        parts.append(bytes(request.outputs))
    data = b"".join(parts)
    if len(data) > MAX_MESSAGE:
        raise WireError("a batch of %d requests takes %d bytes, over %d" % (len(requests), len(data), MAX_MESSAGE))
    return data


def unpack_execute(data, count):
    """The requests of an EXECUTE message."""
    requests = []
    at = _HEAD.size
    for _ in range(count):
        inputs_n, outputs_n, flags, rows, segment, offset, capacity = _REQUEST.unpack_from(data, at)
        at += _REQUEST.size
        inputs = []
        for _ in range(inputs_n):
            ref, at = _unpack_tensor(data, at)
            inputs.append(ref)
        outputs = tuple(data[at : at + outputs_n])
        at += outputs_n
        requests.append(RequestRef(inputs, outputs, flags, rows, segment, offset, capacity))
    return requests


def _pack_answer(answer):
    parts = [_ANSWER.pack(answer.request, answer.status, len(answer.outputs), len(answer.text))]
    if answer.status == NO_ROOM:
        parts.append(_NEED.pack(answer.need))
    for ref in answer.outputs:
        _pack_tensor(parts, ref)
    parts.append(answer.text)
    return b"".join(parts)


def pack_answers(batch, answers, times):
    """The answers of a batch as datagrams, split so that none is over MAX_MESSAGE; only the last carries the times.

    An answer that alone is too large becomes FAILED with a text that says so.
    """
    room = MAX_MESSAGE - _HEAD.size - _TIMES.size
    groups = [[]]
    used = 0
    for answer in answers:
        packed = _pack_answer(answer)
        if len(packed) > room:
            text = json.dumps(
                {"code": "engine.result_too_large", "text": "the result takes %d bytes, over %d" % (len(packed), room)}
            )
            packed = _pack_answer(AnswerRef(answer.request, FAILED, (), text.encode()))
        if used + len(packed) > room:
            groups.append([])
            used = 0
        groups[-1].append(packed)
        used += len(packed)
    stamps = [Times(False, times.rows)] * (len(groups) - 1) + [times]
    return [
        _HEAD.pack(VERSION, ANSWER, len(group), batch) + _TIMES.pack(*stamp) + b"".join(group)
        for group, stamp in zip(groups, stamps)
    ]


def unpack_answers(data, count):
    """(answers, times) of an ANSWER message."""
    last, rows, input_ns, infer_ns, output_ns = _TIMES.unpack_from(data, _HEAD.size)
    at = _HEAD.size + _TIMES.size
    answers = []
    for _ in range(count):
        request, status, outputs_n, text_n = _ANSWER.unpack_from(data, at)
        at += _ANSWER.size
        need = 0
        if status == NO_ROOM:
            (need,) = _NEED.unpack_from(data, at)
            at += _NEED.size
        outputs = []
        for _ in range(outputs_n):
            ref, at = _unpack_tensor(data, at)
            outputs.append(ref)
        answers.append(AnswerRef(request, status, outputs, bytes(data[at : at + text_n]), need))
        at += text_n
    return answers, Times(bool(last), rows, input_ns, infer_ns, output_ns)


def pack_room(batch, request, segment, offset, capacity):
    """ROOM: put the kept answer of `request` there."""
    return _HEAD.pack(VERSION, ROOM, 1, batch) + _ROOM.pack(request, segment, offset, capacity)


def pack_drop(batch, request):
    """DROP: forget the kept answer of `request`."""
    return _HEAD.pack(VERSION, DROP, 1, batch) + _ROOM.pack(request, 0, 0, 0)


def unpack_room(data):
    """(request, segment, offset, capacity) of ROOM and DROP."""
    return _ROOM.unpack_from(data, _HEAD.size)


def pack_note(kind, number, fields):
    """A message whose fields are JSON. WireError when it would not fit one datagram."""
    data = _HEAD.pack(VERSION, kind, 0, number) + json.dumps(fields, separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE:
        raise WireError("a message of %d bytes, over %d" % (len(data), MAX_MESSAGE))
    return data


def unpack_note(data):
    """The fields of such a message. ValueError when they are not JSON."""
    return json.loads(data[_HEAD.size :].decode())


def aligned(offset):
    """The next multiple of ALIGNMENT."""
    return (offset + ALIGNMENT - 1) & ~(ALIGNMENT - 1)


class SegmentViews:
    """The arena segments that this child maps, by number. Their pages are shared, nothing is copied."""

    def __init__(self):
        self._maps = {}

    def attach(self, number, descriptor, size, writable=True):
        """Maps a segment; the descriptor is closed, the mapping stays."""
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        try:
            self._maps[number] = mmap.mmap(descriptor, size, mmap.MAP_SHARED, access)
        finally:
            os.close(descriptor)

    def detach(self, number):
        """Forgets a segment; views that still exist keep its pages mapped."""
        self._maps.pop(number, None)

    def view(self, number, offset, nbytes):
        """Gives a memoryview of bytes [offset, offset + nbytes); WireError outside what is mapped."""
        segment = self._maps.get(number)
        if segment is None:
            raise WireError("segment %d is not attached" % number)
        if offset < 0 or offset + nbytes > len(segment):
            raise WireError("bytes %d+%d are outside segment %d of %d" % (offset, nbytes, number, len(segment)))
        return memoryview(segment)[offset : offset + nbytes]


def send_control(sock, message, descriptors=()):
    """One JSON object as one datagram, with descriptors."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE:
        raise WireError("a control message of %d bytes, over %d" % (len(data), MAX_MESSAGE))
    ancillary = []
    if descriptors:
        ancillary.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("%di" % len(descriptors), *descriptors)))
    sock.sendmsg([data], ancillary)


def receive_control(sock):
    """(message, descriptors); message None at the end of the stream."""
    data, ancillary, flags, _ = sock.recvmsg(MAX_MESSAGE + 1, socket.CMSG_SPACE(16 * 4))
    descriptors = []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(payload) - len(payload) % 4
            descriptors.extend(struct.unpack("%di" % (whole // 4), payload[:whole]))
    if not data:
        return None, descriptors
    return json.loads(data.decode()), descriptors
