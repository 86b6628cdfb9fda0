"""Inference bodies between their JSON form and their binary form: a JSON head, the tensors' bytes behind it.

Only tensor data is looked at closely here. Whatever else may be wrong with a request stays in the head, where the agent's
codec finds it; data that it will refuse for another reason is left out, so that the head stays small.
"""

import numpy as np

from edge_agent.engine_host import json_tensors
from edge_agent.engine_host.json_tensors import BadJson

#: keys of a request that mean something; others are looked through and left out
_KEYS = ("id", "inputs", "outputs", "parameters")
_MAX_HEAD_BYTES = 65536  # what the agent reads by itself


class BadBody(Exception):
    """A body that cannot be used; `request_id` is the request's own, where it could be read."""

    def __init__(self, text, request_id=""):
        Exception.__init__(self, text)
        self.request_id = request_id[:65] if isinstance(request_id, str) else ""


def to_binary(body, header_length=None, hint=""):
    """(head, blobs) of a request in the binary form; `body` may hold binary tensors behind `header_length` bytes of JSON."""
    head_bytes = len(body) if header_length is None else header_length
    try:
        document = json_tensors.load_object(body[:head_bytes], hint)
    except BadJson as error:
        raise BadBody(str(error)) from None
    try:
        head, blobs = _requested(document, body[head_bytes:])
    except BadJson as error:
        raise BadBody(str(error), document.get("id")) from None
    packed = json_tensors.compact(head)
    if len(packed) > _MAX_HEAD_BYTES:
        text = "the JSON around the tensors takes %d bytes, at most %d are possible"
        raise BadBody(text % (len(packed), _MAX_HEAD_BYTES), document.get("id"))
    return packed, blobs


def _requested(document, rest):
    for key, value in document.items():
        if key not in _KEYS:
            json_tensors.check_nesting(value, "'%s'" % json_tensors.shown(key))
    head = {key: document[key] for key in _KEYS if key in document}
    inputs = head.get("inputs")
    blobs = []
    at = 0
    if isinstance(inputs, list):
        head["inputs"] = items = []
        for item in inputs:
            shown, blob = _input(item)
            items.append(shown)
            if blob is None:
                size = _binary_size(item)
                blob = rest[at : at + size]
                at += size
            blobs.append(blob)
    blobs.append(rest[at:])
    return head, [blob for blob in blobs if len(blob)]


def _input(item):
    """(how the head shows the input, its bytes; None when they lie in the body or the codec will refuse it)."""
    if not isinstance(item, dict) or "data" not in item:
        return item, None
    data, asked = item["data"], item.get("parameters")
    name, datatype = item.get("name"), item.get("datatype")
    asked = {} if asked is None else asked
    shown = dict(item, data=type(data)() if isinstance(data, (list, dict, str)) else data)
    if not isinstance(data, list) or not isinstance(asked, dict) or "binary_data_size" in asked:
        return shown, None
    if not isinstance(name, str) or not isinstance(datatype, str) or datatype not in json_tensors.DATATYPES:
        return shown, None
    count = json_tensors.elements_of(item.get("shape"), json_tensors.itemsize_of(datatype))
    if count is None or "shared_memory_region" in asked:
        return shown, None
    blob = json_tensors.to_bytes(data, datatype, item["shape"], count, json_tensors.shown(name))
    del shown["data"]
    shown["parameters"] = dict(asked, binary_data_size=len(blob))
    return shown, blob


def _binary_size(item):
    asked = item.get("parameters") if isinstance(item, dict) else None
    size = asked.get("binary_data_size") if isinstance(asked, dict) else None
    return size if type(size) is int and size > 0 else 0


def to_json(body, header_length, binary):
    """(head, blobs) of an answer in binary form whose outputs are wanted as JSON, but for those at the positions `binary`.

    An output with the parameter `classification` (the agent's own, it goes no further) is ranked first.
    """
    head = json_tensors.load_object(body[:header_length])
    blobs = []
    at = header_length
    for number, entry in enumerate(head["outputs"]):
        size = entry["parameters"]["binary_data_size"]
        blob = body[at : at + size]
        at += size
        if "classification" in entry["parameters"]:
            blob = _ranked(blob, entry["parameters"].pop("classification"))
            entry["parameters"]["binary_data_size"] = len(blob)
        if number in binary:
            blobs.append(blob)
            continue
        del entry["parameters"]
        try:
            entry["data"] = json_tensors.to_list(blob, entry["datatype"], entry["name"])
        except BadJson as error:
            raise BadBody(str(error), head.get("id")) from None
    return json_tensors.compact(head), blobs


def _ranked(blob, asked):
    values = np.frombuffer(blob, dtype=json_tensors.DTYPES[asked["datatype"]])
    table = values.reshape(asked["rows"], -1)
    return json_tensors.pack_strings(json_tensors.ranked(table, asked["best"], asked["labels"]))
