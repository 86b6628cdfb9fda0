"""Engines that heal themselves: ONNX is the truth, a TensorRT plan a cache of it."""
