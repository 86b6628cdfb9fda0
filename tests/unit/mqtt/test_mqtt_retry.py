from __future__ import annotations

import random
import ssl

import pytest

from edge_agent.mqtt.options import BrokerOptions
from edge_agent.mqtt.retry import LinkEnd, Retry


class NoJitter(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return b


OPTIONS = BrokerOptions(host="broker.example", port=1884, client_id="agent", password="secret")


def retry() -> Retry:
    return Retry(OPTIONS, NoJitter())


@pytest.mark.parametrize(
    ("end", "code", "word"),
    [
        (LinkEnd(cause=ConnectionRefusedError("refused")), "mqtt.unreachable", "refused"),
        (LinkEnd(cause=TimeoutError()), "mqtt.unreachable", "TimeoutError"),
        (LinkEnd(cause=ssl.SSLCertVerificationError("self signed")), "mqtt.tls_failed", "self signed"),
        (LinkEnd(cause=UnicodeError("label too long")), "mqtt.unreachable", "label too long"),
        (LinkEnd(refusal=(0x86, "Bad user name or password")), "mqtt.not_authorized", "Bad user"),
        (LinkEnd(refusal=(0x87, "Not authorized")), "mqtt.not_authorized", "Not authorized"),
        (LinkEnd(refusal=(0x85, "Client identifier not valid")), "mqtt.refused", "identifier"),
        (LinkEnd(refusal=(0x88, "Server unavailable")), "mqtt.refused", "unavailable"),
        (LinkEnd(), "mqtt.unreachable", "closed"),
        (LinkEnd(lived_s=100.0, thrown_out=True), "mqtt.unreachable", "closed"),
        (LinkEnd(lived_s=100.0, given_up="silent for 46 s"), "mqtt.unreachable", "46 s"),
    ],
)
def test_each_end_has_its_code_and_words(end: LinkEnd, code: str, word: str) -> None:
    ending = retry().after(end)
    assert ending.delay_s == 0.5
    assert ending.failure is not None
    assert ending.failure.code == code
    assert (ending.failure.args["host"], ending.failure.args["port"]) == ("broker.example", 1884)
    assert word in str(ending.failure)


def test_a_version_refused_is_no_failure_and_the_next_one_is_tried_at_once() -> None:
    choice = retry()
    ending = choice.after(LinkEnd(refusal=(0x84, "Unsupported protocol version")))
    assert (ending.delay_s, ending.failure, choice.version) == (0.0, None, "3.1.1")
    again = choice.after(LinkEnd(refusal=(0x84, "Unsupported protocol version")))
    assert again.delay_s > 0
    assert again.failure is not None


def test_a_dead_network_does_not_change_the_version_but_a_broker_that_hangs_up_does() -> None:
    choice = retry()
    choice.after(LinkEnd(cause=ConnectionRefusedError()))
    choice.after(LinkEnd(refusal=(0x87, "Not authorized")))
    choice.after(LinkEnd(given_up="the broker did not answer in time"))
    assert choice.version == "5"
    choice.after(LinkEnd())
    assert choice.version == "3.1.1"


def test_a_session_that_kills_the_network_thread_three_times_is_given_up_once() -> None:
    choice = retry()
    for _ in range(3):
        assert not choice.fresh
        choice.after(LinkEnd(lived_s=0.1, cause=ValueError("malformed")))
    assert choice.fresh
    choice.after(LinkEnd(lived_s=100.0, thrown_out=True))
    assert not choice.fresh


def test_three_short_lives_are_told_as_a_second_client() -> None:
    choice = retry()
    codes = []
    for _ in range(3):
        failure = choice.after(LinkEnd(lived_s=0.5, thrown_out=True)).failure
        assert failure is not None
        codes.append(failure.code)
    assert codes == ["mqtt.unreachable", "mqtt.unreachable", "mqtt.client_id_taken"]
