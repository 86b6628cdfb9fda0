"""The detections of one request as the host says them."""

from __future__ import annotations

import json
from typing import Tuple

from edge_agent.domain.results import Detection


def detections(text: bytes) -> Tuple[Detection, ...]:
    """Out of `{"objects": [{"label", "score", "box", ...}]}`; boxes in pixels of the model's input."""
    objects = []
    for fields in json.loads(text.decode())["objects"]:
        label, score, box = str(fields.pop("label")), float(fields.pop("score")), fields.pop("box", None)
        corners = None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3]))
        objects.append(Detection(label, score, corners, fields))
    return tuple(objects)
