"""The network that TensorRT reads out of an ONNX file."""

from edge_agent.engine_host.build.failures import lacks_memory, refused
from edge_agent.engine_host.build.profile import Input
from edge_agent.engine_host.failures import shortened
from edge_agent.engine_host.trt.logger import Hearing

_MAX_ERRORS = 3
_NO_OPERATOR = ("plugin not found", "no importer registered", "no op registered")
_DATATYPES = {"FLOAT": "FP32", "HALF": "FP16"}  # all others are called the same


class Network:
    """A parsed network; its parser stays with it, since it owns the weights."""

    def __init__(self, tools, builder, path, strongly_typed):
        flags = tools.trt.NetworkDefinitionCreationFlag
        bits = 0
        if tools.has("explicit_batch"):
            bits |= 1 << int(flags.EXPLICIT_BATCH)
        if strongly_typed and tools.has("weak_types"):
            bits |= 1 << int(flags.STRONGLY_TYPED)
        self.strongly_typed = strongly_typed
        self.trt = tools.trt
        self.network = builder.create_network(bits)
        self._parser = tools.trt.OnnxParser(self.network, tools.log)
        self._parse(tools, path)

    def _parse(self, tools, path):
        with Hearing(tools.log) as heard:
            parsed = self._parser.parse_from_file(path)
        if parsed and self.network.num_outputs:
            return
        if parsed:  # what holds no graph it takes for a model with nothing in it
            raise refused("build.parse_failed", "there is no model in the file; copy or export it again", permanent=True)
        errors = [_ParserError(tools, self._parser.get_error(index)) for index in range(self._parser.num_errors)]
        texts = list(dict.fromkeys(error.text for error in errors))[:_MAX_ERRORS] or [heard.words]
        text = "; ".join(texts)
        if any(error.code == "MEM_ALLOC_FAILED" for error in errors) or lacks_memory(heard.lines + texts):
            raise refused("build.out_of_memory", "reading the model: %s" % text)
        code = "build.unsupported_operator" if any(error.lacks_operator for error in errors) else "build.parse_failed"
        raise refused(code, text, permanent=True)

    def inputs(self):
        """Its inputs, for profiles."""
        tensors = [self.network.get_input(index) for index in range(self.network.num_inputs)]
        return [Input(tensor.name, _shape(tensor), bool(tensor.is_shape_tensor)) for tensor in tensors]

    def output_shapes(self):
        """Shapes of its outputs."""
        return [_shape(self.network.get_output(index)) for index in range(self.network.num_outputs)]

    def io(self):
        """Inputs and outputs as the agent reads them."""
        network = self.network
        inputs = [_tensor("input", network.get_input(index)) for index in range(network.num_inputs)]
        return inputs + [_tensor("output", network.get_output(index)) for index in range(network.num_outputs)]

    @property
    def quantized(self):
        """Whether the model says itself where it computes with eight bits (Q/DQ nodes)."""
        kinds = (self.trt.LayerType.QUANTIZE, self.trt.LayerType.DEQUANTIZE)
        return any(layer.type in kinds for layer in self._layers())

    @property
    def half(self):
        """Whether anything in it is FP16 by its own types."""
        half = self.trt.DataType.HALF
        return any(
            layer.get_output(index).dtype == half for layer in self._layers() for index in range(layer.num_outputs)
        )  # fmt: skip

    def _layers(self):
        return (self.network.get_layer(index) for index in range(self.network.num_layers))


class _ParserError:
    """What an error of the parser says, copied at once: the object itself dangles when its parser is gone."""

    def __init__(self, tools, error):
        self.code = _last_word(error.code())
        said = shortened(error.desc())
        where = _place(tools, error)
        self.text = "%s: %s (%s)" % (where, said, self.code) if where else "%s (%s)" % (said, self.code)
        self.lacks_operator = self.code.startswith("UNSUPPORTED_NODE") or any(word in said.lower() for word in _NO_OPERATOR)


def _place(tools, error):
    """Which node it is about, as far as this TensorRT tells."""
    if tools.has("error_nodes"):
        name, operator = str(error.node_name()), str(error.node_operator())
        if name or operator:
            return "node '%s' (%s)" % (name, operator)
    number = int(error.node())
    return "node %d" % number if number >= 0 else ""


def _last_word(value):
    """The name of an enum's member: `UNSUPPORTED_NODE` of ErrorCode.UNSUPPORTED_NODE."""
    return str(value).rpartition(".")[2]


def _shape(tensor):
    try:
        return tuple(int(dim) for dim in tensor.shape)
    except ValueError:  # 8.x: a tensor whose number of dimensions is not known has none to list
        return ()


def _tensor(mode, tensor):
    name = _last_word(tensor.dtype)
    return {"name": tensor.name, "mode": mode, "datatype": _DATATYPES.get(name, name), "shape": list(_shape(tensor))}
