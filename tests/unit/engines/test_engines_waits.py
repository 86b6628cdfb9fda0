from __future__ import annotations

from edge_agent.engines.waits import Waits


class Graph:
    """Instances named `model.number`, and who waits for what they hold."""

    def __init__(self, **models):
        self.waits = Waits()
        self.behind = {}
        for model, count in models.items():
            for number in range(count):
                name = "%s.%d" % (model, number)
                self.behind[name] = set()
                self.waits.join(name, model, lambda name=name: frozenset(self.behind[name]))

    def call(self, instance, model, runs_on=""):
        """The instance calls the model; its call is held by `runs_on`."""
        begun = self.waits.begin(instance, model)
        if begun and runs_on:
            self.behind[runs_on] |= {instance} | self.behind[instance]
        return begun


def test_a_chain_is_no_cycle():
    graph = Graph(a=1, b=1, c=1)
    assert graph.call("a.0", "b", "b.0")
    assert graph.call("b.0", "c", "c.0")
    assert graph.call("c.0", "an engine")


def test_a_call_to_itself_is_refused_unless_another_instance_is_free():
    assert not Graph(a=1).call("a.0", "a")
    graph = Graph(a=2)
    assert graph.call("a.0", "a", "a.1")
    assert not graph.call("a.1", "a")


def test_a_call_back_through_others_is_refused():
    graph = Graph(a=1, b=1, c=1)
    assert graph.call("a.0", "b", "b.0")
    assert graph.call("b.0", "c", "c.0")
    assert not graph.call("c.0", "a")
    assert graph.call("c.0", "d"), "what was refused does not count as waiting"


def test_two_models_that_call_each_other_for_different_requests_are_found():
    graph = Graph(a=1, b=1)
    assert graph.call("a.0", "b")  # queued behind b's own request
    assert not graph.call("b.0", "a")


def test_an_instance_that_is_free_does_not_help_one_whose_call_runs_elsewhere():
    graph = Graph(x=1, t=2)
    assert graph.call("x.0", "t", "t.0")
    assert not graph.call("t.0", "x"), "x waits for t.0, whatever t.1 does"


def test_a_wait_that_ended_blocks_nobody():
    graph = Graph(a=1, b=1)
    assert graph.call("a.0", "b")
    graph.waits.end("a.0", "b")
    assert graph.call("b.0", "a")
    graph.waits.end("b.0", "a")
    graph.waits.end("b.0", "a")


def test_several_calls_at_once_count_each():
    graph = Graph(a=1, b=1, c=1)
    assert graph.call("a.0", "b")
    assert graph.call("a.0", "c")
    assert not graph.call("b.0", "a")
    graph.waits.end("a.0", "b")
    assert graph.call("b.0", "a"), "a.0 waits for c alone"
    assert not graph.call("c.0", "a")


def test_who_has_left_is_not_waited_for_and_may_ask_whatever_it_likes():
    graph = Graph(a=1, b=1)
    assert graph.call("a.0", "b")
    graph.waits.leave("a.0")
    graph.waits.leave("a.0")
    assert graph.call("b.0", "a")
    assert graph.call("a.0", "b")
