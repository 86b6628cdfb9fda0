"""Code of the engine host child (Python 3.6, numpy and the engine's library only)."""
