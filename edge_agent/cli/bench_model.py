"""The model under `bench`: requests made of its metadata, and the server's own account of where time went."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import quote

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from edge_agent.cli.bench_connection import Address
from edge_agent.domain.tensors import DataType
from edge_agent.errors import RequestError

#: different requests in turn; a model's response cache answers them from the second turn on, and the table says how many it did
_REQUESTS = 8
_REQUESTS_BYTES = 64 << 20
_SEED = 7
_INTEGER_BELOW = 128


class CannotAsk(RequestError):
    """No request can be made for this model without more being said."""

    code = "bench.cannot_ask"


@dataclass(frozen=True)
class Input:
    """One input of the requests."""

    name: str
    datatype: DataType
    shape: Tuple[int, ...]

    @property
    def count(self) -> int:
        """Its elements."""
        return int(np.prod(self.shape, dtype=np.int64))


def inputs_of(metadata: Mapping[str, Any], batched: bool, shapes: Mapping[str, Tuple[int, ...]]) -> List[Input]:
    """The model's inputs, one row each where nothing else is said; CannotAsk for a shape that has to be given."""
    inputs = []
    for item in metadata["inputs"]:
        name, declared = item["name"], list(item["shape"])
        if batched and declared[0] == -1:
            declared[0] = 1
        shape = shapes.get(name, tuple(declared))
        if min(shape, default=0) < 0:
            raise CannotAsk("input '%s' has the shape %s: give it with --shape %s=..." % (name, declared, name))
        inputs.append(Input(name, DataType(item["datatype"]), shape))
    unknown = sorted(set(shapes) - {item.name for item in inputs})
    if unknown:
        raise CannotAsk("--shape %s: the model's inputs are %s" % (unknown[0], ", ".join(item.name for item in inputs)))
    return inputs


def infer_path(model: str, version: str) -> str:
    """Where its requests go."""
    return _model_path(model, version) + "/infer"


def _model_path(model: str, version: str) -> str:
    return "/v2/models/" + quote(model, safe="") + ("/versions/" + quote(version, safe="") if version else "")


def metadata_path(model: str, version: str) -> str:
    """Where its metadata are."""
    return _model_path(model, version)


def config_path(model: str, version: str) -> str:
    """Where its configuration is."""
    return _model_path(model, version) + "/config"


def requests(address: Address, path: str, inputs: Sequence[Input], data: str) -> List[bytes]:
    """Whole HTTP requests with binary tensors, of `zero` or `random` values."""
    random = np.random.RandomState(_SEED)
    tensors = [[_bytes(item, data, random) for item in inputs]]
    nbytes = sum(map(len, tensors[0]))
    more = 0 if data == "zero" else min(_REQUESTS, _REQUESTS_BYTES // max(1, nbytes)) - 1
    tensors += [[_bytes(item, data, random) for item in inputs] for _ in range(more)]
    return [_request(address, path, inputs, one) for one in tensors]


def _request(address: Address, path: str, inputs: Sequence[Input], tensors: Sequence[bytes]) -> bytes:
    document = {
        "inputs": [
            {
                "name": item.name,
                "datatype": item.datatype.value,
                "shape": list(item.shape),
                "parameters": {"binary_data_size": len(tensor)},
            }
            for item, tensor in zip(inputs, tensors)
        ],
        "parameters": {"binary_data_output": True},
    }
    head = json.dumps(document, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return address.request("POST", path, headers, b"".join((head, *tensors)))


def _bytes(item: Input, data: str, random: np.random.RandomState) -> bytes:
    """A tensor's bytes; integers stay small, since they are often places in a table."""
    if item.datatype is DataType.BYTES:
        texts = [b"" if data == "zero" else b"%08x" % random.randint(1 << 31) for _ in range(item.count)]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    if data == "zero":
        return bytes(item.count * item.datatype.itemsize)
    kind = item.datatype.value
    if kind == "BF16":  # the upper half of an FP32
        return (random.standard_normal(item.count).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    if kind.startswith("FP"):
        return random.standard_normal(item.count).astype("<f%d" % item.datatype.itemsize).tobytes()
    highest = 2 if kind == "BOOL" else 256 if kind == "UINT8" else _INTEGER_BELOW
    sign = "i" if kind.startswith("INT") else "u"
    return random.randint(highest, size=item.count).astype("<%s%d" % (sign, item.datatype.itemsize)).tobytes()


@dataclass(frozen=True)
class Account:
    """What the agent counted for the model so far."""

    counts: Mapping[str, float]
    reasons: Mapping[str, float]

    def since(self, before: Account) -> Account:
        """What was counted between two of them."""
        return Account(_less(self.counts, before.counts), _less(self.reasons, before.reasons))

    def as_json(self) -> Dict[str, Any]:
        """Mean batch, why batches were sent, answers of the cache, and the means of a request's stages in milliseconds."""
        done, ran = self.counts.get("request_success", 0.0), self.counts.get("exec_count", 0.0)
        spent = {stage: self.counts.get(stage + "_duration_us", 0.0) / 1e3 for stage in _STAGES}
        return {
            "mean_batch": round(self.counts.get("count", 0.0) / ran, 2) if ran else None,
            "batch_reasons": {reason: int(count) for reason, count in sorted(self.reasons.items()) if count},
            "cached": int(self.counts.get(_CACHED, 0.0)),
            "stages_ms": {stage: round(ms / done, 3) for stage, ms in spent.items()} if done else None,
        }


_CACHED = "nv_cache_num_hits_per_model"
_STAGES = ("queue", "compute_input", "compute_infer", "compute_output")


def account(metrics_text: str, model: str, version: str) -> Account:
    """The model's samples of a /metrics answer; all versions together where none is named."""
    counts: Dict[str, float] = {}
    reasons: Dict[str, float] = {}
    for family in text_string_to_metric_families(metrics_text):
        for sample in family.samples:
            if sample.labels.get("model") != model or version not in ("", sample.labels.get("version")):
                continue
            name = sample.name[: -len("_total")] if sample.name.endswith("_total") else sample.name  # newer parsers add it
            if name.startswith("nv_inference_"):
                _add(counts, name[len("nv_inference_") :], sample.value)
            elif name == _CACHED:
                _add(counts, name, sample.value)
            elif name == "edge_agent_batch_reason":
                _add(reasons, sample.labels["reason"], sample.value)
    return Account(counts, reasons)


def _add(sums: Dict[str, float], key: str, value: Optional[float]) -> None:
    sums[key] = sums.get(key, 0.0) + (value or 0.0)


def _less(after: Mapping[str, float], before: Mapping[str, float]) -> Dict[str, float]:
    return {key: value - before.get(key, 0.0) for key, value in after.items()}
