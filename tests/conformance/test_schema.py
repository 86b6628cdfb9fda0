"""Requests made of the agent's own OpenAPI document, right and wrong ones: never a 5xx, never a wait, never a surprise."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Tuple

import pytest

from tests.agent_process import AgentProcess

EXAMPLES = 15  #: of each operation and phase
#: what answers 5xx because Triton's does: tracing and logging 503, regions and one repository of several 501, a load 500
BY_CONTRACT = r"/trace/setting|/v2/logging|/register|/v2/repository/\{repository\}/models|/v2/repository/models/\{model\}/load"


def _schemathesis() -> Path:
    try:
        found = metadata.version("schemathesis")
    except metadata.PackageNotFoundError:
        pytest.skip("schemathesis is not installed")
    if int(found.partition(".")[0]) < 4:
        pytest.skip("schemathesis %s: 4 is needed, which takes Python 3.10" % found)
    return Path(sys.executable).with_name("schemathesis")


def fuzzed(agent: AgentProcess, folder: Path, *options: str) -> Tuple[int, str]:
    """Exit code and words of one run."""
    command = [
        str(_schemathesis()), "run", agent.base + "/api/openapi.json", "--url", agent.base,
        "--max-examples", str(EXAMPLES), "--request-timeout", "10", "--phases", "examples,coverage,fuzzing",
        "--seed", "1", "--suppress-health-check", "all", "--warnings", "off", "--generation-database", "none",
        "--continue-on-failure", *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=220, cwd=str(folder), check=False)
    return done.returncode, done.stdout[-6000:] + done.stderr[-2000:]


def test_no_request_ends_with_a_server_error_or_without_an_answer(agent: AgentProcess, tmp_path: Path) -> None:
    code, said = fuzzed(agent, tmp_path, "--checks", "not_a_server_error", "--exclude-path-regex", BY_CONTRACT)
    assert code == 0, said
    assert agent.status()["http"]["unexpected_errors"] == 0, agent.log.read_text()[-4000:]
    assert agent.get("/v2/health/live")[0] == 200


def test_what_is_off_says_so_in_json_whatever_it_is_asked(agent: AgentProcess, tmp_path: Path) -> None:
    options = ("--checks", "content_type_conformance", "--include-path-regex", BY_CONTRACT)
    code, said = fuzzed(agent, tmp_path, *options)
    assert code == 0, said
    assert agent.status()["http"]["unexpected_errors"] == 0, agent.log.read_text()[-4000:]


def test_no_inference_request_to_a_model_that_is_there_ends_with_a_server_error(agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text('[parameters]\nmodel = "add_one"\nversion = "1"\n')
    options = ("--checks", "not_a_server_error", "--include-path-regex", r"\{model\}(/versions/\{version\})?/infer$")
    code, said = fuzzed(agent, tmp_path, *options, "--max-examples", "150")
    assert code == 0, said
    refused = [row for row in agent.json("/api/requests?limit=1000&model=add_one")["requests"] if row["status"] != "ok"]
    assert len(refused) > 20, said  # they came to the model's door, not to an unknown model's
    assert agent.status()["http"]["unexpected_errors"] == 0, agent.log.read_text()[-4000:]
