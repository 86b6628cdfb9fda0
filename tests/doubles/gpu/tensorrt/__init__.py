"""A TensorRT that needs no GPU: the names of one generation, behaviour as far as the agent's code can tell it apart."""

from fake_gpu import generation as _generation

_generation.fill(globals())
