"""Builds TensorRT plans, in a child of their own; Python 3.6."""
