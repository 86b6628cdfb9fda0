from __future__ import annotations

from edge_agent.mqtt.subscriptions import Subscriptions


def wanted() -> Subscriptions:
    subscriptions = Subscriptions()
    subscriptions.want("a/#", 1)
    subscriptions.want("b", 0)
    return subscriptions


def test_nothing_wanted_is_complete_and_never_due() -> None:
    assert Subscriptions().complete
    assert not Subscriptions().due(1e9)


def test_a_new_connection_asks_at_once_and_is_complete_when_all_are_answered() -> None:
    subscriptions = wanted()
    assert subscriptions.due(0.0)
    subscriptions.asked(5, subscriptions.filters(), 0.0)
    assert not subscriptions.complete
    subscriptions.answered(9, ["", ""])
    assert not subscriptions.complete, "an answer to something else"
    subscriptions.answered(5, ["", ""])
    assert subscriptions.complete
    subscriptions.forget_answers()
    assert subscriptions.due(1.0)


def test_granted_subscriptions_are_renewed_within_minutes_so_that_no_broker_leaves_us_deaf() -> None:
    subscriptions = wanted()
    subscriptions.asked(5, subscriptions.filters(), 0.0)
    subscriptions.answered(5, ["", ""])
    assert not subscriptions.due(239.0)
    assert subscriptions.due(240.0)
    subscriptions.asked(6, subscriptions.filters(), 240.0)
    assert subscriptions.complete, "a renewal takes nothing away"


def test_a_refused_one_is_named_asked_again_soon_and_forgiven_when_granted() -> None:
    subscriptions = wanted()
    subscriptions.asked(5, subscriptions.filters(), 0.0)
    subscriptions.answered(5, ["Not authorized", ""])
    assert subscriptions.refused == {"a/#": "Not authorized"}
    assert subscriptions.due(20.0)
    subscriptions.asked(6, subscriptions.filters(), 20.0)
    subscriptions.answered(6, ["", ""])
    assert subscriptions.refused == {}


def test_one_that_is_never_answered_is_asked_again_soon() -> None:
    subscriptions = wanted()
    subscriptions.asked(5, subscriptions.filters(), 0.0)
    assert not subscriptions.due(19.0)
    assert subscriptions.due(20.0)
