"""ONNX Runtime, which computes what a fake engine answers."""

import re

_UNKNOWN = re.compile(r"(\w+)(?:\(-?\d+\))? is not a registered|No Op registered for (\w+)")
_SILENT = 4


class Unknown(Exception):
    """An operator that ONNX Runtime does not know either."""


def open_session(data):
    """A session on one thread; Unknown with the operator's name, ValueError for what else is wrong."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    try:
        return onnxruntime.InferenceSession(bytes(data), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's classes have no common base
        found = _UNKNOWN.search(str(error))
        if found:
            raise Unknown(found.group(1) or found.group(2)) from error
        raise ValueError(" ".join(str(error).split())) from error


def name(value):
    """The model's own name of an input or output (onnx_file.runnable renames those of BF16)."""
    return value.name[: -len(" as float")] if value.name.endswith(" as float") else value.name


def shape(value):
    """The dims of a session's input or output, -1 for what is dynamic."""
    return [dim if isinstance(dim, int) and dim > 0 else -1 for dim in value.shape]
