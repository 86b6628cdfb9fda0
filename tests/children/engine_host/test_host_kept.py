from edge_agent.engine_host.kept import KeptAnswers


def test_an_answer_is_taken_once():
    kept = KeptAnswers()
    kept.put(1, 0, "result", 10)
    assert kept.take(1, 0) == "result"
    assert kept.take(1, 0) is None
    assert kept.take(2, 0) is None


def test_the_oldest_goes_when_there_are_too_many():
    kept = KeptAnswers(max_answers=2)
    for batch in range(3):
        kept.put(batch, 0, batch, 1)
    assert (len(kept), kept.evicted) == (2, 1)
    assert [kept.take(batch, 0) for batch in range(3)] == [None, 1, 2]


def test_the_oldest_go_when_they_are_too_large_and_one_alone_may_be():
    kept = KeptAnswers(max_bytes=100)
    kept.put(1, 0, "huge", 1000)
    assert len(kept) == 1
    kept.put(2, 0, "small", 60)
    assert (len(kept), kept.evicted) == (1, 1)
    assert kept.take(2, 0) == "small"
    kept.put(3, 0, "a", 60)
    kept.put(4, 0, "b", 40)
    assert len(kept) == 2
