"""A parent for tests, killed by them: starts children under supervision for as long as it lives.

python agent_stand_in.py MARKER CHILDREN_DIR MODE COUNT; says `up` when all are up (and in the call that MODE names).
"""

from __future__ import annotations

import asyncio
import sys

from edge_agent.processes.child import Child, ChildSpec
from edge_agent.processes.supervisor import Supervisor


async def run(marker: str, directory: str, mode: str, count: int) -> None:
    async def up(child: Child) -> None:
        """No set-up."""

    supervisors = [
        Supervisor(
            ChildSpec("test:%d" % number, "obliging_child", args=(marker,), path=(directory,), silence_s=1000.0),
            up,
            lambda reason, reaped: None,
        )
        for number in range(count)
    ]
    for supervisor in supervisors:
        await supervisor.start()
    children = [await supervisor.wait_up(60.0) for supervisor in supervisors]
    calls = []
    if mode != "idle":
        calls = [asyncio.ensure_future(child.call(mode, {"s": 1000}, timeout_s=1000)) for child in children]
        await asyncio.sleep(0.2)  # until they are in it for certain
    sys.stdout.write("up %d\n" % len(children))
    sys.stdout.flush()
    await asyncio.gather(asyncio.sleep(1000), *calls)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
