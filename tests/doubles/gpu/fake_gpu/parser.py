"""The ONNX parser."""

import os
import weakref

from fake_gpu import datatypes, faults, logger, native, onnx_file, onnx_session
from fake_gpu.generation import ENUMS, enum, has
from fake_gpu.network import ILayer, INetworkDefinition, ITensor

_SINCE_8_5 = ("NonZero", "NonMaxSuppression", "Unique", "GridSample")
_NO_PLUGIN = 'creator && "Plugin not found, are the plugin name, version, and namespace correct?"'


class _Failed(Exception):
    def __init__(self, code, text, number=-1, node=None):
        super().__init__(text)
        self.found = (getattr(ENUMS["ErrorCode"], code), text, number, node)


class ParserError(native.Native):
    """Belongs to its parser: asked after that is gone, it crashes as the real one does."""

    def __init__(self, parser=None, code=None, text="", number=-1, node=None):
        self._parser = weakref.ref(parser)
        self._said = (code, text, number, node)

    def _of(self, index):
        if self._parser() is None:
            faults.crash()
        return self._said[index]

    def code(self):
        return self._of(0)

    def desc(self):
        return self._of(1)

    def node(self):
        return self._of(2)

    def node_name(self):
        node = self._of(3)
        return node.name if node else ""

    def node_operator(self):
        node = self._of(3)
        return node.operator if node else ""

    def file(self):
        self._of(0)
        return "ModelImporter.cpp"

    def line(self):
        self._of(0)
        return 1

    def func(self):
        self._of(0)
        return "parse"


class OnnxParser(native.Native):
    """Fills the network; what fails is told by `get_error`."""

    def __init__(self, network, logger):
        if not isinstance(network, INetworkDefinition):
            raise native.incompatible("__init__", network, logger)
        self._network = network
        self._errors = []
        _take(logger)

    @property
    def num_errors(self):
        return len(self._errors)

    def get_error(self, index):
        return self._errors[index]

    def clear_errors(self):
        self._errors = []

    def supports_operator(self, op_name):
        return op_name not in _SINCE_8_5 or has("ICudaEngine.num_io_tensors")

    def parse(self, model, path=None):
        return self._parse(bytes(model), os.path.dirname(path) or "." if path else None)

    def parse_from_file(self, model):
        try:
            with open(model, "rb") as file:
                data = file.read()
        except OSError:
            logger.error("ModelImporter: Could not open file %s" % model)
            return False
        return self._parse(data, os.path.dirname(model) or ".")

    def _parse(self, data, folder):
        try:
            asked = faults.get("parse")
            if asked:
                raise _Failed("INVALID_GRAPH", asked)
            self._fill(data, folder)
        except _Failed as failed:
            self._errors.append(ParserError(self, *failed.found))
            logger.error("ModelImporter: %s" % failed)
            return False
        return True

    def _fill(self, data, folder):
        if not self._network._explicit:
            text = "This version of the ONNX parser only supports networks with an explicit batch dimension"
            raise _Failed("INVALID_VALUE", text)
        try:
            model = onnx_file.Model(data, folder)
        except onnx_file.Malformed as error:
            raise _Failed(
                "MODEL_DESERIALIZE_FAILED",
                "Assertion failed: model->ParseFromCodedStream(&codedInput): Failed to parse the ONNX model.",
            ) from error
        except OSError as error:
            raise _Failed("INVALID_GRAPH", "Failed to open the weights file: %s" % error) from error
        if not model.nodes or not model.outputs:
            return  # the real parser has nothing to say against a file without a graph, whatever else is in it
        self._check_operators(model)
        session = self._session(model)
        network = self._network
        network._inputs = [self._tensor(value, "input") for value in _shaped(model.inputs, session.get_inputs())]
        for tensor in network._inputs:
            tensor.is_shape_tensor = tensor.name in model.shape_inputs()
        network._outputs = [self._tensor(value, "output") for value in _shaped(model.outputs, session.get_outputs())]
        network._layers = [_layer(node, kinds) for node, kinds in zip(model.nodes, model.output_types())]
        kinds = enum("LayerType")
        network._quantized = any(layer.type in (kinds.QUANTIZE, kinds.DEQUANTIZE) for layer in network._layers)
        network._data = model.data

    def _check_operators(self, model):
        for number, node in enumerate(model.nodes):
            if not self.supports_operator(node.operator):
                raise _Failed("UNSUPPORTED_NODE", "No importer registered for op: %s" % node.operator, number, node)

    def _session(self, model):
        try:
            return onnx_session.open_session(model.runnable())
        except onnx_session.Unknown as error:
            name = str(error)
            found = [(number, node) for number, node in enumerate(model.nodes) if node.operator == name] or [(-1, None)]
            logger.warning("No importer registered for op: %s. Attempting to import as plugin." % name)
            code = "INVALID_NODE" if has("IProgressMonitor") else "UNSUPPORTED_NODE"
            raise _Failed(code, _NO_PLUGIN, *found[0]) from error
        except ValueError as error:
            raise _Failed("INVALID_GRAPH", str(error)) from error

    @staticmethod
    def _tensor(value, place):
        name, kind, shape = value
        dtype = datatypes.carried(kind)
        if dtype is None:
            code = "UNSUPPORTED_NODE_DATATYPE" if has("ErrorCode.UNSUPPORTED_NODE_DATATYPE") else "UNSUPPORTED_NODE"
            raise _Failed(code, "Unsupported ONNX data type: %s (%s '%s')" % (kind, place, name))
        if kind == "INT64" and dtype.name == "INT32":
            logger.warning("Your ONNX model uses INT64, which is not supported natively: casting down to INT32.")
        return ITensor(name, dtype, shape, place)


def _take(given):
    logger.take(given)


def _shaped(found, session_values):
    """The file's values with the shapes that inference tells."""
    shapes = {onnx_session.name(value): onnx_session.shape(value) for value in session_values}
    return [(name, kind, shapes.get(name, shape or ())) for name, kind, shape in found]


def _layer(node, kinds):
    members = ENUMS["DataType"].__members__
    tensors = [
        ITensor(name, datatypes.carried(kind) or members.get(kind, members["FLOAT"])) for name, kind in zip(node.outputs, kinds)
    ]
    return ILayer(node, tensors)
