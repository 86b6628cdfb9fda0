"""The names of one TensorRT version: enumerations are made of its list, classes are cut down to it."""

import importlib
import json
import os
import types

from fake_gpu import native, settings

_CLASSES = {  # where the library's classes are written
    "logger": ("ILogger", "Logger"),
    "values": ("Dims", "IHostMemory"),
    "profile": ("IOptimizationProfile",),
    "network": ("INetworkDefinition", "ITensor", "ILayer"),
    "parser": ("OnnxParser", "ParserError"),
    "timing": ("ITimingCache",),
    "wishes": ("IBuilderConfig",),
    "overridden": (
        "IInt8Calibrator", "IInt8EntropyCalibrator", "IInt8EntropyCalibrator2", "IInt8LegacyCalibrator",
        "IInt8MinMaxCalibrator", "IOutputAllocator", "IProgressMonitor",
    ),
    "builder": ("Builder",),
    "runtime": ("Runtime",),
    "engine": ("ICudaEngine",),
    "context": ("IExecutionContext",),
}  # fmt: skip
_FUNCTIONS = ("init_libnvinfer_plugins", "nptype", "volume")
_ALIASES = {"float32": "FLOAT", "float16": "HALF", "int8": "INT8", "int32": "INT32", "int64": "INT64", "bool": "BOOL",
            "uint8": "UINT8", "fp8": "FP8", "bfloat16": "BF16", "int4": "INT4", "fp4": "FP4", "e8m0": "E8M0"}  # fmt: skip


def _parts(version):
    return tuple(int(part) for part in version.split("."))


def _list_version():
    """The newest list that is not newer than the version asked for; 8.0 is taken as 8.2."""
    found = [name[: -len(".json")] for name in os.listdir(settings.NAMES) if name.endswith(".json")]
    wanted = _parts(settings.VERSION)
    fitting = [name for name in found if _parts(name) <= wanted]
    return max(fitting, key=_parts) if fitting else min(found, key=_parts)


with open(os.path.join(settings.NAMES, _list_version() + ".json")) as _file:
    NAMES = json.load(_file)

ENUMS = {name: native.enumeration(name.split(".")[-1], numbers) for name, numbers in NAMES["enums"].items()}


def has(name):
    """Whether this generation has `Class.member`, or the name in its module."""
    owner, _, member = name.rpartition(".")
    if not owner:
        return name in NAMES["names"]
    return member in NAMES["classes"].get(owner, ()) or member in NAMES["enums"].get(owner, ())


def enum(name):
    """An enumeration of this generation; one without members where it has none of that name."""
    return ENUMS.get(name) or types.SimpleNamespace()


def fill(scope):
    """Puts the names of this generation into the module `tensorrt`."""
    found = {name: cls for name, cls in ENUMS.items() if "." not in name}
    for module, classes in _CLASSES.items():
        loaded = importlib.import_module("fake_gpu." + module)
        for name in classes:
            if name in NAMES["classes"]:
                found[name] = _cut(getattr(loaded, name), NAMES["classes"][name])
    functions = importlib.import_module("fake_gpu.functions")
    found.update({name: getattr(functions, name) for name in _FUNCTIONS})
    kinds = ENUMS["DataType"].__members__
    found.update({name: kinds[kind] for name, kind in _ALIASES.items() if kind in kinds})
    scope.update({name: value for name, value in found.items() if name in NAMES["names"]})
    scope["__version__"] = settings.VERSION


def _cut(cls, allowed):
    for name in [name for name in vars(cls) if not name.startswith("_") and name not in allowed]:
        delattr(cls, name)
    if "__len__" in vars(cls) and "__len__" not in allowed:
        del cls.__len__
    if "__enter__" in allowed:
        cls.__enter__, cls.__exit__ = native.enter, native.leave
    return cls
