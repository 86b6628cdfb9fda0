"""One build against each generation of TensorRT, as the doubles have it."""

import json
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "models")
EIGHT = ("8.2", "8.5", "8.6.1")
TEN = ("10.3.0", "10.16.1")
ELEVEN = ("11.4.0",)
ALL = EIGHT + TEN + ELEVEN
MIB = 1 << 20
ANY_X = [{"name": "x", "shape": [-1, 4]}]


class Bench:
    """Builds in a folder; `faults` say what goes wrong in TensorRT."""

    def __init__(self, folder):
        self.folder = folder
        self.plan = folder / "plan.tmp"
        self.timing = folder / "timing.cache"
        self.faults = {}
        self.settings = {}

    def build(self, version, model="add_one.onnx", capability=(8, 7), **order):
        settings = {"VERSION": version, "COMPUTE_CAPABILITY": capability, "FAULTS": str(self.folder / "faults.json")}
        settings.update(self.settings)
        text = "".join("%s = %r\n" % pair for pair in settings.items())
        (self.folder / "fake_gpu_settings.py").write_text(text)
        (self.folder / "faults.json").write_text(json.dumps(self.faults))
        path = model if os.path.isabs(str(model)) else os.path.join(MODELS, model)
        message = {
            "capability": capability,
            "onnx": str(path),
            "output": str(self.plan),
            "precision": "fp32",
            "workspaces": [256 * MIB, 64 * MIB],
            "larger_workspace": 0,
            "memory_short": False,
            "max_batch_size": 8,
            "usual_batch_size": 0,
            "profiles": [],
            "inputs": [],
            "dla_core": -1,
            "strongly_typed": None,
            "calibration": "",
            "timing_cache": str(self.timing),
            "timing_temporary": str(self.folder / ".timing.tmp"),
            "optimization_level": None,
            "expected_s": 0.0,
        }
        message.update(order)
        if self.plan.exists():
            self.plan.unlink()
        (self.folder / "order.json").write_text(json.dumps(message))
        command = [sys.executable, "-I", "-B", os.path.join(HERE, "builds.py"), str(self.folder)]
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert ended.returncode == 0, ended.stdout.decode()
        answer = json.loads((self.folder / "answer.json").read_text())
        assert answer.get("report") is not None or not self.plan.exists(), "a failed build leaves no plan"
        return answer

    def fields(self):
        """What the plan says of itself."""
        return json.loads(self.plan.read_bytes().split(b"\n")[1].decode())

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def number(value):
    """A protobuf varint."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def message(*fields):
    """A protobuf message of (number, value): whole numbers, text and bytes."""
    parts = []
    for key, given in fields:
        value = given.encode() if isinstance(given, str) else given
        whole = isinstance(value, int)
        parts.append(number(key << 3 | 2 * (not whole)) + (number(value) if whole else number(len(value)) + value))
    return b"".join(parts)


def onnx(nodes, constants=()):
    """A model of x to y, FP32 [n, 4]."""
    shape = message((1, message((2, "n"))), (1, message((1, 4))))
    kind = message((1, message((1, 1), (2, shape))))
    graph = [(1, node) for node in nodes] + [(2, "g")] + [(5, constant) for constant in constants]
    graph += [(11, message((1, "x"), (2, kind))), (12, message((1, "y"), (2, kind)))]
    return message((1, 7), (7, message(*graph)), (8, message((2, 13))), (8, message((1, "own"), (2, 1))))


@pytest.fixture
def quantized(bench):
    """Quantizes x and takes it back."""
    scale = message((2, 1), (8, "scale"), (9, b"\0\0\x80\x3f"))
    zero = message((2, 3), (8, "zero"), (9, b"\0"))
    there = message((1, "x"), (1, "scale"), (1, "zero"), (2, "q"), (4, "QuantizeLinear"))
    back = message((1, "q"), (1, "scale"), (1, "zero"), (2, "y"), (4, "DequantizeLinear"))
    return bench.write("quantized.onnx", onnx([there, back], [scale, zero]))


@pytest.fixture
def unknown_operator(bench):
    """Foo is nobody's operator."""
    return bench.write("foo.onnx", onnx([message((1, "x"), (2, "y"), (3, "foo_1"), (4, "Foo"), (7, "own"))]))


@pytest.fixture
def beside(bench):
    """Adds four numbers that lie in a file of their own."""
    bench.write("weights.bin", b"\0\0\x80\x3f" * 4)
    place = message((1, "location"), (2, "weights.bin"))
    weights = message((1, 4), (2, 1), (8, "weights"), (13, place), (14, 1))
    return bench.write("beside.onnx", onnx([message((1, "x"), (1, "weights"), (2, "y"), (4, "Add"))], [weights]))


