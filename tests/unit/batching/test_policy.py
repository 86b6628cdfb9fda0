from __future__ import annotations

import pytest

from edge_agent.batching.policy import MAX_QUEUE_SIZE, BatchPolicy, QueuePolicy
from edge_agent.errors import ConfigError


def test_a_policy_without_a_batch_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        BatchPolicy(0)


@pytest.mark.parametrize(
    ("default_us", "override", "asked_us", "wait_s"),
    [
        (0, False, 0, None),
        (0, False, 5_000_000, None),
        (0, True, 5_000_000, None),
        (2_000_000, False, 0, 2.0),
        (2_000_000, False, 1_000_000, 2.0),
        (2_000_000, True, 0, 2.0),
        (2_000_000, True, 1_000_000, 1.0),
        (2_000_000, True, 5_000_000, 2.0),
    ],
)
def test_a_request_may_only_shorten_its_wait_and_only_where_it_is_allowed_to(default_us, override, asked_us, wait_s):
    assert QueuePolicy(timeout_us=default_us, allow_override=override).wait_s(asked_us) == wait_s


@pytest.mark.parametrize(
    ("levels", "default", "asked", "level"),
    [(0, 1, 0, 1), (0, 1, 7, 1), (3, 2, 0, 2), (3, 2, 1, 1), (3, 2, 3, 3), (3, 2, 4, 2), (3, 2, 2**64 - 1, 2)],
)
def test_a_priority_of_zero_or_out_of_range_is_the_default(levels, default, asked, level):
    assert BatchPolicy(priority_levels=levels, default_priority_level=default).level_of(asked) == level


# -- from the config --------------------------------------------------------------------------------------------------


def test_without_a_table_nobody_waits_for_company():
    assert BatchPolicy.from_config(None, 8, 500) == BatchPolicy(8, max_requests=500)
    assert BatchPolicy.from_config(None, 0).max_batch_size == 1


def test_missing_keys_have_tritons_defaults():
    policy = BatchPolicy.from_config({}, 8)
    assert policy == BatchPolicy(8)
    assert policy.queue_policy(1) == QueuePolicy(MAX_QUEUE_SIZE, 0, False, False)


def test_the_whole_table_is_taken_over():
    own = {"max_queue_size": 5, "default_timeout_microseconds": 9, "allow_timeout_override": True, "timeout_action": "DELAY"}
    table = {
        "preferred_batch_size": (2, 8),
        "max_queue_delay_microseconds": 1500,
        "priority_levels": 3,
        "default_priority_level": 2,
        "default_queue_policy": {"max_queue_size": 7},
        "priority_queue_policy": {"3": own},
    }
    policy = BatchPolicy.from_config(table, 4)
    assert (policy.preferred_batch_sizes, policy.max_queue_delay_s) == ((2,), pytest.approx(0.0015))
    assert (policy.level_of(0), policy.level_of(3)) == (2, 3)
    assert policy.queue_policy(1) == policy.queue_policy(2) == QueuePolicy(7)
    assert policy.queue_policy(3) == QueuePolicy(5, 9, True, True)
    assert BatchPolicy.from_config({"preserve_ordering": True}, 4).preserve_ordering


@pytest.mark.parametrize(("action", "delays"), [("REJECT", False), (0, False), ("DELAY", True), (1, True)])
def test_the_timeout_action_is_a_name_or_its_number(action, delays):
    policy = BatchPolicy.from_config({"default_queue_policy": {"timeout_action": action}}, 4)
    assert policy.queue_policy(1).delays is delays


def test_policies_of_levels_do_not_count_without_levels():
    policy = BatchPolicy.from_config({"priority_queue_policy": {1: {"max_queue_size": 3}}}, 4)
    assert policy.queue_policy(1).max_queue_size == MAX_QUEUE_SIZE


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ({"priority_levels": 3}, "default_priority_level"),
        ({"priority_levels": 3, "default_priority_level": 4}, "default_priority_level"),
        ({"priority_levels": 2, "default_priority_level": 1, "priority_queue_policy": {3: {}}}, "priority_queue_policy.3"),
        ({"priority_levels": 2, "default_priority_level": 1, "preserve_ordering": True}, "preserve_ordering"),
        ({"default_queue_policy": {"timeout_action": "DELAY"}, "preserve_ordering": True}, "preserve_ordering"),
    ],
)
def test_keys_that_contradict_each_other_are_named(table, path):
    with pytest.raises(ConfigError, match="dynamic_batching.%s" % path):
        BatchPolicy.from_config(table, 8)
