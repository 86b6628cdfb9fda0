"""The names of TensorRT by generation: tests/contract/names/VERSION.json, of the classes that an agent could use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

FOLDER = Path(__file__).parent / "names"

CLASSES = frozenset((
    "Builder", "BuilderFlag", "CalibrationAlgoType", "DataType", "DeviceType", "Dims", "EngineCapability",
    "EngineInspector", "ErrorCode", "ExecutionContextAllocationStrategy", "HardwareCompatibilityLevel",
    "IBuilderConfig", "ICudaEngine", "IErrorRecorder", "IExecutionContext", "IGpuAllocator", "IHostMemory",
    "IInt8Calibrator", "IInt8EntropyCalibrator", "IInt8EntropyCalibrator2", "IInt8LegacyCalibrator",
    "IInt8MinMaxCalibrator", "ILayer", "ILogger", "INetworkDefinition", "IOptimizationProfile", "IOutputAllocator",
    "IPluginRegistry", "IProfiler", "IProgressMonitor", "IRuntimeConfig", "ISerializationConfig", "IStreamReader",
    "IStreamReaderV2", "ITensor", "ITimingCache", "LayerInformationFormat", "LayerType", "Logger", "MemoryPoolType",
    "NetworkDefinitionCreationFlag", "OnnxParser", "OnnxParserFlag", "ParserError", "PreviewFeature",
    "ProfilingVerbosity", "Profiler", "QuantizationFlag", "Runtime", "RuntimePlatform", "SerializationFlag",
    "TacticSource", "TempfileControlFlag", "TensorFormat", "TensorIOMode", "TensorLocation",
))  # fmt: skip
_ENUM_MEMBERS = ("name", "value", "__init__")


def of_document(document: Dict[str, Any]) -> Dict[str, Any]:
    """What is kept of an introspection: the module's names, functions, enumerations and the members of CLASSES."""
    enums = {name: numbers for name, numbers in document["enums"].items() if name.split(".")[0] in CLASSES}
    classes = {}
    for name in sorted(CLASSES & set(document["classes"])):
        members = dict(document["classes"][name])
        for member in (*enums.get(name, ()), *(_ENUM_MEMBERS if name in enums else ())):
            members.pop(member, None)
        classes[name] = members
    return {"names": document["names"], "functions": document["functions"], "classes": classes, "enums": enums}


def as_text(names: Dict[str, Any]) -> str:
    """JSON with a line for each class and each group, so that a difference between versions can be read."""
    lines = []
    for group in ("functions", "classes", "enums"):
        inner = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in sorted(names[group].items())
        )
        lines.append(f"{json.dumps(group)}: {{\n{inner}\n}}")
    lines.append(f'"names": {json.dumps(sorted(names["names"]))}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(version: str) -> Dict[str, Any]:
    """The checked-in list of a version."""
    names: Dict[str, Any] = json.loads((FOLDER / f"{version}.json").read_text())
    return names
