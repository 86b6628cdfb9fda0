"""ModelConfig as Triton's own answers print it: proto names, defaults included, what is off left out."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from edge_agent.config import platforms

#: messages that clients look for even where they say nothing
_ALWAYS: Mapping[str, Any] = {
    "model_transaction_policy": {"decoupled": False},
    "response_cache": {"enable": False},
}
_BACKEND_OF = {platform: backend for backend, platform in platforms.BACKENDS.items()}


def completed(
    said: Mapping[str, Any],
    name: str,
    platform: str,
    max_batch_size: int,
    inputs: List[Dict[str, Any]],
    outputs: List[Dict[str, Any]],
) -> Dict[str, Any]:
    """What was said, made complete. A scheduler that is off has no key: its mere presence changes what clients do."""
    known = _without_none(said)
    return {
        **_ALWAYS,
        **known,
        "name": name,
        "platform": platform,
        "backend": _BACKEND_OF.get(platform, ""),
        "version_policy": known.get("version_policy") or {"latest": {"num_versions": 1}},
        "max_batch_size": max_batch_size,
        "input": [_without_none(tensor) for tensor in inputs],
        "output": [_without_none(tensor) for tensor in outputs],
        "instance_group": _groups(known["instance_group"], name, platform),
        "default_model_filename": known["default_model_filename"] or platforms.FILES.get(platform, ""),
    }


def _groups(said: List[Dict[str, Any]], name: str, platform: str) -> List[Dict[str, Any]]:
    """Where the instances really run; an ensemble has none."""
    if platform == "ensemble":
        return []
    kind = "KIND_GPU" if platform == "tensorrt_plan" else "KIND_CPU"
    usual = {"name": "", "kind": kind, "count": 1, "gpus": [], "secondary_devices": [], "profile": [], "passive": False}
    return [
        {
            **group,
            "name": group["name"] or "%s_%d" % (name, number),
            "kind": group["kind"] if group["kind"] == "KIND_MODEL" else kind,
            "count": group["count"] or 1,
        }
        for number, group in enumerate(said or [{**usual, "host_policy": ""}])
    ]


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
