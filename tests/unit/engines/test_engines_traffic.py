from __future__ import annotations

from typing import List

from edge_agent.engines.traffic import Traffic


class Asker:
    """A model's batcher in short: sends a lone batch when it may, else ordinary ones while the host is open."""

    def __init__(self, traffic: Traffic, ran: List[str], name: str, lone: int = 0, ordinary: int = 0) -> None:
        self.traffic, self.ran, self.name, self.lone, self.ordinary = traffic, ran, name, lone, ordinary
        traffic.listen(self.pump)

    def pump(self) -> None:
        while self.traffic.open and (self.lone or (self.ordinary and self.traffic.held < 2)):
            if self.lone:
                if not self.traffic.may_run_alone(self.pump):
                    return
                self.lone -= 1
                self.ran.append(self.name + " alone")
                self.traffic.began(alone=True)
            else:
                self.ordinary -= 1
                self.ran.append(self.name)
                self.traffic.began(alone=False)


def test_an_empty_host_takes_a_lone_batch_and_nothing_beside_it():
    traffic = Traffic()
    assert traffic.may_run_alone(lambda: None)
    traffic.began(alone=True)
    assert not traffic.open
    traffic.ended()
    assert traffic.open


def test_a_host_with_batches_is_let_run_empty_and_then_the_one_who_asked_is_told():
    traffic = Traffic()
    told: List[str] = []
    traffic.listen(lambda: told.append("other"))
    traffic.began(alone=False)
    traffic.began(alone=False)

    def asker() -> None:
        told.append("asker")

    assert not traffic.may_run_alone(asker)
    assert not traffic.may_run_alone(asker)
    assert not traffic.open
    traffic.ended()
    assert told == []
    traffic.ended()
    assert told == ["asker", "other"]
    assert traffic.open


def test_a_model_with_much_to_do_does_not_starve_a_neighbours_lone_request():
    traffic = Traffic()
    ran: List[str] = []
    busy = Asker(traffic, ran, "busy", ordinary=100)
    patient = Asker(traffic, ran, "patient", lone=3)
    busy.pump()
    patient.pump()
    while patient.lone:
        assert traffic.held, ran
        traffic.ended()
        assert len(ran) < 20, ran
    assert ran.count("patient alone") == 3


def test_nobody_runs_alone_while_a_model_is_loaded_and_everybody_is_told_afterwards():
    traffic = Traffic()
    told: List[str] = []
    traffic.listen(lambda: told.append("told"))
    with traffic.load():
        with traffic.load():
            assert traffic.loading
            assert not traffic.may_run_alone(lambda: None)
        assert told == []
        assert traffic.open  # ordinary batches go on
    assert told == ["told"]
    assert not traffic.loading
    assert traffic.may_run_alone(lambda: None)


def test_the_end_of_a_loading_does_not_open_a_host_in_which_something_runs_alone():
    traffic = Traffic()
    traffic.began(alone=True)
    with traffic.load():
        pass
    assert not traffic.open


def test_a_host_that_ended_holds_nothing_and_nobody_waits_for_it():
    traffic = Traffic()
    told: List[str] = []
    traffic.began(alone=False)
    traffic.may_run_alone(lambda: told.append("told"))
    traffic.reset()
    assert (traffic.held, traffic.open) == (0, True)
    traffic.began(alone=False)
    traffic.ended()
    assert told == []


def test_a_host_in_which_a_model_waits_for_another_takes_batches_though_one_waits_to_run_alone():
    traffic, ran = Traffic(), []
    called = Asker(traffic, ran, "called", ordinary=1)
    called.ordinary = 0
    traffic.began(alone=False)  # the model that will call
    lone = Asker(traffic, ran, "lone", lone=1)
    lone.pump()
    assert not traffic.open
    called.ordinary = 1
    traffic.calls(7, True)
    assert ran == ["called"]
    traffic.ended()
    traffic.calls(7, False)
    assert not traffic.open
    traffic.ended()
    assert ran == ["called", "lone alone"]


def test_the_calls_of_a_host_end_with_it():
    traffic = Traffic()
    traffic.began(alone=False)
    traffic.may_run_alone(lambda: None)
    traffic.calls(7, True)
    traffic.reset()
    traffic.began(alone=True)
    assert not traffic.open
    traffic.calls(7, False)
