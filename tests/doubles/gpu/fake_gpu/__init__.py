"""What the fake `tensorrt` and `pycuda` next door are made of: one device, its memory, its streams. Python 3.6 and up.

The test's choices lie in a module `fake_gpu_settings` on the path; tests/fake_gpu.py writes it.
"""
