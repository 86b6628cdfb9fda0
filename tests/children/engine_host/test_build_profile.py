import pytest

from edge_agent.engine_host.build import profile
from edge_agent.engine_host.build.profile import Input, Range
from edge_agent.engine_host.control import Refused

PICTURE = Input("images", (-1, 3, 64, 48), False)
ANY_PICTURE = Input("images", (-1, 3, -1, -1), False)
FIXED = Input("scale", (1, 4), False)
VALUES = Input("size", (2,), True)


def made(inputs, given=(), declared=None, largest=8, usual=0):
    return profile.profiles(inputs, given, declared or {}, largest, usual)


def refusal(*args, **fields):
    with pytest.raises(Refused) as refused:
        made(*args, **fields)
    assert refused.value.code == "build.no_profile"
    assert refused.value.detail == {"permanent": True}
    return refused.value.text


def test_a_batch_dimension_goes_from_one_to_the_largest_and_is_made_for_the_usual():
    assert made([PICTURE, FIXED], usual=4) == [{"images": Range((1, 3, 64, 48), (4, 3, 64, 48), (8, 3, 64, 48))}]


def test_without_a_usual_size_the_largest_is_the_one_it_is_made_for():
    assert made([PICTURE])[0]["images"].opt == (8, 3, 64, 48)


def test_a_usual_size_over_the_largest_counts_as_the_largest():
    assert made([PICTURE], usual=32)[0]["images"].opt == (8, 3, 64, 48)


def test_a_network_without_open_sizes_needs_no_profile():
    assert made([FIXED]) == []


def test_the_configured_sizes_fill_in_what_the_network_leaves_open_with_or_without_batch_dimension():
    wanted = [{"images": Range((1, 3, 32, 40), (8, 3, 32, 40), (8, 3, 32, 40))}]
    assert made([ANY_PICTURE], declared={"images": (3, 32, 40)}) == wanted
    assert made([ANY_PICTURE], declared={"images": (-1, 3, 32, 40)}) == wanted


def test_a_size_that_nobody_tells_is_refused_with_the_line_to_write():
    text = refusal([ANY_PICTURE])
    assert "input 'images' has shape [-1, 3, -1, -1]" in text
    assert "dimension 2 and 3" in text
    assert "profiles = [{ images = { min = [1, 3, 320, 320], opt = [8, 3, 640, 640], max = [8, 3, 1280, 1280] } }]" in text


def test_a_name_that_is_no_bare_key_is_quoted_in_the_line_to_write():
    assert '{ "images:0" = {' in refusal([Input("images:0", (-1, -1), False)])


def test_without_batch_dimension_the_first_size_must_be_told_too():
    assert "dimension 0" in refusal([PICTURE], largest=0)
    assert made([PICTURE], declared={"images": (2, 3, 64, 48)}, largest=0)[0]["images"].max == (2, 3, 64, 48)


def test_an_input_that_holds_a_shape_needs_given_values():
    assert "which values may come" in refusal([VALUES])
    given = [{"size": {"min": [8, 8], "opt": [16, 16], "max": [32, 32]}}]
    assert made([VALUES], given) == [{"size": Range((8, 8), (16, 16), (32, 32))}]


def test_configured_sizes_that_contradict_the_network_are_refused():
    assert "the configuration says [1, 64, 48]" in refusal([PICTURE], declared={"images": (1, 64, 48)})


def test_given_profiles_are_taken_as_they_are_and_may_leave_the_batch_dimension_out():
    whole = {"images": {"min": [1, 3, 32, 32], "opt": [2, 3, 64, 64], "max": [4, 3, 96, 96]}}
    short = {"images": {"min": [3, 32, 32], "opt": [3, 64, 64], "max": [3, 96, 96]}}
    assert made([ANY_PICTURE], [whole, short], usual=2) == [
        {"images": Range((1, 3, 32, 32), (2, 3, 64, 64), (4, 3, 96, 96))},
        {"images": Range((1, 3, 32, 32), (2, 3, 64, 64), (8, 3, 96, 96))},
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"picture": {"min": [1], "opt": [1], "max": [1]}}, "names the input 'picture', the model has 'images', 'scale'"),
        ({"images": {"min": [1, 3, 8, 8], "opt": [1, 3, 8, 8]}}, "needs min, opt and max"),
        ({"images": {"min": [1, 3, 8, 8], "opt": [1, 3, 4, 8], "max": [1, 3, 8, 8]}}, "min <= opt <= max"),
        ({"images": {"min": [-1, 3, 8, 8], "opt": [1, 3, 8, 8], "max": [1, 3, 8, 8]}}, "0 <= min"),
        ({"images": {"min": [1, 4, 8, 8], "opt": [1, 4, 8, 8], "max": [1, 4, 8, 8]}}, "does not fit it"),
        ({"images": {"min": [1, 8], "opt": [1, 8], "max": [1, 8]}}, "does not fit it"),
        ({"scale": {"min": [1, 4], "opt": [1, 4], "max": [1, 4]}}, "nobody says it in [build] profile 1"),
    ],
)
def test_a_given_profile_that_cannot_be_is_refused(given, said):
    assert said in refusal([ANY_PICTURE, FIXED], [given])


@pytest.mark.parametrize(
    ("asked", "inputs", "outputs", "largest"),
    [
        (16, [(-1, 4)], [(-1, 4)], 16),
        (0, [(-1, 4)], [(-1, 4)], 0),
        (None, [(-1, 4), (-1, 2)], [(-1, 4)], 4),
        (None, [(-1, 4)], [(4,)], 0),
        (None, [(-1, 4), ()], [(-1, 4)], 0),
    ],
)
def test_the_largest_batch_is_as_asked_or_four_where_all_tensors_leave_it_open(asked, inputs, outputs, largest):
    assert profile.batch_size(asked, inputs, outputs) == largest
