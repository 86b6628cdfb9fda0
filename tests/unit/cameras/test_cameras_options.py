from __future__ import annotations

from edge_agent.cameras.options import CameraOptions


def test_secrets_are_not_in_what_the_options_print() -> None:
    assert "geheim" not in repr(CameraOptions("door", "rtsp://u:geheim@h/s", "u", "geheim"))
