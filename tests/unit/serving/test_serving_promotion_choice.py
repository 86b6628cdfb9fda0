from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.config.model_config import ModelConfig
from edge_agent.serving.promotion.choice import choose
from edge_agent.serving.promotion.ledger import Record
from edge_agent.serving.promotion.refusal import Refusal
from edge_agent.serving.repository import ModelEntry, VersionEntry


def refused(*numbers):
    return {number: Refusal("own:all", "model.shadow_rejected", "", "") for number in numbers}


def chosen(on_disk, record, accept=True, held=None, **policy):
    config = ModelConfig.model_validate({"version_policy": policy, **({"accept": {}} if accept else {})}, strict=False)
    versions = tuple(VersionEntry(number, "onnxruntime_onnx", Path("/m/%d/model.onnx" % number)) for number in on_disk)
    entry = ModelEntry("m", Path("/m"), config, (), on_disk=versions)
    choice = choose(entry, record, held)
    return choice.serve, choice.main, choice.candidate


def test_without_accept_the_newest_serves_at_once():
    assert chosen([1, 2], Record(1), accept=False) == ((2,), 2, None)


def test_with_accept_the_newest_is_compared_with_the_one_that_serves():
    assert chosen([1, 2], Record(1)) == ((1,), 1, 2)
    assert chosen([1, 2, 3], Record(1)) == ((1,), 1, 3)
    assert chosen([1, 2], Record(2, 1)) == ((2,), 2, None)


@pytest.mark.parametrize("record", [Record(), Record(7)])
def test_where_none_served_or_it_is_gone_the_newest_serves_at_once(record):
    assert chosen([1, 2], record) == ((2,), 2, None)


@pytest.mark.parametrize("accept", [True, False])
def test_a_refused_version_is_neither_served_nor_compared(accept):
    assert chosen([1, 2], Record(1, refused=refused(2)), accept) == ((1,), 1, None)
    assert chosen([1, 2], Record(refused=refused(2)), accept) == ((1,), 1, None)
    assert chosen([2], Record(refused=refused(2)), accept) == ((), None, None)


def test_a_refused_version_that_is_away_hinders_nobody():
    assert chosen([1, 2], Record(1, refused=refused(3))) == ((1,), 1, 2)
    assert chosen([1, 2], Record(1, refused=refused(3)), accept=False) == ((2,), 2, None)


def test_a_version_that_serves_from_memory_is_what_others_are_compared_with():
    assert chosen([2], Record(1)) == ((2,), 2, None)
    assert chosen([2], Record(1), held=1) == ((1,), 1, 2)


def test_the_next_one_below_a_refused_version_is_compared():
    assert chosen([1, 2, 3], Record(1, refused=refused(3))) == ((1,), 1, 2)


def test_of_many_that_serve_only_the_newest_is_compared():
    assert chosen([1, 2, 3], Record(2), all={}) == ((1, 2), 2, 3)
    assert chosen([1, 2, 3], Record(2), latest={"num_versions": 2}) == ((1, 2), 2, 3)
    assert chosen([1, 2, 3], Record(3), all={}) == ((1, 2, 3), 3, None)


def test_versions_that_are_named_are_those_that_serve():
    assert chosen([1, 2, 3], Record(1), specific={"versions": [1, 3]}) == ((1,), 1, 3)
    assert chosen([1, 2, 3], Record(1), specific={"versions": [2]}) == ((2,), 2, None)
