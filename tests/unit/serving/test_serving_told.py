"""Callers read no paths of the machine."""

from __future__ import annotations

import pytest

from edge_agent.serving.told import without_folders


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("one/1: /var/lib/edge agent/plans/ab.plan cannot be read: gone", "one/1: ab.plan cannot be read: gone"),
        ("[Errno 2] No such file: '/srv/state/plans/ab.plan'", "[Errno 2] No such file: 'ab.plan'"),
        ("model 'a' version 1: 3 deaths, 4/5 ok", "model 'a' version 1: 3 deaths, 4/5 ok"),
    ],
)
def test_paths_become_the_names_of_their_files(text, told):
    assert without_folders(text) == told
