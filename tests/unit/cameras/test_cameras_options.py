from __future__ import annotations

import pytest

from edge_agent.cameras.options import CameraOptions, redact


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("rtsp://10.0.0.5/stream1", "rtsp://10.0.0.5/stream1"),
        ("rtsp://admin:geheim@10.0.0.5:554/a?b=c", "rtsp://***@10.0.0.5:554/a?b=c"),
        ("http://token@cam/video", "http://***@cam/video"),
        ("http://cam/video?user=a&password=geheim&size=2", "http://cam/video?user=a&password=***&size=2"),
        ("http://cam/cgi?loginpwd=geheim", "http://cam/cgi?loginpwd=***"),
        ("http://cam/v?access_token=geheim#x", "http://cam/v?access_token=***"),
        ("/srv/clips/a@b.mp4", "/srv/clips/a@b.mp4"),
        ("/dev/video0", "/dev/video0"),
    ],
)
def test_what_may_be_shown_of_a_source(source: str, shown: str) -> None:
    assert redact(source) == shown


def test_secrets_are_not_in_what_the_options_print() -> None:
    assert "geheim" not in repr(CameraOptions("door", "rtsp://u:geheim@h/s", "u", "geheim"))