@pytest.mark.parametrize("version", ALL)
def test_each_generation_builds_a_plan_with_a_dynamic_batch(bench, version):
    report = bench.build(version, usual_batch_size=2)["report"]
    assert report["profiles"] == [{"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}}]
    assert report["io"] == [
        {"name": "x", "mode": "input", "datatype": "FP32", "shape": [-1, 4]},
        {"name": "y", "mode": "output", "datatype": "FP32", "shape": [-1, 4]},
    ]
    assert (report["precision"], report["workspace_bytes"], report["warnings"]) == ("fp32", 256 * MIB, [])
    assert report["strongly_typed"] == (version in ELEVEN)
    assert report["seconds"] > 0
    assert report["peak_rss_bytes"] > MIB
    fields = bench.fields()
    assert (fields["tensorrt"], fields["workspace"]) == (version, 256 * MIB)
    assert fields["profiles"] == [{"x": [[1, 4], [2, 4], [8, 4]]}]
    assert bench.timing.exists()


@pytest.mark.parametrize("version", EIGHT + TEN)
@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_precision_is_a_flag_before_eleven(bench, version, precision):
    assert bench.build(version, precision=precision)["report"]["precision"] == precision
    assert bench.fields()["precision"] == precision


@pytest.mark.parametrize("version", ELEVEN)
def test_from_eleven_on_a_model_must_be_of_the_precision_itself(bench, version):
    refused = bench.build(version, precision="fp16")
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)
    assert "modelopt.onnx.autocast" in refused["text"]
    assert bench.build(version, "same_half.onnx", inputs=ANY_X, precision="fp16")["report"]["precision"] == "fp16"


@pytest.mark.parametrize("version", TEN)
def test_ten_builds_strongly_typed_on_wish_and_takes_no_flag_then(bench, version):
    report = bench.build(version, "same_half.onnx", inputs=ANY_X, precision="fp16", strongly_typed=True)["report"]
    assert report["strongly_typed"]
    assert bench.fields()["precision"] == "typed"
    assert bench.build(version, precision="fp16", strongly_typed=True)["code"] == "build.precision_unsupported"


@pytest.mark.parametrize("version", EIGHT)
def test_eight_knows_no_strongly_typed_networks_and_says_so(bench, version):
    refused = bench.build(version, strongly_typed=True)
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)
    assert 'strongly_typed = "auto"' in refused["text"]


@pytest.mark.parametrize("version", EIGHT + TEN)
def test_int8_takes_a_calibration_cache(bench, version):
    cache = bench.write("calibration.cache", b"TRT-8201-EntropyCalibration2\nx: 3c010a14\n")
    assert bench.build(version, precision="int8", calibration=cache)["report"]["precision"] == "int8"
    assert bench.fields()["precision"] == "int8"
    assert (bench.folder / "calibration.cache").read_bytes() == b"TRT-8201-EntropyCalibration2\nx: 3c010a14\n"


@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
def test_a_calibration_cache_that_does_not_fit_is_told_as_such(bench, version):
    cache = bench.write("calibration.cache", b"something else")
    refused = bench.build(version, precision="int8", calibration=cache)
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)
    assert "the calibration cache is not this model's" in refused["text"]


@pytest.mark.parametrize("version", ALL)
def test_int8_with_neither_cache_nor_quantized_model_is_refused(bench, version):
    refused = bench.build(version, precision="int8")
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)
    assert "Q/DQ nodes" in refused["text"]


@pytest.mark.parametrize("data", [b"", b"  \n"])
def test_an_empty_calibration_cache_is_none(bench, data):
    refused = bench.build("8.2", precision="int8", calibration=bench.write("calibration.cache", data))
    assert (refused["code"], "is no calibration cache" in refused["text"]) == ("build.precision_unsupported", True)


def test_a_calibration_cache_that_is_missing_is_told(bench):
    refused = bench.build("8.2", precision="int8", calibration=str(bench.folder / "gone"))
    assert (refused["code"], "cannot be read" in refused["text"]) == ("build.precision_unsupported", True)


@pytest.mark.parametrize("version", EIGHT + TEN)
def test_a_nano_has_no_int8_but_fp16(bench, version):
    refused = bench.build(version, capability=(5, 3), precision="int8")
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)
    assert "compute capability 5.3" in refused["text"]
    assert bench.build(version, capability=(5, 3), precision="fp16")["report"]["precision"] == "fp16"


@pytest.mark.parametrize("version", ["8.2", "11.4.0"])
def test_fp16_is_refused_where_it_is_slow(bench, version):
    refused = bench.build(version, capability=(6, 1), precision="fp16")
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)
    assert "FP16 is slow" in refused["text"]


@pytest.mark.parametrize("version", ALL)
def test_a_quantized_model_builds_as_int8_without_a_cache(bench, version, quantized):
    report = bench.build(version, quantized, precision="int8", calibration=bench.write("c", b"TRT-"))["report"]
    assert report["precision"] == "int8"
    assert any("Q/DQ nodes of its own" in warning for warning in report["warnings"])


