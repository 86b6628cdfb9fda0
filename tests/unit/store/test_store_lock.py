from __future__ import annotations

import os

import pytest

from edge_agent.errors import StoreError
from edge_agent.store.lock import lock


def test_a_file_has_one_agent_at_a_time(db_path):
    held = lock(db_path)
    with pytest.raises(StoreError, match="another agent uses"):
        lock(db_path)
    os.close(held)
    os.close(lock(db_path))


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="folder of the database"):
        lock(tmp_path / "file" / "edge-agent.db")
