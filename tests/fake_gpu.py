"""An interpreter that has the fake TensorRT and PyCUDA of tests/doubles/gpu, for hosts and builders under test.

    python = gpu_python(tmp_path, version="8.2.1", faults=tmp_path / "faults.json")
    set_faults(tmp_path / "faults.json", enqueue="false")

Faults (read anew at each call):
    enqueue         "false" (refused), "error" (the context breaks down), "hang", "hang_gil"
    deserialize     "none", "oom" (None too, the log says out of memory), "crash", "hang", "hang_gil"; another text
                    is logged and None the answer
    build           "none", "crash", "hang", "hang_gil", "oom", "no_tactic", "slow"; another text is logged and nothing is built
    build_s         how long a build takes (a tenth with a timing cache that knows the model)
    gate            path: while that file exists, builds wait
    no_memory_above builds with a larger workspace are out of memory
    no_kernel_below builds with a smaller workspace find no kernel
    needs_libraries builds that go without cuDNN find no kernel
    parse           text: the parser fails with it
    wrong_outputs   added to each floating-point output of an engine
    compute_ms      how long an engine takes for a batch
    compute_gate    path: while that file exists, engines do not begin
    cuda_init       the code of cuInit
    alloc_above     a single allocation of more bytes is out of memory
Python 3.6 syntax: the children's own tests use it too.
"""

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys

DOUBLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "doubles", "gpu")
_FAKES = ("tensorrt", "pycuda", "fake_gpu", "fake_gpu_settings")
_SITES = "import site, sys; print('\\n'.join([p for p in sys.path if p.endswith('-packages')]))"
_PYTHON = "import os, sys; print(os.path.realpath(sys.executable)); print('%d.%d' % sys.version_info[:2])"


def gpu_python(
    folder,
    version="10.3.0",
    compute_capability=(8, 7),
    integrated=True,
    faults=None,
    driver=True,
    python=None,
    stats=None,
    **device,
):
    """The path of an interpreter, made in the folder, that imports the fakes and the libraries of `python` (this one).

    `device`: name, multiprocessors, memory_bytes, cuda_version, dla_cores. `stats` names a file that tells live objects.
    """
    folder = os.path.join(str(folder), "gpu-python")
    base = subprocess.check_output([python or sys.executable, "-c", _PYTHON], universal_newlines=True).split("\n")
    sites = subprocess.check_output([python or sys.executable, "-I", "-c", _SITES], universal_newlines=True).split("\n")
    packages = os.path.join(folder, "lib", "python" + base[1], "site-packages")
    for made in (os.path.join(folder, "bin"), packages):
        os.makedirs(made, exist_ok=True)
    executable = os.path.join(folder, "bin", "python")
    if os.path.lexists(executable):
        os.unlink(executable)
    os.symlink(base[0], executable)
    with open(os.path.join(folder, "pyvenv.cfg"), "w") as file:
        file.write("home = %s\ninclude-system-site-packages = false\n" % os.path.dirname(base[0]))
    write_settings(packages, version, compute_capability, integrated, faults, driver, stats, **device)
    with open(os.path.join(packages, "fake_gpu.pth"), "w") as file:
        lines = [DOUBLES, "import fake_gpu.cuda_calls; fake_gpu.cuda_calls.install()"]
        file.write("\n".join(lines + [site for site in sites if site]) + "\n")
    return executable


def write_settings(
    folder, version="10.3.0", compute_capability=(8, 7), integrated=True, faults=None, driver=True, stats=None, **device
):
    """The module that tells the fakes what to be; its folder belongs on the path, beside DOUBLES."""
    chosen = {
        "VERSION": version,
        "COMPUTE_CAPABILITY": tuple(compute_capability),
        "INTEGRATED": integrated,
        "FAULTS": str(faults or ""),
        "DRIVER": driver,
        "STATS": str(stats or ""),
        "LIBCUDA": build_libcuda(folder) if driver else "",
    }
    chosen.update({"DEVICE" if name == "name" else name.upper(): value for name, value in device.items()})
    with open(os.path.join(str(folder), "fake_gpu_settings.py"), "w") as file:
        file.writelines("%s = %r\n" % pair for pair in sorted(chosen.items()))


def build_libcuda(folder):
    """Compiles the libcuda.so.1 through which ctypes finds the fake device."""
    if shutil.which("gcc") is None:
        import pytest

        pytest.skip("the fake driver is compiled by gcc, which is not here")
    target = os.path.join(str(folder), "libcuda.so.1")
    source = os.path.join(DOUBLES, "fake_gpu", "libcuda.c")
    subprocess.check_call(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", target, source])
    return target


def set_faults(path, **faults):
    """What shall go wrong from now on, and nothing else."""
    temporary = "%s.new" % path
    with open(temporary, "w") as file:
        json.dump({name: str(value) if hasattr(value, "__fspath__") else value for name, value in faults.items()}, file)
    os.replace(temporary, str(path))


def make_plan(onnx_path, target, version="10.3.0", compute_capability=(8, 7), precision="fp32", profiles=None, **fields):
    """Writes a plan as the builder would have, without one. `profiles`: [{input: (min, opt, max)}]."""
    plan = fake_module("plan")
    fields = dict(
        {"quantized": False, "strongly_typed": False, "shared_profiles": version.split(".")[0] != "8", "dla_core": -1}, **fields
    )
    fields.update(
        tensorrt=version,
        capability=list(compute_capability),
        precision=precision,
        profiles=[{name: [list(shape) for shape in shapes] for name, shapes in one.items()} for one in profiles or [{}]],
    )
    with open(str(onnx_path), "rb") as file:
        data = plan.pack(fields, file.read())
    with open(str(target), "wb") as file:
        file.write(data)
    return target


def fake_module(name):
    """A module of the fakes that needs nothing else, without putting them on this process's path."""
    spec = importlib.util.spec_from_file_location("fake_gpu_" + name, os.path.join(DOUBLES, "fake_gpu", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class InProcess:
    """A context manager: the fakes can be imported in this process, and are forgotten afterwards.

    libcuda.so.1 stays once it was loaded; after the end it answers 801 to everything.
    """

    _library = []

    def __init__(self, folder, **choices):
        self._folder = str(folder)
        self._choices = choices

    def __enter__(self):
        self._forget()
        write_settings(self._folder, **self._choices)
        sys.path[:0] = [self._folder, DOUBLES]
        settings = importlib.import_module("fake_gpu.settings")
        if settings.LIBCUDA and not self._library:
            self._library.append(settings.LIBCUDA)
        if settings.LIBCUDA:
            settings.LIBCUDA = self._library[0]  # one library for a process: a second one would never be found
        importlib.import_module("fake_gpu.cuda_calls").install()
        return self

    def __exit__(self, *_):
        sys.modules["fake_gpu.cuda_calls"].uninstall()
        for entry in (self._folder, DOUBLES):
            sys.path.remove(entry)
        self._forget()

    @staticmethod
    def _forget():
        for name in [name for name in sys.modules if name.split(".")[0] in _FAKES]:
            del sys.modules[name]
        importlib.invalidate_caches()
