"""Every name that this package uses of TensorRT, by class and by what the library must have for it.

The same form as engine_host/trt/names.py; the contract tests hold this table against real bindings. What 8.4 and later have
instead of an older way is used wherever it is there.
"""

#: feature: the name whose presence switches it on, `Class.member` or a name of the module
FEATURES = {
    "plugins": "init_libnvinfer_plugins",
    "weak_types": "BuilderFlag.FP16",  # up to 10: precision is the builder's choice, asked for by flags
    "strong_types": "NetworkDefinitionCreationFlag.STRONGLY_TYPED",  # 10 and later; the only way from 11 on
    "explicit_batch": "NetworkDefinitionCreationFlag.EXPLICIT_BATCH",  # up to 10; a must up to 8.6
    "calibrators": "IInt8EntropyCalibrator2",  # up to 10
    "fast_types": "Builder.platform_has_fast_fp16",  # up to 10: says itself what is fast
    "memory_pools": "MemoryPoolType.WORKSPACE",  # 8.4 and later
    "workspace_size": "IBuilderConfig.max_workspace_size",  # 8; the only way up to 8.2
    "library_tactics": "TacticSource.CUBLAS",  # up to 10; on by default in 8 alone, where `workspace_size` is
    "optimization_level": "IBuilderConfig.builder_optimization_level",  # 8.6 and later
    "progress": "IProgressMonitor",  # 10 and later
    "error_nodes": "ParserError.node_name",  # 10 and later
}

#: class ("" is the module itself): {feature, or "" where every generation has it: names}
TENSORRT = {
    "": {
        "": (
            "__version__", "Builder", "OnnxParser", "BuilderFlag", "DataType", "DeviceType", "LayerType", "IBuilderConfig",
            "INetworkDefinition", "ILayer", "ITensor", "IOptimizationProfile", "ITimingCache", "IHostMemory", "ParserError",
            "NetworkDefinitionCreationFlag", "TacticSource",
        ),
        "plugins": ("init_libnvinfer_plugins",),
        "memory_pools": ("MemoryPoolType",),
        "calibrators": ("IInt8EntropyCalibrator2",),
        "progress": ("IProgressMonitor",),
    },
    "Builder": {
        "": (
            "create_network", "create_builder_config", "create_optimization_profile", "build_serialized_network",
            "num_DLA_cores",
        ),
        "fast_types": ("platform_has_fast_fp16", "platform_has_fast_int8"),
    },
    "IBuilderConfig": {
        "": (
            "set_flag", "add_optimization_profile", "create_timing_cache", "set_timing_cache", "get_timing_cache",
            "default_device_type", "DLA_core", "get_tactic_sources", "set_tactic_sources",
        ),
        "memory_pools": ("set_memory_pool_limit",),
        "workspace_size": ("max_workspace_size",),
        "calibrators": ("int8_calibrator",),
        "optimization_level": ("builder_optimization_level",),
        "progress": ("progress_monitor",),
    },
    "INetworkDefinition": {
        "": ("num_inputs", "get_input", "num_outputs", "get_output", "num_layers", "get_layer"),
    },
    "ILayer": {"": ("type", "num_outputs", "get_output")},
    "ITensor": {"": ("name", "shape", "dtype", "is_shape_tensor")},
    "IOptimizationProfile": {"": ("set_shape", "set_shape_input")},
    "ITimingCache": {"": ("serialize",)},
    "OnnxParser": {"": ("parse_from_file", "num_errors", "get_error")},
    "ParserError": {"": ("code", "desc", "node"), "error_nodes": ("node_name", "node_operator")},
    "BuilderFlag": {"": ("GPU_FALLBACK",), "weak_types": ("FP16", "INT8")},
    "NetworkDefinitionCreationFlag": {"explicit_batch": ("EXPLICIT_BATCH",), "strong_types": ("STRONGLY_TYPED",)},
    "MemoryPoolType": {"memory_pools": ("WORKSPACE",)},
    "TacticSource": {"library_tactics": ("CUBLAS", "CUBLAS_LT", "CUDNN")},
    "DeviceType": {"": ("DLA",)},
    "LayerType": {"": ("QUANTIZE", "DEQUANTIZE")},
    "DataType": {"": ("HALF",)},
    "IInt8EntropyCalibrator2": {
        "calibrators": ("__init__", "get_batch_size", "get_batch", "read_calibration_cache", "write_calibration_cache"),
    },
    "IProgressMonitor": {"progress": ("__init__", "phase_start", "step_complete", "phase_finish")},
}  # fmt: skip


def has(trt, feature):
    """Whether the library has the feature."""
    found = trt
    for name in FEATURES[feature].split("."):
        found = getattr(found, name, None)
        if found is None:
            return False
    return True
