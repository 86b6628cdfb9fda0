"""The KServe v2 codec's door: what HTTP and MQTT call."""

from __future__ import annotations

from edge_agent.kserve.answers import binary_positions, encode_infer, text_bytes
from edge_agent.kserve.body import InferBody, InputPart, OutputPart
from edge_agent.kserve.fields import shown
from edge_agent.kserve.matching import match
from edge_agent.kserve.metadata import model_metadata, server_metadata
from edge_agent.kserve.parsing import (
    HINT,
    check_header_length,
    framing_steps,
    parse_head,
    parse_header_length,
    parse_infer,
    prefixed,
    raw_body,
)

__all__ = [
    "HINT",
    "InferBody",
    "InputPart",
    "OutputPart",
    "binary_positions",
    "check_header_length",
    "encode_infer",
    "framing_steps",
    "match",
    "model_metadata",
    "parse_head",
    "parse_header_length",
    "parse_infer",
    "prefixed",
    "raw_body",
    "server_metadata",
    "shown",
    "text_bytes",
]