@pytest.mark.parametrize("version", ["8.5", "10.3.0"])
def test_a_quantized_model_needs_int8_to_be_asked_for(bench, version, quantized):
    refused = bench.build(version, quantized, precision="fp16")
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)
    assert 'precision = "int8"' in refused["text"]


@pytest.mark.parametrize("version", ALL)
def test_what_is_no_onnx_is_a_parse_failure_for_good(bench, version):
    refused = bench.build(version, bench.write("bad.onnx", b"nothing of the kind" * 9))
    assert (refused["code"], refused["permanent"]) == ("build.parse_failed", True)
    assert "MODEL_DESERIALIZE_FAILED" in refused["text"]


@pytest.mark.parametrize("version", ALL)
def test_an_operator_that_tensorrt_lacks_is_told_with_its_node(bench, version, unknown_operator):
    refused = bench.build(version, unknown_operator)
    assert (refused["code"], refused["permanent"]) == ("build.unsupported_operator", True)
    assert "node" in refused["text"]
    if version in TEN + ELEVEN:
        assert "(Foo)" in refused["text"]


def test_an_operator_that_only_eight_two_lacks(bench):
    refused = bench.build("8.2", "nonzero.onnx", max_batch_size=0)
    assert (refused["code"], refused["permanent"]) == ("build.unsupported_operator", True)
    assert "NonZero" in refused["text"]


@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
def test_a_size_that_nobody_tells_is_refused_with_the_line_to_write(bench, version):
    refused = bench.build(version, "add_one_any.onnx")
    assert (refused["code"], refused["permanent"]) == ("build.no_profile", True)
    assert "input 'x'" in refused["text"]
    assert "profiles = [{ x = { min = [1, 320], opt = [8, 640], max = [8, 1280] } }]" in refused["text"]
    assert bench.build(version, "add_one_any.onnx", inputs=[{"name": "x", "shape": [-1, 6]}])["report"]


def test_given_profiles_become_the_plan_s(bench):
    given = [{"x": {"min": [1], "opt": [4], "max": [9]}}, {"x": {"min": [2, 5], "opt": [2, 5], "max": [2, 5]}}]
    report = bench.build("10.3.0", "add_one_any.onnx", profiles=given)["report"]
    assert [one["x"]["max"] for one in report["profiles"]] == [[8, 9], [2, 5]]
    assert [one["x"][2] for one in bench.fields()["profiles"]] == [[8, 9], [2, 5]]


def test_a_fixed_model_needs_no_profile(bench):
    report = bench.build("8.2", "add_one_fixed.onnx")["report"]
    assert report["profiles"] == []


def test_a_model_that_cannot_be_read_may_be_there_the_next_time(bench):
    refused = bench.build("8.2", str(bench.folder / "gone.onnx"))
    assert (refused["code"], refused["permanent"]) == ("build.failed", False)


@pytest.mark.parametrize("version", ALL)
def test_a_workspace_that_is_too_large_is_followed_by_a_smaller_one_and_told(bench, version):
    bench.faults = {"no_memory_above": 100 * MIB}
    answer = bench.build(version)
    assert answer["report"]["workspace_bytes"] == 64 * MIB
    assert bench.fields()["workspace"] == 64 * MIB
    retries = [told for told in answer["told"] if told["text"] and told["phase"] == "build"]
    assert [told["workspace_bytes"] for told in retries] == [64 * MIB]
    assert "with a workspace of 256 MB TensorRT ran out of memory" in retries[0]["text"]


@pytest.mark.parametrize("version", ALL)
def test_without_memory_for_the_smallest_workspace_the_build_is_out_of_memory(bench, version):
    bench.faults = {"build": "oom"}
    refused = bench.build(version)
    assert (refused["code"], refused["permanent"]) == ("build.out_of_memory", False)
    assert "with a workspace of 64 MB" in refused["text"]
    assert "out of memory" in refused["text"]


