"""From a model's outputs to detections; runs in the host, so that the agent's loop only sees a few rows."""
