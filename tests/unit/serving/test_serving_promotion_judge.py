from __future__ import annotations

import pytest

from edge_agent.config.optimization import AcceptConfig
from edge_agent.serving.promotion.judge import Aims, Judge

AIMS = Aims(100, 0.9)


def judged(aims, pairs):
    """Whether it was good, after how many requests, and why."""
    judge = Judge(aims)
    for pair in pairs:
        if pair is None:
            judge.failed("boom")
        else:
            judge.compare(*pair)
        verdict = judge.verdict()
        if verdict is not None:
            return verdict.good, judge.compared, verdict.reason
    return None, judge.compared, ""


def same(ms=10.0, serving_ms=10.0, alone=True):
    return (1.0, ms, serving_ms, alone)


OTHER = (0.0, 10.0, 10.0, True)


def test_what_agrees_and_is_as_fast_is_good_after_as_many_requests_as_are_asked():
    assert judged(AIMS, [same()] * 200)[:2] == (True, 100)
    assert judged(AIMS, [same()] * 99)[:2] == (None, 99)


def test_what_can_not_agree_enough_any_more_is_refused_at_once():
    good, after, reason = judged(AIMS, [OTHER] * 200)
    assert (good, after) == (False, 11)
    assert reason == "it agreed to 0.0 % on 11 requests, 90.0 % of 100 are asked"
    assert judged(AIMS, [same()] * 80 + [OTHER] * 11)[:2] == (False, 91)


def test_exactly_as_much_agreement_as_is_asked_is_enough():
    assert judged(AIMS, [OTHER] * 10 + [same()] * 90)[:2] == (True, 100)
    assert judged(AIMS, [(0.9, 10.0, 10.0, True)] * 100)[:2] == (True, 100)
    assert judged(Aims(10, 1.0), [same()] * 10)[:2] == (True, 10)
    assert judged(Aims(10, 1.0), [same()] * 9 + [(0.99, 1.0, 1.0, True)])[:2] == (False, 10)


def test_the_third_error_refuses_whatever_else_agreed():
    good, after, reason = judged(AIMS, [same()] * 50 + [None, same(), None, same(), None])
    assert (good, after) == (False, 55)
    assert reason == "it failed on 3 of 55 requests; last: boom"
    assert judged(Aims(100, 0.0), [None] * 3)[0] is False


def test_one_error_is_a_request_on_which_they_do_not_agree():
    good, after, reason = judged(Aims(4, 1.0), [same(), None])
    assert (good, after) == (False, 2)
    assert "last error: boom" in reason
    assert judged(AIMS, [None] + [same()] * 99)[0] is True


def test_twice_the_time_is_allowed_and_more_is_not():
    assert judged(AIMS, [same(19.9)] * 100)[0] is True
    good, after, reason = judged(AIMS, [same(20.5)] * 100)
    assert (good, after) == (False, 100)
    assert reason == "95 of 100 of its runs take up to 20.5 ms, those of the version that serves 10.0 ms"


def test_a_small_difference_in_time_is_noise():
    assert judged(AIMS, [same(4.5, 0.1)] * 100)[0] is True
    assert judged(AIMS, [same(5.5, 0.1)] * 100)[0] is False


def test_five_slow_runs_of_a_hundred_do_not_count():
    assert judged(AIMS, [same(500.0)] * 5 + [same()] * 95)[0] is True
    assert judged(AIMS, [same(500.0)] * 6 + [same()] * 94)[0] is False


def test_a_limit_in_milliseconds_counts_instead_of_the_other_ones_time():
    limited = Aims(100, 0.9, 30.0)
    assert judged(limited, [same(29.0, 1.0)] * 100)[0] is True
    good, after, reason = judged(limited, [same(31.0, 100.0)] * 100)
    assert (good, after) == (False, 6)
    assert reason == "6 of its 6 runs took more than max_p95_ms, 30 ms"
    assert judged(limited, [same(31.0)] * 5 + [same()] * 95)[0] is True


def test_requests_that_the_other_ran_in_company_tell_the_time_only_where_there_are_no_others():
    in_company = same(30.0, 80.0, alone=False)
    assert judged(AIMS, [in_company] * 90 + [same(30.0, 10.0)] * 10)[0] is False
    assert judged(AIMS, [in_company] * 91 + [same(30.0, 10.0)] * 9)[0] is True


def test_the_figures_are_those_of_the_verdict():
    judge = Judge(Aims.of(AcceptConfig(shadow_requests=50, min_agreement=0.8)))
    assert judge.as_json() == {
        "compared": 0, "wanted": 50, "agreement": None, "p95_ms": None, "serving_p95_ms": None, "errors": 0
    }  # fmt: skip
    judge.compare(1.0, 2.0, 1.0, True)
    judge.failed("boom")
    assert judge.as_json() == {
        "compared": 2, "wanted": 50, "agreement": 0.5, "p95_ms": 2.0, "serving_p95_ms": 1.0, "errors": 1
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21])
def test_a_few_requests_are_enough_where_no_more_are_asked(count):
    assert judged(Aims(count, 0.9), [same()] * count)[:2] == (True, count)