def tried(answer):
    """Workspaces of the tries, in MB."""
    return [told["workspace_bytes"] // MIB for told in answer["told"] if told["phase"] == "build"]


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("short", [False, True])
def test_a_layer_without_kernel_is_never_tried_with_less_and_is_no_want_of_memory(bench, version, short):
    """It is often too little workspace, or a source of kernels that is off: less of either finds no kernel either."""
    bench.faults = {"build": "no_tactic"}
    answer = bench.build(version, larger_workspace=512 * MIB, memory_short=short)
    assert (answer["code"], answer["permanent"]) == ("build.failed", False)
    assert "a larger workspace_mb in [build] may help" in answer["text"]
    lean_first = [256] if short and version in EIGHT else []
    assert tried(answer) == [*lean_first, 256, 512]


@pytest.mark.parametrize("version", ALL)
def test_a_larger_workspace_is_tried_where_it_may_be_and_a_layer_has_no_kernel(bench, version):
    bench.faults = {"no_kernel_below": 300 * MIB}
    report = bench.build(version, larger_workspace=512 * MIB)["report"]
    assert report["workspace_bytes"] == 512 * MIB
    assert bench.fields()["workspace"] == 512 * MIB


@pytest.mark.parametrize("version", EIGHT)
def test_all_sources_of_kernels_are_there_from_the_start_where_memory_is_not_short(bench, version):
    bench.faults = {"needs_libraries": True}
    answer = bench.build(version)
    assert tried(answer) == [256]
    assert answer["report"]["workspace_bytes"] == 256 * MIB


@pytest.mark.parametrize("version", EIGHT)
def test_where_memory_is_short_a_layer_that_needs_the_libraries_gets_them_at_the_largest_size(bench, version):
    bench.faults = {"needs_libraries": True}
    answer = bench.build(version, memory_short=True)
    assert tried(answer) == [256, 256]
    assert answer["report"]["workspace_bytes"] == 256 * MIB


@pytest.mark.parametrize("version", EIGHT)
def test_after_want_of_memory_it_goes_without_the_libraries_first(bench, version):
    bench.faults = {"needs_libraries": True, "no_memory_above": 100 * MIB}
    answer = bench.build(version, larger_workspace=512 * MIB)
    assert tried(answer) == [256, 64, 256, 64]
    assert answer["report"]["workspace_bytes"] == 64 * MIB


@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
def test_any_other_failure_is_told_in_tensorrt_s_words_and_may_pass(bench, version):
    bench.faults = {"build": "none"}
    refused = bench.build(version)
    assert (refused["code"], refused["permanent"]) == ("build.failed", False)
    assert "Assertion failed" in refused["text"]


def test_the_timing_cache_makes_the_second_build_fast(bench):
    bench.faults = {"build_s": 1.0}
    first = bench.build("8.6.1")["report"]["seconds"]
    assert bench.build("8.6.1")["report"]["seconds"] < first - 0.5


@pytest.mark.parametrize("data", [b"\0\1\2 damaged", b'{"known": [], "origin": "8.2 on 5.3"}'])
def test_a_timing_cache_that_does_not_fit_is_begun_anew(bench, data):
    bench.timing.write_bytes(data)
    report = bench.build("8.6.1")["report"]
    assert len(report["warnings"]) == 1
    assert "begun anew" in report["warnings"][0]
    assert b"8.6.1 on 8.7" in bench.timing.read_bytes()


def test_what_a_failed_build_has_measured_is_kept(bench):
    bench.faults = {"build": "oom"}
    bench.build("10.3.0")
    assert json.loads(bench.timing.read_text())["known"]
    assert not (bench.folder / ".timing.tmp").exists()


@pytest.mark.parametrize("version", ["8.2", "8.5", "10.3.0"])
def test_a_dla_core_takes_fp16_with_the_gpu_to_fall_back_to(bench, version):
    bench.settings = {"DLA_CORES": 2}
    report = bench.build(version, precision="fp16", dla_core=1)["report"]
    assert ["min = opt = max" in warning for warning in report["warnings"]] == [True]
    assert bench.build(version, precision="fp16", dla_core=1, max_batch_size=1)["report"]["warnings"] == []
    assert bench.fields()["dla_core"] == 1
    refused = bench.build(version, precision="fp32", dla_core=1)
    assert (refused["code"], refused["permanent"]) == ("build.precision_unsupported", True)


def test_a_dla_core_that_the_board_lacks_is_refused(bench):
    refused = bench.build("10.3.0", precision="fp16", dla_core=0)
    assert (refused["code"], refused["permanent"]) == ("build.failed", True)
    assert "has 0 DLA cores" in refused["text"]


@pytest.mark.parametrize("version", ["8.2", "8.6.1", "10.3.0"])
def test_an_optimization_level_is_set_where_there_is_one(bench, version):
    assert bench.build(version, optimization_level=1)["report"]
    assert bench.fields()["level"] == (3 if version == "8.2" else 1)


def test_without_a_driver_the_build_fails_with_tensorrt_s_words(bench):
    bench.settings = {"DRIVER": False}
    refused = bench.build("10.3.0")
    assert (refused["code"], refused["permanent"]) == ("build.failed", False)
    assert "CUDA initialization failure" in refused["text"]


def test_weights_beside_the_model_are_found(bench, beside):
    assert bench.build("10.3.0", beside)["report"]
    (bench.folder / "weights.bin").unlink()
    refused = bench.build("10.3.0", beside)
    assert (refused["code"], refused["permanent"]) == ("build.parse_failed", True)
