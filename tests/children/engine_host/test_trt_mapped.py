"""What a process has mapped."""

import hashlib
import subprocess
import sys

import pytest

from edge_agent.engine_host.trt import mapped

LINE = "7f00-7f10 r-xp 00000000 fd:01 1234                       %s\n"


@pytest.fixture
def maps(tmp_path):
    def write(*paths):
        path = tmp_path / "maps"
        path.write_text("7f20-7f30 rw-p 00000000 00:00 0 \n" + "".join(LINE % one for one in paths) * 2)
        return str(path)

    return write


def test_each_library_of_plugins_counts_once(tmp_path, maps):
    names = ["libnvinfer_plugin.so.8.2.1", "libnvinfer_vc_plugin.so.10", "libnvinfer.so.10", "plugin.so"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode() * 500000)
    found = mapped.plugin_digests(maps(*(tmp_path / name for name in names)))
    assert found == sorted(hashlib.sha256(name.encode() * 500000).hexdigest() for name in names[:2])


def test_a_library_that_was_exchanged_is_read_anew(tmp_path, maps):
    path = tmp_path / "libnvinfer_plugin.so.8"
    path.write_bytes(b"one")
    first = mapped.plugin_digests(maps(path))
    path.write_bytes(b"another")
    assert mapped.plugin_digests(maps(path)) != first


def test_a_library_that_was_removed_has_no_digest(tmp_path, maps):
    path = tmp_path / "libnvinfer_plugin.so.8"
    assert mapped.plugin_digests(maps("%s (deleted)" % path)) == []
    assert mapped.plugin_digests(str(tmp_path / "nothing")) == []


ASK = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("mapped", sys.argv[1])
mapped = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mapped)
print(mapped.cuda_runtime(), mapped.cuda_runtime(sys.argv[2]), mapped.plugin_digests())
"""


def asked(maps):
    """In a process of its own: what it opens stays open."""
    words = [sys.executable, "-c", ASK, mapped.__file__, maps]
    return subprocess.check_output(words).decode().strip()


def compiled(target, code, *links):
    """A library; skipped without a compiler."""
    source = target.with_suffix(".c")
    source.write_text(code)
    words = ["gcc", "-shared", "-fPIC", "-o", str(target), str(source), "-Wl,--no-as-needed"]
    try:
        subprocess.check_call(words + [str(one) for one in links])
    except FileNotFoundError:
        pytest.skip("there is no gcc here")
    return target


def test_cuda_s_runtime_is_the_one_that_tensorrt_is_linked_to(tmp_path, maps):
    answers = "int cudaRuntimeGetVersion(int *version) { *version = %d; return 0; }\n"
    runtime = compiled(tmp_path / "libcudart.so.12", answers % 12060)
    other = compiled(tmp_path / "libcudart.so.11", answers % 11040)
    linked = compiled(tmp_path / "libnvinfer.so.10", "int trt(void) { return 1; }\n", runtime)
    assert asked(maps(other, linked)) == "0 12060 []"


def test_a_tensorrt_that_has_the_runtime_within_itself_tells_none(tmp_path, maps):
    static = compiled(tmp_path / "libnvinfer.so.8", "int trt(void) { return 1; }\n")
    assert asked(maps(static)) == "0 0 []"
    assert asked(maps("/nowhere/libnvinfer.so.8", "/lib/other.so")) == "0 0 []"
