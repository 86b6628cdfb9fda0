from __future__ import annotations

import math
import random
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from edge_agent.config import pbtxt
from edge_agent.config.pbtxt import Word, parse
from edge_agent.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("# nothing\n", {}),
        ("a: 1", {"a": [1]}),
        ("a:1,b:2;c:3", {"a": [1], "b": [2], "c": [3]}),
        ("a: 1 a: 2", {"a": [1, 2]}),
        ("a: [1, 2] a: 3", {"a": [1, 2, 3]}),
        ("a: []", {"a": []}),
        ("a []", {"a": []}),
        ("a: -1", {"a": [-1]}),
        ("a: - 1", {"a": [-1]}),
        ("a: 0x1F b: 017 c: 0", {"a": [31], "b": [15], "c": [0]}),
        ("a: 18446744073709551615", {"a": [2**64 - 1]}),
        (
            "a: 1e-3 b: .5 c: 2. d: 1.5f e: 3f f: 1E+2",
            {"a": [0.001], "b": [0.5], "c": [2.0], "d": [1.5], "e": [3.0], "f": [100.0]},
        ),
        ("a: inf b: -inf", {"a": ["inf"], "b": [-math.inf]}),
        ("a: TYPE_FP32 b: true", {"a": ["TYPE_FP32"], "b": ["true"]}),
        ('a: "x"', {"a": ["x"]}),
        ("a: 'x \"y\"'", {"a": ['x "y"']}),
        ("a: 'one' \"two\"\n  # between\n 'three'", {"a": ["onetwothree"]}),
        (r'a: "\n\t\\\"\'\?\a\b\f\r\v"', {"a": ["\n\t\\\"'?\a\b\f\r\v"]}),
        (r'a: "\101\x41\x4\u4e2d\U0001F600"', {"a": ["AA\x04\u4e2d\U0001f600"]}),
        (r'a: "\344\270\255"', {"a": ["\u4e2d"]}),
        ('a: "\u4e2d"', {"a": ["\u4e2d"]}),
        ("m { a: 1 }", {"m": [{"a": [1]}]}),
        ("m: { a: 1 }", {"m": [{"a": [1]}]}),
        ("m < a: 1 >", {"m": [{"a": [1]}]}),
        ("m {}", {"m": [{}]}),
        ("m [ { a: 1 }, < a: 2 > ]", {"m": [{"a": [1]}, {"a": [2]}]}),
        ("m: [ {} ]", {"m": [{}]}),
        ("m { n { o: 1 } } m { n: {} }", {"m": [{"n": [{"o": [1]}]}, {"n": [{}]}]}),
        ('p { key: "k" value { string_value: "v" } }', {"p": [{"key": ["k"], "value": [{"string_value": ["v"]}]}]}),
        ("a: 1\r\nb: 2\r\n", {"a": [1], "b": [2]}),
    ],
)
def test_every_form_of_the_format_is_read(text: str, values: Dict[str, List[Any]]) -> None:
    assert parse(text) == values


def test_words_are_told_from_texts() -> None:
    message = parse('a: true b: "true"')
    assert isinstance(message["a"][0], Word)
    assert not isinstance(message["b"][0], Word)


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("a", "1:2", "expected `:` or `{` after the field's name, found the end of the file"),
        ("a:\n\n  ", "3:3", "expected a value, found the end of the file"),
        ("a: 1\n b 2", "2:4", "expected `:` or `{` after the field's name, found 2"),
        ("m {\n a: 1", "2:6", "expected the name of a field or }, found the end of the file"),
        ("m < a: 1 }", "1:10", "expected the name of a field or >, found }"),
        ("}", "1:1", "expected the name of a field, found }"),
        ("a: [1 2]", "1:7", "expected `,` or `]`, found 2"),
        ("a: [1,]", "1:7", "expected a value, found ]"),
        ("a [1]", "1:4", "expected `{`, or a `:` before the list, found 1"),
        ("a: [[1]]", "1:5", "expected a value or `]`, found ["),
        ("a: -x", "1:5", "expected a number after `-`, found x"),
        ("a: 08", "1:4", "08 is no number"),
        ("a: 12abc", "1:4", "12a is no number"),
        ("a: 1.2.3", "1:4", "1.2. is no number"),
        ('a: "x\n"', "1:4", "the text that begins here has no end in its line"),
        ('a: "\\q"', "1:4", "\\ in the text is no escape"),
        ('a: "\\777"', "1:4", "\\777 in the text is no escape"),
        ('a: "\\ud800"', "1:4", "\\ud800 in the text is no escape"),
        ('a: "\\xff"', "1:4", "the text is not UTF-8"),
        ("a: 1 @", "1:6", "@ has no meaning here"),
        ("a: \u4e2d", "1:4", "\u4e2d has no meaning here"),
        ("a: 1 \0", "1:6", "'\\x00' has no meaning here"),
        ("5: 1", "1:1", "expected the name of a field, found 5"),
        ("[a.b]: 1", "1:1", "expected the name of a field, found ["),
        ("m{" * 101, "1:202", "messages lie over 100 deep in each other"),
        ("a: " + "9" * 401, "1:4", "is no number"),
    ],
)
def test_a_fault_says_where_it_is_and_what_was_expected(text: str, place: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "there")
    ((where, said, cure),) = caught.value.faults
    assert where == "there:" + place
    assert what in said
    assert cure


def test_a_hundred_messages_may_lie_in_each_other() -> None:
    assert set(parse("m{" * 100 + "}" * 100)) == {"m"}


@pytest.mark.parametrize(
    ("data", "what"),
    [(None, "cannot be read"), (b"a: '\xff'", "is not UTF-8 text (line 1)"), (b" " * 1_048_577, "is over 1 MB")],
)
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, data: Any, what: str) -> None:
    file = tmp_path / "config.pbtxt"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        pbtxt.read(file)
    assert caught.value.faults[0][0] == str(file)
    assert what in caught.value.faults[0][1]


