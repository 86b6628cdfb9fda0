"""`[hosts.NAME]`: the processes that engines run in."""

from __future__ import annotations

from pydantic import Field

from edge_agent.config.section import AutoInt, Section


class HostSection(Section):
    """One engine host: its interpreter, its share of the machine, its patience."""

    python: str = Field("", description="interpreter of this host's process; empty is the agent's own")
    threads: AutoInt = Field("auto", description="threads of one inference; auto leaves a core to the agent")
    batch_timeout_s: float = Field(10.0, gt=0, le=3600, description="a batch that takes longer counts as hung")
    load_timeout_s: float = Field(
        300.0, gt=0, le=86_400, description="a load, or the first run of a shape, that takes longer counts as hung"
    )
    memory_max_bytes: int = Field(
        0, ge=0, le=2**50, description="over this its process is started anew between two batches; 0: no bound"
    )
