"""Frozen values that travel between rooms; no I/O, no collaborators."""
