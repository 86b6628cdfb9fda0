"""What the scripts of these tests share: an engine of the runtime, asked with telling numbers. Python 3.6 syntax."""

import threading

import numpy

from edge_agent.engine_host.trt import engine, library

names = ["y"]


def open_plan(path, **options):
    """An engine on this thread."""
    return engine.open_engine(path, options)


def numbers(seed, rows, width):
    """An input of which each element differs from each other one's, and from those of other seeds."""
    return (numpy.arange(rows * width, dtype=numpy.float32) + seed * 1000).reshape(rows, width)


def ask(opened, seed, rows=2, width=4):
    """Whether the engine adds one to each of them."""
    given = numbers(seed, rows, width)
    (found,) = opened.run(names, {"x": given})
    return found.shape == given.shape and bool((found == given + 1).all())


def begin(opened, seed, rows=2, width=4):
    """A run on its way, of two parts."""
    given = numbers(seed, rows, width)
    return opened.begin(names, {"x": [given[:1], given[1:]]})


def right(pending, seed, rows=2, width=4):
    """Whether it came to the right answer."""
    with pending:
        (found,) = pending.result()
        return bool((found == numbers(seed, rows, width) + 1).all())


def in_thread(function, *args):
    """Runs it on a thread of its own to its end; its answer."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function(*args)))
    thread.start()
    thread.join()
    return answers[0] if answers else None


def free_bytes():
    """What the driver says."""
    found = library.probe().device
    found.enter()
    try:
        return found.free_bytes()
    finally:
        found.leave()
