"""edge-agent as one of the peers: takes their arguments, becomes the agent."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import agent_folder


def main() -> None:
    """Writes a folder under the current one and runs the agent there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--delay-us", type=int, default=0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="edge-agent-", dir="."))
    config = agent_folder.make(folder.resolve(), args.name, args.model, args.port, args.batch, args.delay_us)
    command = agent_folder.command(config)
    os.execve(command[0], command, agent_folder.environment())


if __name__ == "__main__":
    main()
