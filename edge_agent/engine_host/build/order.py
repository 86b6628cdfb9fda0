"""The order as it comes from the agent, checked."""

from edge_agent.engine_host.build.failures import refused


class Order:
    """What plan to make of what; the agent's BuildOrder says what each field means."""

    def __init__(self, message):
        try:
            self._read(message)
        except (KeyError, TypeError, ValueError) as error:
            raise refused("build.failed", "the order cannot be read: %r" % error, permanent=True) from error

    def _read(self, message):
        self.onnx = str(message["onnx"])
        self.output = str(message["output"])
        self.precision = str(message["precision"])
        if self.precision not in ("fp32", "fp16", "int8"):
            raise ValueError("precision %r" % self.precision)
        self.workspaces = [int(size) for size in message["workspaces"]]
        if not self.workspaces or min(self.workspaces) < 1:
            raise ValueError("workspaces %r" % self.workspaces)
        self.larger_workspace = int(message["larger_workspace"])
        self.memory_short = bool(message["memory_short"])
        asked = message["max_batch_size"]
        self.max_batch_size = None if asked is None else int(asked)
        self.usual_batch_size = int(message["usual_batch_size"])
        self.profiles = list(message["profiles"])
        self.declared = {spec["name"]: tuple(int(dim) for dim in spec["shape"]) for spec in message["inputs"]}
        self.dla_core = int(message["dla_core"])
        self.strongly_typed = message["strongly_typed"]
        self.calibration = str(message["calibration"])
        self.timing_cache = str(message["timing_cache"])
        self.timing_temporary = str(message["timing_temporary"])
        level = message["optimization_level"]
        self.optimization_level = None if level is None else int(level)
        self.expected_s = float(message["expected_s"])
