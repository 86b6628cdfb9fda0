"""Times an engine in the host's own interpreter, without the agent around it: CUDA graphs and zero-copy, on and off.

And asks it numbers of rows by turns, each with other data and two on their way at a time: each answer must be the one that it
gives without graphs.

Run by gpu_check_run.py: PYTHON -I gpu_check_engine.py PACKAGE PLAN SECONDS ROWS. Python 3.6 syntax. Prints JSON lines.
"""

import collections
import hashlib
import itertools
import json
import os
import sys
import time
import types

package = types.ModuleType("edge_agent")
package.__path__ = [sys.argv[1]]
sys.modules["edge_agent"] = package

import numpy  # noqa: E402

from edge_agent.engine_host.trt import device, engine  # noqa: E402

_RUNS_AT_LEAST = 10
_STRETCH = 40  # runs of one size: enough for graphs to come to be, and to go with the next size
_ON_THE_WAY = 2


def main(plan, seconds, rows):
    """One line for each way to run, all of them on the same numbers."""
    expected = told = None
    for zero_copy, graphs in itertools.product((False, True), (False, True)):
        device.Device.zero_copy = property(lambda self, wanted=zero_copy: wanted)
        opened = engine.open_engine(plan, {"cuda_graphs": graphs})
        try:
            feeds = _feeds(opened, rows)
            names = [spec.name for spec in opened.outputs]
            found, figures = _measure(opened, names, feeds, seconds)
            by_turns = _by_turns(opened, names)
            figures.update(zero_copy=zero_copy, cuda_graphs=graphs, rows=rows, launched=opened.graphs.launched)
        finally:
            opened.close()
        expected, told = expected or found, told or by_turns  # the first way has no graphs
        figures["turns"] = len(by_turns)
        figures["turns_wrong"] = sum(one != other for one, other in zip(by_turns, told))
        figures["same"] = all(numpy.array_equal(one, other) for one, other in zip(found, expected))
        print(json.dumps(figures))
        sys.stdout.flush()


def _turns(largest):
    """Numbers of rows: all by turns, each for a while, by turns again."""
    every = list(range(1, largest + 1))
    mixed = every + every[::-1] + [rows for pair in zip(every, reversed(every)) for rows in pair]
    return mixed + [rows for rows in every for _ in range(_STRETCH)] + mixed


def _by_turns(opened, names):
    """What each answer was, as a digest."""
    found, under_way = [], collections.deque()
    for turn, rows in enumerate(_turns(max(opened.rows))):
        if len(under_way) == _ON_THE_WAY:
            found.append(_digest(under_way.popleft()))
        feeds = _feeds(opened, rows, turn)
        under_way.append(opened.begin(names, {name: [array] for name, array in feeds.items()}))
    return found + [_digest(pending) for pending in under_way]


def _digest(pending):
    digest = hashlib.sha256()
    with pending:
        for array in pending.result():
            digest.update(numpy.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _feeds(opened, rows, seed=3):
    random = numpy.random.RandomState(seed)
    shapes = opened.usual_shapes(opened.inputs, rows)
    if shapes is None:
        raise SystemExit("the plan has no profile for %d rows" % rows)
    return {name: random.rand(*shape).astype(numpy.float32) for name, shape in shapes.items()}


def _measure(opened, names, feeds, seconds):
    for _ in range(_RUNS_AT_LEAST):  # the first runs place memory, and record graphs where they are on
        found = opened.run(names, feeds)
    taken = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < _RUNS_AT_LEAST:
        started = time.perf_counter()
        found = opened.run(names, feeds)
        taken.append((time.perf_counter() - started) * 1e3)
    taken.sort()
    return found, {"p50_ms": round(taken[len(taken) // 2], 4), "p99_ms": round(taken[len(taken) * 99 // 100], 4)}


main(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
os._exit(0)
