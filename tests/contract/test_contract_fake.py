"""The fake TensorRT has no name, number or keyword that the real one of the same version lacks."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict

import pytest
from name_lists import FOLDER, load

from tests.fake_gpu import gpu_python

GENERATIONS = sorted(path.stem for path in FOLDER.glob("*.json"))
MADE_BY_CALLERS = ("Builder.__init__", "Runtime.__init__", "OnnxParser.__init__", "Logger.__init__")
INTROSPECT = Path(__file__).parent / "introspect.py"


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the fake of a version tells of itself."""

    @lru_cache(maxsize=None)
    def tell(version: str) -> Dict[str, Any]:
        python = gpu_python(tmp_path_factory.mktemp("fake"), version=version)
        document: Dict[str, Any] = json.loads(subprocess.check_output([python, "-I", str(INTROSPECT), "tensorrt"], timeout=60))
        return document

    return tell


@pytest.mark.parametrize("version", GENERATIONS)
def test_the_fake_has_no_name_that_the_real_one_lacks(version: str, fake: Any) -> None:
    real, found = load(version), fake(version)
    assert set(found["names"]) <= set(real["names"])
    for name, members in found["classes"].items():
        listed = {*real["classes"][name], *real["enums"].get(name, ()), "__init__"}
        if name in real["enums"]:
            listed |= {"name", "value"}
        assert set(members) <= listed, name
    for name, numbers in found["enums"].items():
        assert numbers == real["enums"][name], name


@pytest.mark.parametrize("version", GENERATIONS)
def test_the_fake_takes_the_keywords_of_the_real_one_in_its_order(version: str, fake: Any) -> None:
    real, found = load(version), fake(version)
    for name, members in found["classes"].items():
        for member, keywords in members.items():
            listed = real["classes"][name].get(member)
            if keywords is None or listed is None or (member.startswith("_") and f"{name}.{member}" not in MADE_BY_CALLERS):
                continue
            assert keywords == [word for word in listed if word in keywords], f"{name}.{member}"
    for name, keywords in found["functions"].items():
        assert keywords == real["functions"][name], name


BETWEEN = (
    ("8.0.1.6", "8.2"),
    ("8.2.1.8", "8.2"),
    ("8.4.1", "8.2"),
    ("8.6.2", "8.6.1"),
    ("10.3.0.26", "10.3.0"),
    ("10.7.0", "10.3.0"),
    ("11.4.1", "11.4.0"),
)


@pytest.mark.parametrize(("asked", "stands_for"), BETWEEN)
def test_a_version_between_is_the_last_known_one_before_it(asked: str, stands_for: str, fake: Any) -> None:
    assert fake(asked)["names"] == fake(stands_for)["names"]
