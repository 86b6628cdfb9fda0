"""TensorRT and PyCUDA behind the few calls that a host makes of an engine."""
