import pytest

from edge_agent.engine_host.tensors import Spec
from edge_agent.engine_host.trt import profiles
from edge_agent.engine_host.trt.profiles import Profile


def profile(index, low, usual, high):
    return Profile(index, {"x": ((low, 4), (usual, 4), (high, 4))})


SMALL, LARGE, SAME = profile(0, 1, 1, 1), profile(1, 1, 4, 8), profile(2, 1, 4, 8)


@pytest.mark.parametrize(
    ("rows", "current", "index"),
    [(1, None, 0), (1, 1, 0), (2, None, 1), (8, None, 1), (8, 2, 2), (9, None, None), (0, None, None)],
)
def test_the_smallest_profile_that_fits_is_picked_and_of_equals_the_current_one(rows, current, index):
    assert profiles.pick([SMALL, LARGE, SAME], {"x": (rows, 4)}, current) == index


def test_other_sizes_than_rows_count_too():
    assert profiles.pick([SMALL, LARGE], {"x": (2, 5)}) is None
    assert profiles.pick([SMALL, LARGE], {"x": (2,)}) is None


def test_why_no_profile_fits_names_the_input_and_what_is_taken():
    text = profiles.why_not([SMALL, LARGE], {"x": (9, 4)})
    assert text == "input 'x' has shape [9, 4], the plan takes [1, 4] or [1, 4] to [8, 4]"


def test_of_several_inputs_the_one_that_does_not_fit_is_named():
    two = Profile(0, {"x": ((1, 4), (1, 4), (8, 4)), "y": ((1,), (1,), (8,))})
    assert "input 'y' has shape [9]" in profiles.why_not([two], {"x": (8, 4), "y": (9,)})


def test_rows_are_added_where_a_batch_falls_between_profiles_and_nowhere_else():
    gap = [profile(0, 1, 1, 1), profile(1, 4, 4, 8), profile(2, 6, 6, 16)]
    assert profiles.pad(gap, {"x": (2, 4)}) == (1, 4)
    assert profiles.pad(gap, {"x": (17, 4)}) is None
    assert profiles.pad(gap, {"x": (2, 5)}) is None


def test_the_rows_worth_a_warm_up_are_those_of_the_profiles():
    assert profiles.rows([profile(0, 1, 2, 4), profile(1, 1, 6, 8)]) == [1, 2, 4, 6, 8]


def test_usual_sizes_stand_for_those_that_the_model_leaves_open():
    one = Profile(0, {"x": ((1, 3, 32, 32), (2, 3, 64, 48), (8, 3, 128, 128))})
    open_ = [Spec("x", "FP32", (-1, 3, -1, -1))]
    assert profiles.usual_shapes([one], open_, 5) == {"x": (5, 3, 64, 48)}
    assert profiles.usual_shapes([one], [Spec("x", "FP32", (-1, 3, 96, -1))], 5) == {"x": (5, 3, 96, 48)}
    assert profiles.usual_shapes([one], open_, 9) is None
    assert profiles.usual_shapes([one], open_, None) == {"x": (2, 3, 64, 48)}
