"""The addresses under /v2."""

from __future__ import annotations

from typing import Iterator, List, Mapping, Type

from edge_agent import errors
from edge_agent.access.roles import Permission
from edge_agent.api import disabled
from edge_agent.api.bodies import BodyMemory
from edge_agent.api.infer import InferHandler
from edge_agent.api.repository import RepositoryHandlers
from edge_agent.api.route import JSON, Route
from edge_agent.api.services import Services
from edge_agent.api.v2 import KserveHandlers

Statuses = Mapping[Type[Exception], int]

#: as Triton answers, where it differs from the one table
_TOO_LARGE: Statuses = {errors.PayloadTooLarge: 400}
_UNKNOWN_IN_STATISTICS: Statuses = {errors.ModelNotFound: 400}
_UNKNOWN_IN_LOAD: Statuses = {errors.ModelNotFound: 500, errors.PayloadTooLarge: 400}


def kserve_routes(services: Services, memory: BodyMemory, repository: RepositoryHandlers) -> List[Route]:
    """KServe v2 and Triton's extensions of it."""
    kserve, infer = KserveHandlers(services), InferHandler(services, memory)
    return [
        Route("GET", "/v2", kserve.server, Permission.INFER, "Server metadata"),
        Route("GET", "/v2/health/live", kserve.live, None, "Whether the process answers"),
        Route("GET", "/v2/health/ready", kserve.ready, None, "Whether models are loaded"),
        Route("GET", "/v2/models/stats", kserve.statistics, Permission.METRICS, "Statistics of all models"),
        *_of_model("/v2/models/{model}", kserve, infer),
        *_of_model(r"/v2/models/{model}/versions/{version:\d+}", kserve, infer),
        *_repository(repository),
        *_disabled(),
    ]


def _of_model(base: str, kserve: KserveHandlers, infer: InferHandler) -> Iterator[Route]:
    yield Route("GET", base, kserve.model, Permission.INFER, "Model metadata")
    yield Route("GET", base + "/ready", kserve.model_ready, Permission.INFER, "Whether the model takes requests")
    yield Route("GET", base + "/config", kserve.model_config, Permission.INFER, "Model configuration")
    yield Route(
        "GET", base + "/stats", kserve.statistics, Permission.METRICS, "Model statistics", statuses=_UNKNOWN_IN_STATISTICS
    )
    yield Route(
        "POST", base + "/infer", infer.infer, Permission.INFER, "Inference, JSON or binary tensors",
        takes=(JSON, "application/octet-stream"), body="InferRequest", statuses=_TOO_LARGE,
    )  # fmt: skip


def _repository(handlers: RepositoryHandlers) -> Iterator[Route]:
    models, elsewhere = "/v2/repository/models/{model}", "/v2/repository/{repository}/models/{model}"
    for path in ("/v2/repository/index", "/v2/repository/{repository}/index"):
        yield Route(
            "POST",
            path,
            handlers.index,
            Permission.STATUS,
            "Every model with its state",
            takes=(JSON,),
            body="IndexRequest",
            body_required=False,
        )
    yield Route(
        "POST", models + "/load", handlers.load, Permission.MODELS, "Loads a model",
        takes=(JSON,), body="LoadRequest", body_required=False, statuses=_UNKNOWN_IN_LOAD,
    )  # fmt: skip
    yield Route(
        "POST", models + "/unload", handlers.unload, Permission.MODELS, "Takes a model down",
        takes=(JSON,), body="UnloadRequest", body_required=False, statuses=_TOO_LARGE,
    )  # fmt: skip
    for verb in ("/load", "/unload"):
        yield Route("POST", elsewhere + verb, handlers.elsewhere, Permission.MODELS, "Not supported, as in Triton")


def _disabled() -> Iterator[Route]:
    for path in ("/v2/trace/setting", "/v2/models/{model}/trace/setting"):
        yield Route("GET", path, disabled.tracing, Permission.STATUS, "Trace settings: disabled")
        yield Route("POST", path, disabled.tracing, Permission.CONFIG, "Trace settings: disabled")
    yield Route("GET", "/v2/logging", disabled.logging, Permission.STATUS, "Log settings: disabled")
    yield Route("POST", "/v2/logging", disabled.logging, Permission.CONFIG, "Log settings: disabled")
    for base in ("/v2/systemsharedmemory", "/v2/cudasharedmemory"):
        of_one = base + "/region/{region}"
        yield Route("GET", base + "/status", disabled.regions, Permission.INFER, "Shared memory regions: none")
        yield Route("GET", of_one + "/status", disabled.region, Permission.INFER, "A shared memory region: none")
        yield Route("POST", of_one + "/register", disabled.register, Permission.INFER, "Shared memory: disabled")
        for path in (base, of_one):
            yield Route("POST", path + "/unregister", disabled.unregister, Permission.INFER, "Shared memory: nothing to end")
