import os

import pytest

from edge_agent.vision_host import source


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rtsp://10.0.0.5/stream1", source.RTSP),
        ("rtsps://10.0.0.5/stream1", source.RTSP),
        ("RTSP://10.0.0.5/stream1", source.RTSP),
        ("http://10.0.0.5:8080/video?size=1", source.HTTP),
        ("https://10.0.0.5/video", source.HTTP),
        ("/dev/video0", source.DEVICE),
        ("/srv/clips/a.mp4", source.FILE),
        ("clip.avi", source.FILE),
    ],
)
def test_the_kind_of_a_source(name, kind):
    assert source.kind_of(name) == kind


@pytest.mark.parametrize("name", ["csi://0", "gst:videotestsrc ! appsink", "push", "ftp://host/file", "concat://a"])
def test_other_kinds_are_refused_in_words(name):
    with pytest.raises(source.Unsupported, match="not available in this version"):
        source.kind_of(name)


def test_credentials_are_encoded_into_the_address():
    assert source.address("rtsp://10.0.0.5:554/a?b=c", "us er", "p@s/:%") == "rtsp://us%20er:p%40s%2F%3A%25@10.0.0.5:554/a?b=c"
    assert source.address("rtsp://10.0.0.5/a", "", "") == "rtsp://10.0.0.5/a"
    assert source.address("http://old:one@[::1]:80/a", "new", "two") == "http://new:two@[::1]:80/a"


def test_rtsp_is_opened_quickly_first_and_patiently_then():
    ways = source.Opening({"source": "rtsp://h/s", "transport": "udp"}).ways()
    assert ["rtsp_transport;udp" in way for way in ways] == [True, True]
    assert ["probesize" in way for way in ways] == [True, False]
    assert all("nobuffer" in way and "low_delay" in way for way in ways)


def test_automatic_transport_tries_both():
    ways = source.Opening({"source": "rtsp://h/s", "transport": "auto"}).ways()
    assert [("tcp" in way, "udp" in way) for way in ways] == [(True, False), (False, True)] * 2


def test_one_way_for_everything_else():
    assert source.Opening({"source": "a.mp4"}).ways() == [""]
    assert len(source.Opening({"source": "http://h/s"}).ways()) == 1


def test_a_missing_file_or_device_is_not_open(tmp_path):
    assert not source.Opening({"source": str(tmp_path / "none.mp4")}).capture("").isOpened()
    assert not os.path.exists("/dev/video63")
    assert not source.Opening({"source": "/dev/video63"}).capture("").isOpened()
