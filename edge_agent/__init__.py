"""edge-agent: the inference appliance for NVIDIA Jetson and any Linux machine."""

__version__ = "0.1.0"
