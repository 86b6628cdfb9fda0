"""One build by the agent's own builder code, with the TensorRT that is named: `one_build.py MODULE FOLDER`.

In the folder: order.json (an order as the agent sends it), and afterwards answer.json and the plan.
"""

import importlib
import json
import os
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(module, folder):
    """Builds."""
    package = types.ModuleType("edge_agent")
    package.__path__ = [os.path.join(ROOT, "edge_agent")]
    sys.modules["edge_agent"] = package
    trt = importlib.import_module(module)
    from edge_agent.engine_host.build.job import Job, Tools
    from edge_agent.engine_host.build.order import Order
    from edge_agent.engine_host.build.progress import Progress
    from edge_agent.engine_host.control import Refused
    from edge_agent.engine_host.trt import logger

    with open(os.path.join(folder, "order.json")) as file:
        message = json.load(file)
    facts = {"device": "no GPU", "compute_capability": [8, 9], "fp16": True, "int8": True}
    log = logger.make(trt)
    try:
        answer = {"report": Job(Tools(trt, log, facts), Order(message), Progress(lambda fields: None, 0.0)).run()}
    except Refused as refusal:
        answer = {"code": refusal.code, "text": refusal.text, "permanent": refusal.detail["permanent"]}
    answer["log"] = [entry[2] for entry in log.lines]
    with open(os.path.join(folder, "answer.json"), "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
