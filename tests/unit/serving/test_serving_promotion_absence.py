from __future__ import annotations

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.serving.promotion.absence import AWAY_S, Absences, doubt_of, remembered, stand_in
from edge_agent.serving.promotion.choice import Choice
from edge_agent.serving.promotion.ledger import Record
from edge_agent.serving.promotion.refusal import Refusal

REFUSAL = Refusal("own:all", "model.stopped", "", "")


class Hands(Clock):
    """A clock that a test sets."""

    at = 100.0

    def monotonic(self):
        return self.at


@pytest.fixture
def hands():
    return Hands()


def test_what_was_never_up_is_not_waited_for(hands):
    absences = Absences(hands)
    assert absences.left_s("add", 1) == 0
    absences.look("add", [], [1])
    assert absences.left_s("add", 1) == 0


def test_what_was_up_is_waited_for_as_long_as_that_from_the_first_look_that_missed_it(hands):
    absences = Absences(hands)
    absences.look("add", [1], [1])
    hands.at += 1000
    assert absences.left_s("add", 1) == AWAY_S
    absences.look("add", [], [1])
    hands.at += AWAY_S - 1
    absences.look("add", [], [1])
    assert absences.left_s("add", 1) == 1
    hands.at += 1
    assert absences.left_s("add", 1) == 0


def test_what_came_up_between_two_looks_is_waited_for(hands):
    absences = Absences(hands)
    absences.look("add", [], [1])
    absences.came("add", 1)
    absences.look("add", [], [1])
    assert absences.left_s("add", 1) == AWAY_S


def test_what_was_back_meanwhile_is_waited_for_anew(hands):
    absences = Absences(hands)
    for up in ([1], [], [1]):
        absences.look("add", up, [1])
        hands.at += AWAY_S / 2
    absences.look("add", [], [1])
    assert absences.left_s("add", 1) == AWAY_S


@pytest.mark.parametrize("gone", [lambda absences: absences.forget("add"), lambda absences: absences.look("add", [2], [2])])
def test_what_was_taken_down_is_not_waited_for(hands, gone):
    absences = Absences(hands)
    absences.look("add", [1], [1])
    gone(absences)
    assert absences.left_s("add", 1) == 0


def test_what_stands_in_is_the_candidate_or_what_served_and_can():
    assert stand_in(Choice((1,), 1, 6), Record(1), [1, 6]) == 6
    assert stand_in(Choice((2,), 2), Record(1), [1, 2]) == 1
    assert stand_in(Choice((2,), 2), Record(1), [2]) is None
    assert stand_in(Choice((2,), 2, refused={1: REFUSAL}), Record(1), [1, 2]) is None
    assert stand_in(Choice((1,), 1), Record(1), [1]) is None


def test_what_takes_over_uncompared_does_not_count_as_the_active_one():
    record = remembered(Record(1, 5, answered=7), 6, Choice((1,), 1, 6), [1, 6], True)
    assert record == Record(1, 5, unjudged=6, answered=7)
    assert remembered(record, 1, Choice((1,), 1, 6), [1, 6], True) == Record(1, 5, answered=7)
    assert remembered(Record(1), 6, Choice((6,), 6), [6], True) == Record(1, unjudged=6)


@pytest.mark.parametrize(
    ("record", "choice", "compares"),
    [
        (Record(1, answered=7), Choice((2,), 2), False),
        (Record(1), Choice((2,), 2, refused={1: REFUSAL}), True),  # the other one was refused
        (Record(1, unjudged=6), Choice((2,), 2), True),
    ],
)
def test_what_the_policy_or_a_refusal_chose_is_the_active_one_and_the_other_the_way_back(record, choice, compares):
    assert remembered(record, 2, choice, [1, 2], compares) == Record(2, 1)


def test_the_first_one_is_the_active_one_and_no_way_back_leads_to_itself():
    assert remembered(Record(), 2, Choice((2,), 2), [2], True) == Record(2)
    assert remembered(Record(1, 2), 2, Choice((2,), 2), [1, 2], False) == Record(2, 1)
    assert remembered(Record(2, 2), 2, Choice((2,), 2), [2], False) == Record(2)


def test_doubts_are_of_what_nobody_judged_and_of_what_was_lost():
    assert doubt_of(Record(1)) == ("", "")
    assert doubt_of(Record(1, unjudged=6, unsure=True)) == (
        "model.unjudged",
        "version 6 serves uncompared, as version 1 cannot",
    )
    assert doubt_of(Record(1, unsure=True))[0] == "model.promotions_lost"