def test_a_file_may_begin_with_a_mark_and_be_empty(tmp_path: Path) -> None:
    (tmp_path / "config.pbtxt").write_bytes(b"\xef\xbb\xbf")
    assert pbtxt.read(tmp_path / "config.pbtxt") == {}


_PIECES = [
    "a",
    "b_1",
    ":",
    "{",
    "}",
    "<",
    ">",
    "[",
    "]",
    ",",
    ";",
    "-",
    "1",
    "0x",
    "1e",
    ".5",
    '"x',
    '"x"',
    "'",
    "\\",
    "#",
    "\n",
    " ",
    "\0",
    "\u4e2d",
]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_in_only_a_config_error_comes_out(seed: int) -> None:
    dice = random.Random(seed)
    good, faults = 0, []
    for _ in range(300):
        text = "".join(dice.choice(_PIECES) for _ in range(dice.randrange(30)))
        try:
            parse(text)
            good += 1
        except ConfigError as error:
            faults.append(error.faults)
    assert good
    assert {len(each) for each in faults} == {1}


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_in_a_file_give_only_a_config_error(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    file = tmp_path / "config.pbtxt"
    faults = []
    for _ in range(100):
        file.write_bytes(bytes(dice.randrange(256) for _ in range(dice.randrange(1, 40))))
        try:
            pbtxt.read(file)
        except ConfigError as error:
            faults.append(str(error))
    assert faults
    assert all(str(file) in fault for fault in faults)


def _tree(dice: random.Random, depth: int) -> Dict[str, List[Any]]:
    return {"f%d" % number: _values(dice, depth) for number in range(dice.randrange(4))}


def _values(dice: random.Random, depth: int) -> List[Any]:
    kind = dice.randrange(5 if depth else 4)
    count = dice.randrange(1, 4)
    if kind == 0:
        return [dice.randrange(-(2**63), 2**64) for _ in range(count)]
    if kind == 1:
        return [dice.choice([-1.5, 2.25, 1e300, -3e-7]) for _ in range(count)]
    if kind == 2:
        return ["".join(dice.choice("ab\"'\\\n\t\x01\u4e2d#{}") for _ in range(dice.randrange(6))) for _ in range(count)]
    if kind == 3:
        return [Word(dice.choice(["true", "TYPE_FP32", "inf"])) for _ in range(count)]
    return [_tree(dice, depth - 1) for _ in range(count)]


def _written(dice: random.Random, message: Dict[str, List[Any]]) -> str:
    space = lambda: dice.choice([" ", "\n", "\t", " # x\n"])  # noqa: E731
    text = ""
    for name, values in message.items():
        shown = [_shown(dice, value) for value in values]
        if dice.random() < 0.5:
            text += name + ":" + space() + "[" + (space() + "," + space()).join(shown) + "]" + space()
        else:
            text += "".join(name + ":" + space() + one + dice.choice([" ", ",", ";"]) for one in shown)
    return text


def _shown(dice: random.Random, value: Any) -> str:
    if isinstance(value, dict):
        return dice.choice(["{ %s }", "< %s >"]) % _written(dice, value)
    if isinstance(value, str) and not isinstance(value, Word):
        quote = dice.choice("\"'")
        cut = dice.randrange(len(value) + 1)
        return " ".join(quote + _escaped(part, quote) + quote for part in (value[:cut], value[cut:]))
    return str(value)


def _escaped(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n").replace("\x01", "\\001")


@pytest.mark.parametrize("seed", range(100))
def test_what_was_written_is_read_back(seed: int) -> None:
    dice = random.Random(seed)
    message = _tree(dice, 3)
    assert parse(_written(dice, message)) == message


@pytest.mark.parametrize("seed", range(30))
def test_protobufs_own_writer_is_understood(seed: int) -> None:
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, text_format

    dice = random.Random(seed)
    sent = descriptor_pb2.FileDescriptorProto(name="\u4e2d'\"\\\n\x7f\x00" + str(seed), dependency=["a", ""])
    sent.public_dependency.extend([dice.randrange(-(2**31), 2**31) for _ in range(3)])
    field = sent.message_type.add(name="m").field.add(name="f", type=dice.randrange(1, 19), number=dice.randrange(2**31))
    option = field.options.uninterpreted_option.add(double_value=dice.uniform(-1e9, 1e9), positive_int_value=2**64 - 1)
    option.name.add(name_part="n", is_extension=bool(seed % 2))
    read = parse(text_format.MessageToString(sent, as_utf8=bool(seed % 2), as_one_line=seed % 3 == 0))
    (message,) = read["message_type"]
    (said,) = message["field"]
    assert read["name"] == [sent.name]
    assert read["dependency"] == ["a", ""]
    assert read["public_dependency"] == list(sent.public_dependency)
    assert said["type"] == [descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)]
    assert said["number"] == [field.number]
    (inner,) = said["options"][0]["uninterpreted_option"]
    assert inner["double_value"] == [option.double_value]
    assert inner["positive_int_value"] == [2**64 - 1]
    assert inner["name"] == [{"name_part": ["n"], "is_extension": ["true" if seed % 2 else "false"]}]


def test_one_long_line_takes_as_long_as_many_short_ones() -> None:
    def seconds(between: str) -> float:
        text = "%s%sa: [%s]" % (" " * 8_000_000, between, between.join(["1,"] * 5_000) + "1")
        started = time.process_time()
        assert len(parse(text)["a"]) == 5_001
        return time.process_time() - started

    assert seconds(" ") < 4 * seconds("\n") + 0.2
