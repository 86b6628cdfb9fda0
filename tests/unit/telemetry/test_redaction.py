from __future__ import annotations

import pytest

from edge_agent.telemetry.redaction import redact


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("opening rtsp://admin:hunter2@10.0.0.5/stream1", "opening rtsp://***@10.0.0.5/stream1"),
        ("rtsp://admin:p@ss@10.0.0.5:554/a@b", "rtsp://***@10.0.0.5:554/a@b"),
        ("http://only-a-name@host/x", "http://***@host/x"),
        ("Authorization: Bearer abc.DEF-123_~", "Authorization: Bearer ***"),
        ("authorization: basic dXNlcjpwYXNz==", "authorization: basic ***"),
        ("password=hunter2 next", "password=*** next"),
        ('{"token": "abc"}', '{"token": "***"}'),
        ("WWW-Authenticate: Basic realm=x", "WWW-Authenticate: Basic realm=x"),
    ],
)
def test_secrets_are_taken_out(said: str, shown: str) -> None:
    assert redact(said) == shown


@pytest.mark.parametrize(
    "text",
    [
        "rtsp://10.0.0.5/stream1",
        "mail me@example.org",
        "the token was not found",
        "see http://host/a?at=b@c",
        "password_file = /run/secrets/camera",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text
