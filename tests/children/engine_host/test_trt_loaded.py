"""Which plan is in this process's memory: the one that the agent means, however often its file is another one."""

import hashlib
import os
import shutil

import pytest

from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.trt import library, loaded

ROWS = ((1, 4), (4, 4), (8, 4))
OTHER = ((1, 4), (8, 4), (8, 4))


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@pytest.fixture(params=["8.2", "10.3.0"])
def one(request, gpu):
    return gpu(version=request.param)


@pytest.fixture
def acquire(one):
    """`acquire(path, sha256)`; what it gave is given back afterwards."""
    found = library.probe()
    found.device.enter()
    given = []

    def acquired(path, sha256=""):
        given.append(loaded.acquire(found, path, -1, sha256))
        return given[-1]

    yield acquired
    for plan in given:
        loaded.release(plan)
    found.device.leave()
    assert loaded._loaded == []


@pytest.fixture
def path(one):
    return str(one.plan("add_one", ROWS))


def test_the_plan_that_is_meant_is_loaded_and_shared(acquire, path):
    plan = acquire(path, digest(path))
    assert [tensor.name for tensor in plan.tensors] == ["x", "y"]
    again = acquire(path, digest(path))
    assert (again is plan) == plan.shareable


def test_another_plan_under_its_name_is_not_loaded(one, acquire, path):
    meant = digest(path)
    one.plan("add_one", OTHER)
    assert digest(path) != meant
    with pytest.raises(LoadError, match="is not the plan that was checked") as caught:
        acquire(path, meant)
    assert caught.value.detail == {"code": "plan.changed"}
    assert loaded._loaded == []
    acquire(path, digest(path))


def test_another_plan_of_the_same_size_and_time_is_not_loaded_either(one, acquire, path):
    meant, seen = digest(path), os.stat(path)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data[-1] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    with pytest.raises(LoadError) as caught:
        acquire(path, meant)
    assert caught.value.detail == {"code": "plan.changed"}


def test_what_is_loaded_already_does_not_stand_in_for_what_is_meant(acquire, path):
    acquire(path, digest(path))
    with pytest.raises(LoadError) as caught:
        acquire(path, "0" * 64)
    assert caught.value.detail == {"code": "plan.changed"}


def test_what_is_loaded_unasked_does_not_stand_in_either(acquire, path):
    acquire(path)
    with pytest.raises(LoadError):
        acquire(path, "0" * 64)


def test_a_copy_of_the_plan_that_is_meant_is_as_good(acquire, path):
    meant = digest(path)
    shutil.copy(path, path + ".copy")
    os.replace(path + ".copy", path)
    acquire(path, meant)


def test_a_plan_that_nobody_has_checked_is_loaded_as_it_is(one, acquire, path):
    one.plan("add_one", OTHER)
    assert acquire(path).users == 1


def test_a_load_order_says_which_plan_is_meant(one, path):
    one.serve(path, tensorrt={"sha256": digest(path)})
    with pytest.raises(LoadError) as caught:
        one.serve(path, tensorrt={"sha256": "0" * 64})
    assert caught.value.detail == {"code": "plan.changed"}
