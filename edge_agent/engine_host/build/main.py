"""The builder: a child process that makes one plan of one ONNX file, for the GPU that it runs on."""

from edge_agent.engine_host import wire
from edge_agent.engine_host.build.failures import refused
from edge_agent.engine_host.build.job import Job, Tools
from edge_agent.engine_host.build.order import Order
from edge_agent.engine_host.build.progress import Progress
from edge_agent.engine_host.control import Control
from edge_agent.engine_host.trt import library
from edge_agent.engine_host.trt.driver import Unavailable


def build(message, send):
    """The report's fields; Refused says why there is no plan."""
    order = Order(message)
    progress = Progress(send, order.expected_s)
    progress.start()
    try:
        found = library.probe()
        return Job(Tools(found.trt, found.log, found.facts()), order, progress).run()
    except Unavailable as error:
        raise refused("build.failed", error.text) from error
    except MemoryError as error:
        raise refused("build.out_of_memory", "the builder ran out of memory: %s" % error) from error
    finally:
        progress.stop()


def main(control_socket, args):
    """Serves until the agent says stop or is gone."""
    control = Control(control_socket, wire.SegmentViews())
    control.handler("facts", control.defer(lambda message, descriptors: library.facts()))
    control.handler(
        "build", control.defer(lambda message, descriptors: build(message, lambda fields: control.event("progress", **fields)))
    )
    control.run()
