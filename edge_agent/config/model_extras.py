"""The small tables of Triton's ModelConfig."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from pydantic import Field

from edge_agent.config.section import Section


class Parameter(Section):
    """A value that is handed to the model's own code."""

    string_value: str = Field("", description="the value")


class ResponseCache(Section):
    """Whether answers are kept for equal requests."""

    enable: bool = Field(False, description="answers are kept for equal requests")


class TransactionPolicy(Section):
    """How many answers a request has."""

    decoupled: bool = Field(False, description="any number of them")


class Operations(Section):
    """Libraries with operations of the model's own."""

    op_library_filename: Tuple[str, ...] = Field((), description="files of the libraries")


class RepositoryAgent(Section):
    """Something that looks at a model before it is loaded."""

    name: str = Field("", description="name of the agent")
    parameters: Dict[str, str] = Field(default_factory=dict, description="its settings")


class RepositoryAgents(Section):
    """All of them, in order."""

    agents: Tuple[RepositoryAgent, ...] = Field((), description="the agents in order")


class MetricIdentifier(Section):
    """The metric that a setting is for."""

    family: str = Field("", description="name of the metric")


class HistogramOptions(Section):
    """How a histogram is cut."""

    buckets: Tuple[float, ...] = Field((), description="upper bounds")


class MetricControl(Section):
    """A setting of one metric."""

    metric_identifier: Optional[MetricIdentifier] = Field(None, description="the metric")
    histogram_options: Optional[HistogramOptions] = Field(None, description="how its histogram is cut")


class ModelMetrics(Section):
    """Settings of the model's metrics."""

    metric_control: Tuple[MetricControl, ...] = Field((), description="settings by metric")
