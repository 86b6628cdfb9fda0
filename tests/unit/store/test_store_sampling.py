from __future__ import annotations

import pytest

from edge_agent.store.sampling import ROWS_PER_S, RequestSampler


def test_all_keeps_a_hundred_a_second_and_source_and_counts_the_rest_in_one_row(make_record):
    sampler = RequestSampler("all", 1.0)
    admitted = [sampler.admit(make_record(request_id="r%d" % i, total_us=i), False, 50.0) for i in range(130)]
    assert admitted == [True] * ROWS_PER_S + [False] * 30
    assert sampler.admit(make_record(source="http/other"), False, 50.0)
    assert sampler.rest(50.9) == []
    (row,) = sampler.rest(51.0)
    assert row.number == 30
    assert row.record.request_id == ""
    assert row.record.input_bytes == 30 * 1000
    assert row.record.model == "face"
    assert 100 <= row.record.total_us <= 129
    assert sampler.rest(51.0) == []
    assert not sampler.counting


def test_the_next_second_starts_anew(make_record):
    sampler = RequestSampler("all", 1.0)
    for _ in range(ROWS_PER_S):
        assert sampler.admit(make_record(), False, 10.0)
    assert not sampler.admit(make_record(), False, 10.5)
    sampler.rest(11.0)
    assert sampler.admit(make_record(), False, 11.0)


def test_a_counted_row_of_different_requests_says_so(make_record):
    sampler = RequestSampler("all", 1.0)
    for _ in range(ROWS_PER_S):
        sampler.admit(make_record(), False, 0.0)
    sampler.admit(make_record(), False, 0.0)
    sampler.admit(make_record(model="other", version="2", status="request.queue_full", error="full"), False, 0.0)
    (row,) = sampler.rest(0.1, final=True)
    assert (row.record.model, row.record.version, row.record.status, row.record.error) == ("*", "*", "mixed", "full")


@pytest.mark.parametrize(("policy", "sampled"), [("all", True), ("sampled", False), ("sampled", True)])
def test_sampled_requests_are_kept_at_the_rate_and_their_errors_always(make_record, policy, sampled):
    sampler = RequestSampler(policy, 2.0)
    admitted = [at / 10 for at in range(30) if sampler.admit(make_record(), sampled, at / 10)]
    assert admitted == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    assert sampler.admit(make_record(status="engine.error"), sampled, 2.6)
    assert sampler.rest(99.0) == []


def test_errors_keeps_errors_only_and_none_keeps_nothing(make_record):
    errors, none = RequestSampler("errors", 1.0), RequestSampler("none", 1.0)
    assert not errors.admit(make_record(), False, 0.0)
    assert errors.admit(make_record(status="request.invalid"), False, 0.0)
    assert not none.admit(make_record(status="request.invalid"), False, 0.0)
    assert not none.counting


def test_endless_new_sources_do_not_take_endless_memory(make_record):
    sampler = RequestSampler("all", 1.0)
    for i in range(5000):
        sampler.admit(make_record(source="http/%d" % i), False, 0.0)
    assert len(sampler._sources) <= 257
    (row,) = sampler.rest(1.0)
    assert row.record.source == "*"
    assert row.number == 5000 - 256 - ROWS_PER_S
    sampler.rest(100.0)
    assert len(sampler._sources) == 0
