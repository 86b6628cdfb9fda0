"""Asks one version directly, whether anybody else may or not."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from edge_agent import errors
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.tensors import Lease, Tensor, TensorSpec
from edge_agent.processes.arena import Arena
from edge_agent.serving.healing.samples import packed, packed_bytes, unpacked
from edge_agent.serving.threads import to_the_end
from edge_agent.serving.version import ServedVersion

_WAIT_S = 30.0  #: for tensor memory, which requests of others may have


class Asked(NamedTuple):
    """An answer: arrays by name, and how long the engine took."""

    outputs: Dict[str, Any]
    seconds: float


async def ask(version: ServedVersion, arena: Arena, inputs: Mapping[str, Any], deadline: float, keep: bool = True) -> Asked:
    """The version's answer. ArenaFull, PayloadTooLarge, ModelNotReady, ExecutionError, HostDied and so on.

    `deadline`: monotonic second; DeadlineExceeded. Without `keep` the outputs are not copied.
    """
    shapes = _shapes(version.inputs, inputs)
    sizes = [packed_bytes(spec.datatype, shape) for spec, shape in zip(version.inputs, shapes)]
    total = sum(_aligned(size) for size in sizes)
    wish = version.room_wish(total)
    leases = await arena.acquire([(version.segment, max(1, total)), *wish.wants], _WAIT_S)
    try:
        tensors = _placed(version.inputs, shapes, sizes, leases[0])
        await to_the_end(_write, tensors, inputs)
        room = wish.filled(leases[1:]) if len(leases) > 1 else None
        request = InferRequest(
            version.name, tuple(tensors), version.version, room=room, deadline=deadline, source="agent/verify"
        )
        response = await version.infer(request)
        try:
            outputs = await to_the_end(_read, response) if keep else {}
        finally:
            response.release()
        return Asked(outputs, response.timing.compute_us / 1e6)
    finally:
        for lease in leases:
            lease.release()


def _shapes(specs: Sequence[TensorSpec], inputs: Mapping[str, Any]) -> List[Tuple[int, ...]]:
    odd = sorted({spec.name for spec in specs}.symmetric_difference(inputs))
    if odd:
        raise errors.TensorMismatch("the inputs are %s, not %s" % (_names(spec.name for spec in specs), _names(inputs)))
    return [tuple(inputs[spec.name].shape) for spec in specs]


def _names(names: Any) -> str:
    return ", ".join("'%s'" % name for name in sorted(names))


def _aligned(size: int) -> int:
    return (size + 63) & ~63


def _placed(specs: Sequence[TensorSpec], shapes: Sequence[Tuple[int, ...]], sizes: Sequence[int], lease: Lease) -> List[Tensor]:
    tensors, at = [], 0
    for spec, shape, size in zip(specs, shapes, sizes):
        tensors.append(Tensor(spec.name, spec.datatype, shape, lease, at, size))
        at += _aligned(size)
    return tensors


def _write(tensors: Sequence[Tensor], inputs: Mapping[str, Any]) -> None:
    for tensor in tensors:
        array = inputs[tensor.name]
        try:
            tensor.view()[:] = packed(array, tensor.datatype)
        except (ValueError, TypeError) as error:  # of what a file has as numbers
            text = "input '%s' is %s, and %s cannot be made of that: %s"
            raise errors.EngineLoadError(text % (tensor.name, tensor.datatype.value, array.dtype, error)) from error


def _read(response: InferResponse) -> Dict[str, Any]:
    return {tensor.name: unpacked(tensor.view(), tensor.datatype, tensor.shape) for tensor in response.outputs}
