"""The fake TensorRT and PyCUDA in the process of the tests, with what it takes to build and run a model on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np

from tests.fake_gpu import InProcess, make_plan, set_faults

MODELS = Path(__file__).parent.parent / "models"
ADD_ONE = [{"x": ((1, 4), (2, 4), (8, 4))}]


class Board:
    """The fakes in this process."""

    def __init__(self, folder: Path, version: str, **choices: Any) -> None:
        self.folder, self.version = folder, version
        self.faults_file = folder / "faults.json"
        self.fakes = InProcess(folder, version=version, faults=self.faults_file, **choices)
        self.lines: List[str] = []

    def start(self) -> None:
        self.fakes.__enter__()
        import pycuda.driver as cuda
        import tensorrt as trt

        board = self

        class Log(trt.ILogger):  # type: ignore[misc, name-defined]
            def log(self, severity: Any, msg: str) -> None:
                board.lines.append(msg)

        self.trt, self.cuda, self.log = trt, cuda, Log()
        cuda.init()
        self.context = cuda.Device(0).retain_primary_context()
        self.context.push()
        self.runtime = trt.Runtime(self.log)

    def stop(self) -> None:
        self.context.pop()
        self.fakes.__exit__()

    def faults(self, **wanted: Any) -> None:
        set_faults(self.faults_file, **wanted)

    def engine(self, model: Any = MODELS / "add_one.onnx", **fields: Any) -> Any:
        fields.setdefault("profiles", ADD_ONE)
        fields.setdefault("version", self.version)
        return self.runtime.deserialize_cuda_engine(Path(make_plan(model, self.folder / "p", **fields)).read_bytes())

    def build(self, model: Any, *profiles: Any, flags: Any = ()) -> Any:
        """The plan that the builder makes, or None."""
        trt, kinds = self.trt, self.trt.NetworkDefinitionCreationFlag
        builder = trt.Builder(self.log)
        bits = 1 << int(kinds.EXPLICIT_BATCH) if hasattr(kinds, "EXPLICIT_BATCH") else 0
        network = builder.create_network(bits)
        self.parser = trt.OnnxParser(network, self.log)
        if not self.parser.parse_from_file(str(model)):
            return None
        config = builder.create_builder_config()
        for flag in flags:
            config.set_flag(getattr(trt.BuilderFlag, flag))
        for ranges in profiles:
            profile = builder.create_optimization_profile()
            for name, shapes in ranges.items():
                profile.set_shape(name, *shapes)
            assert config.add_optimization_profile(profile) >= 0
        return builder.build_serialized_network(network, config)

    def memory(self, *shapes: Any) -> List[Any]:
        """(page-locked array, device memory) each."""
        arrays = [self.cuda.pagelocked_empty(shape, np.float32) for shape in shapes]
        return [(array, self.cuda.mem_alloc(array.nbytes)) for array in arrays]

    def enqueue(self, engine: Any, context: Any, shape: Any, pointers: Any, stream: Any) -> bool:
        """One input and one output, by whichever API there is."""
        if hasattr(engine, "num_io_tensors"):
            assert context.set_input_shape("x", shape)
            for name, pointer in zip(("x", "y"), pointers):
                assert context.set_tensor_address(name, int(pointer))
            return bool(context.execute_async_v3(stream.handle))
        assert context.set_binding_shape(0, shape)
        return bool(context.execute_async_v2([int(pointer) for pointer in pointers], stream.handle))

    def run(self, engine: Any, given: Any) -> Any:
        """One run of a model with x and y of the same shape."""
        given = np.asarray(given, np.float32)
        (x, on_x), (y, on_y) = self.memory(given.shape, given.shape)
        x[...] = given
        stream, context = self.cuda.Stream(), engine.create_execution_context()
        self.cuda.memcpy_htod_async(on_x, x, stream)
        assert self.enqueue(engine, context, given.shape, (on_x, on_y), stream)
        self.cuda.memcpy_dtoh_async(y, on_y, stream)
        stream.synchronize()
        return y.copy()
