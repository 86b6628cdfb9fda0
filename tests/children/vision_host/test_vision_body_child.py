import gzip
import json
import os
import struct
import subprocess
import sys

import pytest

BODY = "edge_agent.vision_host.body"
TARGET_AT = 8 * 1024 * 1024
ROOM = 1024 * 1024


def ask(child, op, data, room=ROOM, **fields):
    child.bytes[: len(data)] = data
    place = {"segment": 1, "offset": 0, "nbytes": len(data), "target": {"offset": TARGET_AT, "nbytes": room}}
    return child.call(op, dict(place, **fields))


def written(child, reply):
    return bytes(child.bytes[TARGET_AT : TARGET_AT + reply["nbytes"]])


def request(values, **changes):
    entry = {"name": "X", "shape": [len(values)], "datatype": "FP32", "data": values}
    return json.dumps(dict({"inputs": [dict(entry, **changes)]}, id="7")).encode()


def test_a_json_request_lies_in_binary_form_in_its_slot(start_child):
    child = start_child(BODY)
    reply = ask(child, "json_to_binary", request([1, 2]), limit=1000)
    body = written(child, reply)
    assert json.loads(body[: reply["header_length"]].decode())["inputs"][0]["parameters"] == {"binary_data_size": 8}
    assert body[reply["header_length"] :] == struct.pack("<ff", 1, 2)


def test_an_answer_in_binary_form_lies_as_json_in_its_slot(start_child):
    child = start_child(BODY)
    entry = {"name": "Y", "datatype": "UINT8", "shape": [2], "parameters": {"binary_data_size": 2}}
    head = json.dumps({"outputs": [entry]}).encode()
    reply = ask(child, "binary_to_json", head + b"\1\2", header_length=len(head), binary=[])
    assert json.loads(written(child, reply).decode())["outputs"][0]["data"] == [1, 2]
    assert reply["header_length"] == reply["nbytes"]
    reply = ask(child, "binary_to_json", head + b"\1\2", header_length=len(head), binary=[0])
    assert written(child, reply)[reply["header_length"] :] == b"\1\2"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_bytes_are_compressed_and_inflated(start_child, coding):
    child = start_child(BODY)
    packed = written(child, ask(child, "deflate", b"abc" * 10000, coding=coding))
    assert len(packed) < 1000
    assert written(child, ask(child, "inflate", packed, coding=coding, limit=30000)) == b"abc" * 10000
    reply = ask(child, "inflate", packed, coding=coding, limit=29999)
    assert reply["error"]["code"] == "request.too_large"


def test_a_target_that_is_too_small_is_told_what_it_takes_and_left_alone_behind_its_end(start_child):
    child = start_child(BODY)
    reply = ask(child, "inflate", gzip.compress(b"x" * 5000), room=4096, coding="gzip", limit=10000)
    assert (reply["error"]["code"], reply["error"]["detail"]["need"]) == ("body.no_room", 5000)
    assert not any(child.bytes[TARGET_AT + 4096 : TARGET_AT + 8192])
    reply = ask(child, "json_to_binary", request([1.5] * 1000), room=4000, limit=10000)
    assert reply["error"]["code"] == "body.no_room"
    assert ask(child, "json_to_binary", request([1.5] * 1000), room=reply["error"]["detail"]["need"], limit=10000)["ok"]


HOSTILE = [
    (b'{"inputs":' + b"[" * 1000000, "request.invalid", "nested deeper"),
    (b'{"id":"\xff"}', "request.invalid", "not UTF-8 at byte 7 (hint)"),
    (b'{"inputs":[{"x":' + b"9" * 2000000 + b"}]}", "request.invalid", "more than 4300 digits"),
    (b"\0" * 1000, "request.invalid", "parse the request JSON"),
    (request([1, 2], data=[1, "2"]), "request.invalid", "input 'X' must be numbers"),
    (request([0] * 300, datatype="FP64"), "request.too_large", "over the limit of 2000"),
]


@pytest.mark.parametrize("case", range(len(HOSTILE)))
def test_a_hostile_body_is_refused_and_the_next_good_one_works(start_child, case):
    data, code, text = HOSTILE[case]
    child = start_child(BODY)
    error = ask(child, "json_to_binary", data, limit=2000, hint=" (hint)")["error"]
    assert error["code"] == code
    assert text in error["text"]
    assert ask(child, "json_to_binary", request([1, 2]), limit=1000)["ok"]


def test_faults_say_which_request_they_are_of(start_child):
    child = start_child(BODY)
    assert ask(child, "json_to_binary", request([1], data=[]), limit=1000)["error"]["detail"] == {"id": "7"}


def test_it_does_not_load_the_codecs_of_pictures(start_child):
    child = start_child(BODY)
    ask(child, "json_to_binary", request([1, 2]), limit=1000)
    with open("/proc/%d/maps" % child.process.pid) as maps:
        assert "cv2" not in maps.read()


GREEDY = """
import sys, types
package = types.ModuleType("edge_agent")
package.__path__ = [sys.argv[1]]
sys.modules["edge_agent"] = package
from edge_agent.engine_host.control import Refused
from edge_agent.vision_host import body
import os
body._LEAST_MEMORY = 64 << 20
os.sysconf = lambda name: 1
body.bound_memory()
text = b'{"inputs":[' + b"[]," * 3000000 + b"[]]}"
class Views:
    def view(self, segment, offset, nbytes):
        return memoryview(text)
try:
    body.BodyChild(Views()).json_to_binary({"segment": 1, "offset": 0, "nbytes": len(text), "limit": 1000}, ())
except Refused as refusal:
    print(refusal.code, refusal.text)
"""


def test_json_that_takes_too_much_memory_is_refused_without_ending_the_child():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    command = [sys.executable, "-c", GREEDY, os.path.join(root, "edge_agent")]
    said = subprocess.check_output(command, stderr=subprocess.STDOUT).decode()
    assert said.startswith("request.too_large its JSON takes more memory")
