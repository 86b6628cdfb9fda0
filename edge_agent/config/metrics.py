"""`[metrics]`: the port that Prometheus reads."""

from __future__ import annotations

from pydantic import Field

from edge_agent.config.section import Port, Section


class MetricsSection(Section):
    """Triton's metrics port beside the main one."""

    port: Port = Field(8002, description="port of /metrics (it is on http.port too); 0 turns this one off")
