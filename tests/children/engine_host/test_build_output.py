import errno
import os

import pytest

from edge_agent.engine_host.build.output import write_plan
from edge_agent.engine_host.build.timing import TimingCache
from edge_agent.engine_host.control import Refused


class Config:
    """A builder configuration that takes caches beginning with `good`."""

    def __init__(self):
        self.cache = None

    def create_timing_cache(self, data):
        return Cache(data)

    def set_timing_cache(self, cache, ignore_mismatch):
        assert not ignore_mismatch
        if cache.data and not cache.data.startswith(b"good"):
            return False
        self.cache = cache
        return True

    def get_timing_cache(self):
        return self.cache


def timing_cache(path):
    return TimingCache(str(path), str(path.parent / ".timing.tmp"))


class Cache:
    def __init__(self, data):
        self.data = data

    def serialize(self):
        return b"good and more"


def test_a_plan_is_whole_on_the_disk_for_its_owner_alone(tmp_path):
    path = tmp_path / "plan.tmp"
    assert write_plan(str(path), memoryview(b"plan")) == 4
    assert path.read_bytes() == b"plan"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_plan_is_not_written_through_a_link(tmp_path):
    aim = tmp_path / "aim"
    aim.write_bytes(b"precious")
    (tmp_path / "plan.tmp").symlink_to(aim)
    with pytest.raises(Refused):
        write_plan(str(tmp_path / "plan.tmp"), b"plan")
    assert aim.read_bytes() == b"precious"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told_as_such(tmp_path, monkeypatch):
    removed = []
    monkeypatch.setattr(os, "unlink", removed.append)  # /dev/full is not ours to remove
    with pytest.raises(Refused) as refused:
        write_plan("/dev/full", b"plan")
    assert refused.value.code == "build.no_space"
    assert refused.value.detail == {"permanent": False}
    assert os.strerror(errno.ENOSPC) in refused.value.text
    assert removed == ["/dev/full"]


def test_a_folder_that_is_not_there_is_no_lack_of_space(tmp_path):
    with pytest.raises(Refused) as refused:
        write_plan(str(tmp_path / "gone" / "plan.tmp"), b"plan")
    assert refused.value.code == "build.failed"


def test_a_timing_cache_comes_back_larger_and_leaves_nothing_beside_itself(tmp_path):
    path = tmp_path / "timing.cache"
    path.write_bytes(b"good")
    timing = timing_cache(path)
    config = Config()
    timing.read()
    timing.attach(config)
    assert config.cache.data == b"good"
    timing.take(config)
    timing.save()
    assert path.read_bytes() == b"good and more"
    assert os.listdir(str(tmp_path)) == ["timing.cache"]
    assert timing.warnings == []


def test_another_board_s_timing_cache_is_begun_anew_and_said(tmp_path):
    path = tmp_path / "timing.cache"
    path.write_bytes(b"another board's")
    timing = timing_cache(path)
    config = Config()
    timing.read()
    timing.attach(config)
    assert config.cache.data == b""
    timing.attach(Config())
    assert len(timing.warnings) == 1


def test_a_timing_cache_that_cannot_be_written_costs_no_build(tmp_path):
    timing = timing_cache(tmp_path / "gone" / "timing.cache")
    timing.read()
    config = Config()
    timing.attach(config)
    timing.take(config)
    timing.save()
    assert "cannot be written" in timing.warnings[0]


def test_without_a_path_nothing_is_read_or_written(tmp_path):
    timing = TimingCache("", "")
    timing.read()
    timing.attach(Config())
    timing.save()
    assert os.listdir(str(tmp_path)) == []
