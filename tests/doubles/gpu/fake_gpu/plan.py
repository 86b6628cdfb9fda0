"""The file of a fake plan: a magic, one line of JSON, the ONNX bytes, a check sum. Needs nothing but the standard library."""

import json
import struct
import zlib

MAGIC = b"FAKE TENSORRT PLAN\n"
_CHECKSUM = struct.Struct("<I")


class Refused(Exception):
    """Bytes that are no plan, or not a whole one; in the words of a log."""


def pack(fields, onnx):
    """The bytes of a plan. `fields`: tensorrt, capability, precision, profiles, dla_core, strongly_typed."""
    body = MAGIC + json.dumps(dict(fields, onnx_bytes=len(onnx)), sort_keys=True).encode() + b"\n" + onnx
    return body + _CHECKSUM.pack(zlib.crc32(body) & 0xFFFFFFFF)


def unpack(data):
    """(fields, ONNX bytes)."""
    if not data.startswith(MAGIC):
        raise Refused("Error Code 1: Serialization (Magic tag does not match)")
    end = data.find(b"\n", len(MAGIC))
    try:
        fields = json.loads(data[len(MAGIC) : end].decode()) if end > 0 else None
        length = fields["onnx_bytes"]
    except (ValueError, KeyError, TypeError) as error:
        raise Refused("Error Code 1: Serialization (the header cannot be read)") from error
    if len(data) != end + 1 + length + _CHECKSUM.size:
        raise Refused("Error Code 4: Internal Error (Engine deserialization failed: the plan has a wrong size)")
    body, (wanted,) = data[: -_CHECKSUM.size], _CHECKSUM.unpack(data[-_CHECKSUM.size :])
    if zlib.crc32(body) & 0xFFFFFFFF != wanted:
        raise Refused("Error Code 1: Serialization (the check sum does not match)")
    return fields, body[end + 1 :]
