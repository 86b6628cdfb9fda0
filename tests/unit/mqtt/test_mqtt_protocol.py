from __future__ import annotations

from edge_agent.mqtt.protocol import VersionChoice


def test_auto_begins_with_5_and_falls_back_where_the_broker_refuses_it() -> None:
    choice = VersionChoice("auto")
    assert choice.now == "5"
    assert choice.refused() is True
    assert choice.now == "3.1.1"
    assert choice.refused() is False, "there is nothing older to try at once"


def test_a_broker_that_hangs_up_is_asked_in_turns() -> None:
    choice = VersionChoice("auto")
    seen = []
    for _ in range(4):
        seen.append(choice.now)
        choice.hung_up()
    assert seen == ["5", "3.1.1", "5", "3.1.1"]


def test_a_lost_connection_begins_with_5_again() -> None:
    choice = VersionChoice("auto")
    choice.refused()
    choice.lost()
    assert choice.now == "5"


def test_a_configured_version_stays() -> None:
    for version in ("5", "3.1.1"):
        choice = VersionChoice(version)
        choice.hung_up()
        assert choice.refused() is False
        choice.lost()
        assert choice.now == version
