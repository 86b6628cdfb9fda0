"""Every error that crosses a room, one tree. It knows no HTTP (api/middleware.py has the table to statuses).

EdgeAgentError
    ConfigError               the configuration has faults; all of them at once
    RequestError              the caller's mistake
        InvalidRequest        malformed body, parameter, picture
        TensorMismatch        wrong name, datatype, shape or byte count
        ModelNotFound         unknown model or version
        PayloadTooLarge       body over the limit
        Unsupported           well-formed, but this agent does not do that
    UnavailableError          try again later (retryable)
        ModelNotReady         loading, failed or its host is down
        QueueFull             the model's queue is at its bound
        ArenaFull             no tensor memory within the time allowed
        DeadlineExceeded      the answer would have come too late
        Draining              the agent is stopping
        ControlRefused        loading by request is not allowed in this control mode
    EngineError               the engine's side
        EngineLoadError       a model could not be loaded
        BuildFailed           no TensorRT plan could be made; each has a code of its own
        ExecutionError        a run failed
        HostDied              the host ended while it ran this request alone
    ChildError                a child process
        ChildGone             it ended, or its channel did
        ChildTimeout          it did not answer in time
        ChildRefused          it answered with an error
    AccessError               the caller may not
        Unauthenticated       no token, or a wrong one
        Forbidden             a token whose role does not allow this
    CameraError               SourceUnavailable: no picture to be had
    BrokerError               MQTT connection or publish
        PublishRefused        the broker does not take this message, now or later
    ListenError               an address that the agent should serve cannot be had
    StoreError                the database
        StoreFull             no room on disk for the row
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, ClassVar, Dict, Mapping, Sequence, Tuple


class EdgeAgentError(Exception):
    """Something went wrong in the agent."""

    code: str = "agent.error"
    retryable: ClassVar[bool] = False

    def __init__(self, text: str = "", **args: Any) -> None:
        super().__init__(text or (self.__doc__ or "").strip())
        self.args_by_name: Dict[str, Any] = args


class ConfigError(EdgeAgentError):
    """The configuration has faults."""

    code = "config.rejected"

    def __init__(self, faults: Sequence[Tuple[str, str, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "\n".join(("%s: %s (%s)" if cure else "%s: %s%s") % (path, wrong, cure) for path, wrong, cure in self.faults)
        )


class RequestError(EdgeAgentError):
    """The request cannot be served as it is."""

    code = "request.invalid"


class InvalidRequest(RequestError):
    """The request is malformed."""


class TensorMismatch(RequestError):
    """A tensor does not fit the model."""

    code = "request.tensor_mismatch"


class ModelNotFound(RequestError):
    """No such model or version."""

    code = "request.unknown_model"


class PayloadTooLarge(RequestError):
    """The body is over the limit."""

    code = "request.too_large"


class Unsupported(RequestError):
    """This agent does not do that."""

    code = "request.unsupported"


class UnavailableError(EdgeAgentError):
    """Not possible now; try again later."""

    code = "request.unavailable"
    retryable = True


class ModelNotReady(UnavailableError):
    """The model is not ready."""

    code = "request.model_not_ready"


class QueueFull(UnavailableError):
    """Exceeds maximum queue size."""

    code = "request.queue_full"


class ArenaFull(UnavailableError):
    """No tensor memory is free."""

    code = "request.arena_full"


class DeadlineExceeded(UnavailableError):
    """Request timeout expired."""

    code = "request.deadline"


class Draining(UnavailableError):
    """Server exiting."""

    code = "request.draining"


class ControlRefused(UnavailableError):
    """Explicit model load / unload is not allowed."""

    code = "request.control_mode"
    retryable = False


class EngineError(EdgeAgentError):
    """The engine failed."""

    code = "engine.error"


class EngineLoadError(EngineError):
    """The model could not be loaded."""

    code = "model.load_failed"


class BuildFailed(EngineError):
    """No plan could be built; `permanent`: another try of the same cannot help."""

    code = "build.failed"

    def __init__(self, text: str, code: str = "build.failed", permanent: bool = False, **args: Any) -> None:
        super().__init__(text, **args)
        self.code = code
        self.permanent = permanent


class ExecutionError(EngineError):
    """The model failed on this request."""

    code = "engine.execution_failed"


class HostDied(EngineError):
    """The engine host ended while it ran this request."""

    code = "engine_host.died"


class ChildError(EdgeAgentError):
    """A child process did not do what was asked."""

    code = "child.error"


class ChildGone(ChildError):
    """The child ended."""

    code = "child.gone"


class ChildTimeout(ChildError):
    """The child did not answer in time."""

    code = "child.silent"


class ChildCannotStart(ChildTimeout):
    """The child ends before its first word, or has no process at all; it is tried again meanwhile."""

    code = "child.cannot_start"


class ChildRefused(ChildError):
    """The child answered with an error; `refusal` is its code."""

    code = "child.refused"

    def __init__(self, text: str, refusal: str = "", detail: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(text)
        self.refusal = refusal
        self.detail = dict(detail)


class AccessError(EdgeAgentError):
    """Access denied."""

    code = "access.denied"


class Unauthenticated(AccessError):
    """A token is needed."""


class Forbidden(AccessError):
    """This token does not allow that."""


class CameraError(EdgeAgentError):
    """The camera cannot be used."""

    code = "camera.unreachable"


class SourceUnavailable(CameraError):
    """The source gives no picture."""


class BrokerError(EdgeAgentError):
    """The MQTT broker cannot be used."""

    code = "mqtt.unreachable"


class PublishRefused(BrokerError):
    """The broker does not take this message."""

    code = "mqtt.refused"


class ListenError(EdgeAgentError):
    """The agent cannot listen there."""

    code = "http.port_taken"


class StoreError(EdgeAgentError):
    """The database failed."""

    code = "store.failed"


class StoreFull(StoreError):
    """No room on disk."""

    code = "store.full"
