"""TensorRT plans on disk: what a plan is good for, where it lies, what is known of it."""
