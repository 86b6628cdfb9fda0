"""Every name that this package uses of TensorRT and of PyCUDA, by class and by what the library must have for it.

The code asks for features with `has`, never for a version; the contract tests hold this table against real bindings.
"""

#: feature: the name whose presence switches it on, `Class.member` or a name of the module. `bindings` is used only where
#: there is no `io_tensors`.
FEATURES = {
    "io_tensors": "ICudaEngine.num_io_tensors",  # 8.5 and later
    "bindings": "ICudaEngine.num_bindings",  # up to 8.6; the only way up to 8.4
    "weak_types": "BuilderFlag.FP16",  # up to 10: precision is the builder's choice
    "shared_profiles": "ExecutionContextAllocationStrategy",  # 10 and later: contexts may use one profile at a time
    "bf16": "DataType.BF16",
    "int64": "DataType.INT64",
    "uint8": "DataType.UINT8",
    "plugins": "init_libnvinfer_plugins",
    "implicit_batch": "ICudaEngine.has_implicit_batch_dimension",  # up to 10
}

#: class ("" is the module itself): {feature, or "" where every generation has it: names}
TENSORRT = {
    "": {
        "": (
            "__version__", "ILogger", "Runtime", "ICudaEngine", "IExecutionContext", "DataType", "TensorFormat", "BuilderFlag",
        ),
        "plugins": ("init_libnvinfer_plugins",),
        "shared_profiles": ("ExecutionContextAllocationStrategy",),
        "io_tensors": ("TensorIOMode", "TensorLocation", "IOutputAllocator"),
    },
    "ILogger": {"": ("__init__", "Severity")},
    "ILogger.Severity": {"": ("INTERNAL_ERROR", "ERROR", "WARNING")},
    "BuilderFlag": {"weak_types": ("FP16",)},
    "DataType": {
        "": ("FLOAT", "HALF", "INT8", "INT32", "BOOL"),
        "uint8": ("UINT8",),
        "int64": ("INT64",),
        "bf16": ("BF16",),
    },
    "TensorFormat": {"": ("LINEAR",)},
    "TensorIOMode": {"io_tensors": ("INPUT",)},
    "TensorLocation": {"io_tensors": ("HOST",)},
    "IOutputAllocator": {"io_tensors": ("__init__",)},
    "Runtime": {"": ("deserialize_cuda_engine", "DLA_core", "num_DLA_cores")},
    "ICudaEngine": {
        "": ("create_execution_context", "num_optimization_profiles"),
        "implicit_batch": ("has_implicit_batch_dimension",),
        "bindings": (
            "num_bindings", "get_binding_name", "binding_is_input", "get_binding_shape", "get_binding_dtype",
            "get_binding_format", "is_shape_binding", "get_profile_shape",
        ),
        "io_tensors": (
            "num_io_tensors", "get_tensor_name", "get_tensor_mode", "get_tensor_shape", "get_tensor_dtype",
            "get_tensor_format", "get_tensor_location", "get_tensor_profile_shape",
        ),
    },
    "IExecutionContext": {
        "": ("set_optimization_profile_async", "all_binding_shapes_specified"),
        "bindings": ("set_binding_shape", "get_binding_shape", "execute_async_v2"),
        "io_tensors": (
            "set_input_shape", "get_tensor_shape", "infer_shapes", "set_tensor_address", "set_output_allocator",
            "execute_async_v3",
        ),
    },
}  # fmt: skip

#: class of pycuda.driver ("" is the module itself): names
PYCUDA = {
    "": (
        "init", "Device", "Stream", "Event", "mem_alloc", "pagelocked_empty", "memcpy_htod_async", "memcpy_dtoh_async",
        "mem_get_info", "host_alloc_flags", "event_flags", "device_attribute", "Error", "MemoryError", "Context",
    ),
    "Device": ("name", "compute_capability", "total_memory", "get_attribute", "retain_primary_context"),
    "device_attribute": ("MULTIPROCESSOR_COUNT", "INTEGRATED"),
    "Context": ("push", "pop", "synchronize"),
    "Stream": ("handle", "synchronize", "wait_for_event"),
    "Event": ("record", "synchronize"),
    "event_flags": ("BLOCKING_SYNC", "DISABLE_TIMING"),
    "host_alloc_flags": ("DEVICEMAP",),
    "DeviceAllocation": ("free", "__int__"),
    "PagelockedHostAllocation": ("get_device_pointer",),
}  # fmt: skip


def has(trt, feature):
    """Whether the library has the feature."""
    found = trt
    for name in FEATURES[feature].split("."):
        found = getattr(found, name, None)
        if found is None:
            return False
    return True
