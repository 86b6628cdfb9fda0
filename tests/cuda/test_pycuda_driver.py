"""The driver of this folder is one that the real PyCUDA works with, and that is as strict as a real one."""

from __future__ import annotations

BEGIN = """
import numpy, threading, time
import pycuda.driver as cuda
cuda.init()
context = cuda.Device(0).retain_primary_context()
context.push()
"""


def test_pycuda_imports_and_finds_the_device_that_the_test_wants(each_gpu):
    one = each_gpu(compute_major=5, compute_minor=3, multiprocessors=1, memory_limit=4 << 30)
    script = """
    import pycuda.driver as cuda
    cuda.init()
    device = cuda.Device(0)
    integrated = device.get_attribute(cuda.device_attribute.INTEGRATED)
    done(device.name(), device.compute_capability(), device.total_memory(), integrated)
    """
    assert one.says(script) == ["Test device (5, 3) %d 1" % (4 << 30)]


def test_without_a_device_init_raises_pycudas_own_error(gpu):
    one = gpu(init_code=100)
    script = """
    import pycuda.driver as cuda
    try:
        cuda.init()
    except cuda.RuntimeError as error:
        done(isinstance(error, cuda.Error), isinstance(error, RuntimeError), error)
    """
    assert one.says(script) == ["True False cuInit failed: no CUDA-capable device is detected"]


def test_memory_that_is_full_is_refused_and_can_be_had_again(gpu):
    one = gpu(memory_limit=1 << 20, integrated=0)
    script = """
    first = cuda.mem_alloc(900000)
    try:
        cuda.mem_alloc(200000)
    except cuda.MemoryError as error:
        print(error)
    free = cuda.mem_get_info()
    first.free()
    again = cuda.mem_alloc(1 << 20)
    done(free, cuda.mem_get_info())
    """
    lines = one.says(BEGIN, script)
    assert lines == ["cuMemAlloc failed: out of memory", "(%d, %d) (0, %d)" % ((1 << 20) - 900000, 1 << 20, 1 << 20)]
    assert one.driver["memory_refused"] == 2  # PyCUDA collects its garbage and asks once more
    assert one.driver.live() == {"contexts": 1, "allocations": 1, "allocated_bytes": 1 << 20}


def test_a_thread_without_a_context_is_refused(gpu):
    script = """
    said = []
    def work():
        try:
            cuda.Stream()
        except cuda.LogicError as error:
            said.append(str(error))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    done(said[0])
    """
    assert "no currently active context" in gpu().says(BEGIN, script)[0]


def test_asynchronous_work_is_done_in_order_and_seen_after_its_event_only(gpu):
    one = gpu(asynchronous=1, gate=1)
    script = """
    stream, other, event = cuda.Stream(), cuda.Stream(), cuda.Event(cuda.event_flags.BLOCKING_SYNC)
    there, source, back = cuda.mem_alloc(64), cuda.pagelocked_empty(64, numpy.uint8), cuda.pagelocked_empty(64, numpy.uint8)
    source[:], back[:] = 7, 0
    cuda.memcpy_htod_async(there, source, stream)
    event.record(stream)
    other.wait_for_event(event)
    cuda.memcpy_dtoh_async(back, there, other)
    before = (event.query(), other.is_done(), int(back.sum()))
    print(before)
    event.synchronize()
    other.synchronize()
    done(event.query(), other.is_done(), int(back.sum()))
    """
    running = one.start(BEGIN, script)
    assert running.line() == "(False, False, 0)"
    one.driver["gate"] = 0
    assert running.end().lines == ["True True %d" % (7 * 64)]


def test_a_copy_over_the_end_of_an_allocation_is_refused(gpu):
    script = """
    there = cuda.mem_alloc(64)
    cuda.memcpy_htod(there, numpy.zeros(64, numpy.uint8))
    for start, size in ((0, 65), (1, 64)):
        try:
            cuda.memcpy_htod(int(there) + start, numpy.zeros(size, numpy.uint8))
        except cuda.LogicError as error:
            print(error)
    done()
    """
    assert gpu().says(BEGIN, script) == ["cuMemcpyHtoD failed: invalid argument"] * 2


def test_an_error_that_stays_is_answered_to_every_later_call(gpu):
    one = gpu()
    one.driver.fail("cuMemAlloc_v2", 700, skip=1)
    script = """
    first = cuda.mem_alloc(64)
    for what in (lambda: cuda.mem_alloc(64), cuda.Stream, lambda: cuda.mem_get_info()):
        try:
            what()
        except cuda.Error as error:
            print(error)
    done()
    """
    said = one.says(BEGIN, script)
    assert [line.split(": ")[1] for line in said] == ["an illegal memory access was encountered"] * 3


def test_page_locked_memory_that_was_not_asked_for_as_mapped_has_no_device_address(gpu):
    script = """
    plain = cuda.pagelocked_empty(64, numpy.uint8)
    mapped = cuda.pagelocked_empty(64, numpy.uint8, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
    print(mapped.base.get_device_pointer() == mapped.ctypes.data)
    try:
        plain.base.get_device_pointer()
    except cuda.LogicError as error:
        done(error)
    """
    assert gpu().says(BEGIN, script) == ["True", "cuMemHostGetDevicePointer failed: invalid argument"]
