"""The network that the parser fills."""

from fake_gpu import native
from fake_gpu.datatypes import layer_type
from fake_gpu.generation import ENUMS, has
from fake_gpu.values import Dims, dims


class ITensor(native.Native):
    """An input, an output, or what a layer gives."""

    is_shape_tensor = native.Attribute(False)
    is_execution_tensor = native.Attribute(True)
    is_network_input = native.Attribute(False)
    is_network_output = native.Attribute(False)
    name = native.Attribute("")
    dtype = native.Attribute()

    def __init__(self, name="", dtype=None, shape=(), place=""):
        self.name, self.dtype, self._shape = name, dtype, Dims(shape)
        self.is_network_input, self.is_network_output = place == "input", place == "output"

    @property
    def shape(self):
        return self._shape

    @shape.setter
    def shape(self, shape):
        self._shape = dims("shape", shape)


class ILayer(native.Native):
    """One node of the model."""

    name = native.Attribute("")
    type = native.Attribute()

    def __init__(self, node=None, outputs=()):
        if node is not None:
            self.name, self.type = node.name, layer_type(node.operator)
        self._outputs = outputs

    @property
    def num_outputs(self):
        return len(self._outputs)

    def get_output(self, index):
        return self._outputs[index]


class INetworkDefinition(native.Native):
    """Empty until a parser fills it."""

    name = native.Attribute("")

    def __init__(self, flags=0):
        kinds = ENUMS["NetworkDefinitionCreationFlag"]
        self._explicit = not has("NetworkDefinitionCreationFlag.EXPLICIT_BATCH") or has("IProgressMonitor")
        if not self._explicit:
            self._explicit = bool(flags >> int(kinds.EXPLICIT_BATCH) & 1)
        weak = has("BuilderFlag.FP16")
        strong = has("NetworkDefinitionCreationFlag.STRONGLY_TYPED")
        self._strongly_typed = not weak or (strong and bool(flags >> int(kinds.STRONGLY_TYPED) & 1))
        self._inputs, self._outputs, self._layers = [], [], []
        self._data = b""
        self._quantized = False

    @property
    def has_implicit_batch_dimension(self):
        return not self._explicit

    @property
    def num_inputs(self):
        return len(self._inputs)

    @property
    def num_outputs(self):
        return len(self._outputs)

    @property
    def num_layers(self):
        return len(self._layers)

    def get_input(self, index):
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index):
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def get_layer(self, index):
        return self._layers[index] if 0 <= index < len(self._layers) else None

    def __len__(self):
        return len(self._layers)

    def __getitem__(self, index):
        return self._layers[index]
