from __future__ import annotations

import os

import pytest

from edge_agent.engines.build_watch import BuildLimits, BuildWatch, Sign, available_bytes, below_floor, cpu_seconds, shortage

MIB = 1 << 20
FLOOR = 256 * MIB
PLENTY = 4096 * MIB


def verdict(looks, limits=None, floor=FLOOR):
    """(second, code) at which the watch ends a build; `looks` gives (pongs, cpu seconds, available) of each second."""
    watch = BuildWatch(limits or BuildLimits(), floor)
    for second, (pongs, cpu_s, available) in enumerate(looks):
        found = watch.look(Sign(1000.0 + second, pongs, cpu_s, available))
        if found is not None:
            return second, found[0], found[1]
    return None


def test_half_an_hour_of_honest_work_is_never_ended():
    assert verdict((second, second * 0.4, PLENTY) for second in range(1800)) is None


def test_a_model_that_is_parsed_for_minutes_under_the_gil_is_not_ended():
    assert verdict((5, second * 0.9, PLENTY) for second in range(800)) is None


def test_a_build_that_waits_for_the_gpu_most_of_the_time_is_not_ended():
    assert verdict((second, second * 0.02, PLENTY) for second in range(3600)) is None


def test_neither_answers_nor_work_ends_it_after_two_minutes():
    second, code, text = verdict((3, 1.5, PLENTY) for _ in range(1000))
    assert (second, code) == (120, "build.killed")
    assert "no sign of life and did no work for 120 s" in text


def test_a_child_that_stops_in_the_midst_of_its_work_is_ended_too():
    second, code, _ = verdict((min(t, 500), min(t, 500) * 0.5, PLENTY) for t in range(1000))
    assert (second, code) == (620, "build.killed")


def test_no_answers_end_it_at_last_though_it_works():
    second, code, text = verdict((3, t * 0.9, PLENTY) for t in range(2000))
    assert (second, code) == (900, "build.killed")
    assert "no sign of life for 900 s" in text


def test_answers_without_work_end_it_at_last():
    second, code, text = verdict((t, t * 0.001, PLENTY) for t in range(2000))
    assert (second, code) == (900, "build.killed")
    assert "did no work for 900 s" in text


def test_a_processor_time_that_is_not_told_is_not_held_against_it():
    second, _, text = verdict((3, None, PLENTY) for _ in range(2000))
    assert second == 900
    assert "work" not in text


def test_an_agent_that_was_stopped_itself_does_not_blame_the_build():
    watch = BuildWatch(BuildLimits(), FLOOR)
    assert watch.look(Sign(0.0, 1, 0.0, PLENTY)) is None
    assert watch.look(Sign(3600.0, 1, 0.0, PLENTY)) is None


def test_memory_under_the_floor_ends_it_at_once():
    second, code, text = verdict([(1, 1.0, PLENTY), (2, 2.0, FLOOR), (3, 3.0, FLOOR - 1)])
    assert (second, code) == (2, "build.out_of_memory")
    assert "255 MB left, under the 256 MB" in text


def test_where_the_kernel_does_not_tell_the_memory_nothing_is_ended_or_put_off():
    assert below_floor(None, FLOOR) == ""
    assert shortage(None, FLOOR, FLOOR) == ""


def test_what_is_available_counts_not_what_is_free(tmp_path):
    """B018, ollama/ollama#12283: the page cache gives way; a board with little free memory may have plenty."""
    (tmp_path / "proc").mkdir()
    meminfo = tmp_path / "proc/meminfo"
    meminfo.write_text("MemTotal: 4051000 kB\nMemFree: 51200 kB\nMemAvailable: 2097152 kB\n")
    assert shortage(available_bytes(tmp_path), FLOOR, FLOOR) == ""
    meminfo.write_text("MemTotal: 4051000 kB\nMemFree: 51200 kB\nMemAvailable: 61440 kB\n")
    assert "60 MB of memory are available; the build begins at 512 MB" in shortage(available_bytes(tmp_path), FLOOR, FLOOR)


def test_processor_time_of_a_process_grows_with_its_work():
    before = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) < before + 0.05:
        sum(range(10000))
    assert cpu_seconds(os.getpid()) > before


@pytest.mark.parametrize("pid", [0, 2**22 + 1])
def test_processor_time_of_no_process_is_not_known(pid):
    assert cpu_seconds(pid) is None
