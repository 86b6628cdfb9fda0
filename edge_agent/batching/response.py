"""What a caller gets of the batch that its request was in."""

from __future__ import annotations

from typing import Optional

from edge_agent.batching.pending import Pending
from edge_agent.domain.requests import InferResponse, Timing
from edge_agent.engines.batch import Answer, Batch, Outcome, Ran


def response_of(
    model: str, version: str, item: Pending, outcome: Outcome, batch: Batch[Pending], ran: Ran, now: float
) -> InferResponse:
    """The response with its timing: all that was not computing was waiting."""
    total = now - item.enqueued_at
    compute = ran.input_s + ran.infer_s + ran.output_s
    timing = Timing(
        queue_us=max(0, int((total - compute) * 1e6)),
        input_us=int(ran.input_s * 1e6),
        infer_us=int(ran.infer_s * 1e6),
        output_us=int(ran.output_s * 1e6),
        total_us=int(total * 1e6),
    )
    request_id = item.request.id
    return InferResponse(model, version, request_id, outcome.outputs, outcome.detections, timing, batch.rows, outcome.kept)


def release(answer: Optional[Answer]) -> None:
    """Gives back what an answer holds that nobody waits for any more."""
    if isinstance(answer, Outcome):
        for lease in answer.kept:
            lease.release()
