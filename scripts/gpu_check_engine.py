"""Times an engine in the host's own interpreter, without the agent around it: CUDA graphs and zero-copy, on and off.

Run by gpu_check_run.py: PYTHON -I gpu_check_engine.py PACKAGE PLAN SECONDS ROWS. Python 3.6 syntax. Prints JSON lines.
"""

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


def main(plan, seconds, rows):
    """One line for each way to run, all of them on the same numbers."""
    expected = None
    for zero_copy, graphs in itertools.product((False, True), (False, True)):
        device.Device.zero_copy = property(lambda self, wanted=zero_copy: wanted)
        opened = engine.open_engine(plan, {"cuda_graphs": graphs})
        try:
            feeds = _feeds(opened, rows)
            names = [spec.name for spec in opened.outputs]
            found, figures = _measure(opened, names, feeds, seconds)
            figures.update(zero_copy=zero_copy, cuda_graphs=graphs, rows=rows, launched=opened.graphs.launched)
        finally:
            opened.close()
        expected = expected or found
        figures["same"] = all(numpy.array_equal(one, other) for one, other in zip(found, expected))
        print(json.dumps(figures))
        sys.stdout.flush()


def _feeds(opened, rows):
    random = numpy.random.RandomState(3)
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
