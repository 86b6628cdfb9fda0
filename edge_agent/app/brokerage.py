"""MQTT as the configuration asks for it."""

from __future__ import annotations
