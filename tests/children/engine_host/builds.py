"""Runs one build against the test's TensorRT, as a process of its own: `builds.py FOLDER`, order and answer by JSON."""

import json
import os
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def main(folder):
    package = types.ModuleType("edge_agent")
    package.__path__ = [os.path.join(ROOT, "edge_agent")]
    sys.modules["edge_agent"] = package
    sys.path[:0] = [folder, os.path.join(ROOT, "tests", "doubles", "gpu")]
    import tensorrt

    from edge_agent.engine_host.build.job import Job, Tools
    from edge_agent.engine_host.build.order import Order
    from edge_agent.engine_host.build.progress import Progress
    from edge_agent.engine_host.control import Refused
    from edge_agent.engine_host.trt import device, logger

    with open(os.path.join(folder, "order.json")) as file:
        message = json.load(file)
    capability = tuple(message.pop("capability"))
    facts = {"device": "Orin", "compute_capability": list(capability)}
    facts.update(fp16=device.fast_fp16(capability), int8=device.fast_int8(capability))
    told = []
    try:
        tools = Tools(tensorrt, logger.make(tensorrt), facts)
        answer = {"report": Job(tools, Order(message), Progress(told.append, 0.0)).run()}
    except Refused as refusal:
        answer = {"code": refusal.code, "text": refusal.text, "permanent": refusal.detail["permanent"]}
    with open(os.path.join(folder, "answer.json"), "w") as file:
        json.dump(dict(answer, told=told), file)


if __name__ == "__main__":
    main(sys.argv[1])
