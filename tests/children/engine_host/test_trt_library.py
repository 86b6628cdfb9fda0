import sys

import pytest

from edge_agent.engine_host.trt import device, library

GENERATIONS = {
    "8.2": ("bindings", False, False),
    "8.5": ("io_tensors", False, False),
    "8.6.1": ("io_tensors", False, False),
    "10.3.0": ("io_tensors", True, False),
    "10.16.1": ("io_tensors", True, False),
    "11.4.0": ("io_tensors", True, True),
}


@pytest.mark.parametrize("version", sorted(GENERATIONS))
def test_facts_tell_the_library_and_the_device(gpu, version):
    gpu(version=version, name="Orin NX", multiprocessors=8, memory_bytes=16 << 30, cuda_version=11040, dla_cores=2)
    facts = library.facts()
    api, bf16, typed = GENERATIONS[version]
    assert facts == {
        "engine": "tensorrt",
        "available": True,
        "code": "",
        "text": "",
        "tensorrt": version,
        "api": api,
        "cuda_driver": 11040,
        "cuda_runtime": 0,
        "plugins": [],
        "device": "Orin NX",
        "compute_capability": [8, 7],
        "multiprocessors": 8,
        "memory_bytes": 16 << 30,
        "integrated": True,
        "fp16": True,
        "int8": True,
        "bf16": bf16,
        "dla_cores": 2,
        "strongly_typed_only": typed,
    }


@pytest.mark.parametrize(
    ("capability", "fp16", "int8", "bf16"),
    [
        ((5, 3), True, False, False),
        ((6, 1), False, True, False),
        ((6, 2), True, False, False),
        ((7, 2), True, True, False),
        ((8, 7), True, True, True),
        ((11, 0), True, True, True),
    ],
)
def test_what_a_gpu_computes_fast_follows_from_its_generation(capability, fp16, int8, bf16):
    found = device.fast_fp16(capability), device.fast_int8(capability), device.has_bf16(capability)
    assert found == (fp16, int8, bf16)


@pytest.mark.parametrize(("capability", "integrated", "zero_copy"), [((5, 3), 1, 0), ((7, 2), 1, 1), ((8, 6), 0, 0)])
def test_only_coherent_boards_share_their_memory(gpu, capability, integrated, zero_copy):
    gpu(compute_capability=capability, integrated=bool(integrated))
    assert library.probe().device.zero_copy == bool(zero_copy)


@pytest.mark.parametrize(("answer", "code"), [(100, "engine.no_device"), (3, "engine.no_driver"), (999, "engine.no_driver")])
def test_a_driver_that_does_not_start_is_told_before_tensorrt_is_touched(gpu, answer, code):
    one = gpu()
    one.faults(cuda_init=answer)
    facts = library.facts()
    assert (facts["available"], facts["code"]) == (False, code)
    assert "cuInit answered %d" % answer in facts["text"]
    assert "video" in facts["text"]
    assert "tensorrt" not in sys.modules


def test_a_gpu_that_comes_later_is_found(gpu):
    one = gpu()
    one.faults(cuda_init=100)
    assert not library.facts()["available"]
    one.faults()
    assert library.facts()["available"]


@pytest.mark.parametrize("raised", ["ImportError('libnvdla_compiler.so: cannot open shared object file')", "OSError('broken')"])
@pytest.mark.parametrize(("name", "code"), [("tensorrt", "engine.no_library"), ("pycuda", "engine.no_pycuda")])
def test_a_library_that_lacks_a_part_is_unavailable_not_a_crash(gpu, tmp_path, name, code, raised):
    gpu()
    folder = tmp_path / "broken"
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise " + raised)
    sys.path.insert(0, str(folder))
    try:
        facts = library.facts()
    finally:
        sys.path.remove(str(folder))
    assert (facts["available"], facts["code"]) == (False, code)
    assert raised.split("'")[1] in facts["text"]
    assert "[hosts.gpu] python" in facts["text"]


def test_what_was_found_is_not_looked_for_again(gpu):
    one = gpu()
    assert library.probe() is library.probe()
    library.facts()
    assert (one.live()["Runtime"], one.live()["Log"]) == (1, 1)
