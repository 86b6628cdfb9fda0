"""What is known of a plan, as a file: read back as it was written, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any, Dict

import pytest

from edge_agent.engines.plans.key import PlanKey, PlanRecipe, PlanTarget
from edge_agent.engines.plans.sidecar import Sidecar

KEY = PlanKey("d" * 64, PlanTarget("10.3.0.26", 12060, (8, 7), "Orin", 16), PlanRecipe("int8"))
IO = ({"name": "x", "input": True, "shape": [-1, 4], "datatype": "FP32"},)


def sidecar(**fields: Any) -> Sidecar:
    made = Sidecar.of(KEY, "adder/2", "fp16", "2030-01-01T00:00:00.000Z", IO, {"seconds": 12.5})
    return Sidecar(**{**made.__dict__, "sha256": "a" * 64, "size": 10, **fields})


def document(**fields: Any) -> Dict[str, Any]:
    return {**json.loads(sidecar().encode()), **fields}


def test_it_is_read_back_as_it_was_written() -> None:
    refused = sidecar(verified=True, figures={"p50_ms": 1.5}).refuse(
        "engine.verify_failed", "wrong", "2030-01-02T00:00:00.000Z"
    )
    for made in (sidecar(), sidecar(verified=True, figures={"max_abs_error": 0.01}), refused):
        assert Sidecar.decode(made.encode()) == made


def test_it_tells_what_the_key_is_made_of() -> None:
    assert json.loads(sidecar().encode())["key_fields"]["target"]["tensorrt"] == "10.3.0.26"


def test_a_refused_plan_is_not_verified_and_is_remembered() -> None:
    refused = sidecar(verified=True).refuse("plan.foreign", "x" * 5000, "now")
    assert not refused.verified
    assert refused.refused_plans == ("a" * 64,)
    assert refused.refused is not None
    assert len(refused.refused.reason) == 1000


def test_the_list_of_refused_plans_is_bounded_and_the_newest_stay() -> None:
    made = sidecar()
    for index in range(40):
        made = Sidecar(**{**made.__dict__, "sha256": "%064x" % index}).refuse("plan.foreign", "", "now")
    assert len(made.refused_plans) == 16
    assert made.refused_plans[-1] == "%064x" % 39


BAD: Dict[str, bytes] = {
    "empty": b"",
    "no_json": b"{",
    "nul": b"\0" * 40,
    "no_utf8": b"\xff",
    "list": b"[]",
    "deep": b"[" * 100_000,
    "other_schema": json.dumps(document(schema=2)).encode(),
    "no_schema": json.dumps({key: value for key, value in document().items() if key != "schema"}).encode(),
    "field_missing": json.dumps({key: value for key, value in document().items() if key != "size"}).encode(),
    "field_more": json.dumps(document(more=1)).encode(),
    "key_not_hex": json.dumps(document(key="../../etc/passwd")).encode(),
    "digest_short": json.dumps(document(sha256="a")).encode(),
    "digest_none": json.dumps(document(sha256="")).encode(),
    "size_negative": json.dumps(document(size=-1)).encode(),
    "size_truth": json.dumps(document(size=True)).encode(),
    "size_nan": json.dumps(document(size=float("nan"))).encode(),
    "verified_text": json.dumps(document(verified="yes")).encode(),
    "io_numbers": json.dumps(document(io=[1])).encode(),
    "refused_other": json.dumps(document(refused={"code": "x"})).encode(),
    "refused_number": json.dumps(document(refused={"code": 1, "reason": "", "at": ""})).encode(),
    "refused_plans_numbers": json.dumps(document(refused_plans=[1])).encode(),
    "huge_number": b'{"schema": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("kind", sorted(BAD))
def test_anything_else_is_refused_with_the_reason(kind: str) -> None:
    with pytest.raises(ValueError, match="."):
        Sidecar.decode(BAD[kind])
