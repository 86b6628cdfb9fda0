"""The KServe v2 codec's door: what HTTP and MQTT call."""

from __future__ import annotations

from edge_agent.kserve.answers import encode_infer
from edge_agent.kserve.body import InferBody, InputPart, OutputPart
from edge_agent.kserve.matching import match
from edge_agent.kserve.metadata import model_config_json, model_metadata, server_metadata
from edge_agent.kserve.parsing import (
    check_bytes,
    check_header_length,
    parse_head,
    parse_header_length,
    parse_infer,
    prefixed,
    raw_body,
)

__all__ = [
    "InferBody",
    "InputPart",
    "OutputPart",
    "check_bytes",
    "check_header_length",
    "encode_infer",
    "match",
    "model_config_json",
    "model_metadata",
    "parse_head",
    "parse_header_length",
    "parse_infer",
    "prefixed",
    "raw_body",
    "server_metadata",
]
