"""What a Python model's configuration says: Triton's ModelConfig, and the tensors of it."""

import json

from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.tensors import Spec


class ModelSpec:
    """The configuration of a `load` message, complete; a model may add to it before its tensors are read."""

    def __init__(self, message):
        self.path = message["path"]
        self.max_batch_size = message.get("max_batch_size") or 0
        self._declared = {role: list(message.get(role + "s") or ()) for role in ("input", "output")}
        text = message.get("config_json") or ""
        self.config = json.loads(text) if text else {}
        self.config.setdefault("name", message["model"])
        self.config["max_batch_size"] = self.max_batch_size
        for role, declared in self._declared.items():
            if not self.config.get(role):
                self.config[role] = [self._fields(tensor) for tensor in declared]

    def _fields(self, tensor):
        dims = tensor["shape"][1:] if self.max_batch_size else tensor["shape"]
        datatype = "STRING" if tensor["datatype"] == "BYTES" else tensor["datatype"]
        return {"name": tensor["name"], "data_type": "TYPE_" + datatype, "dims": list(dims)}

    @property
    def decoupled(self):
        """Whether it answers a request any number of times."""
        return bool((self.config.get("model_transaction_policy") or {}).get("decoupled"))

    def complete(self, completed):
        """Takes what the model's own auto_complete_config() added."""
        self.config = completed
        before, self.max_batch_size = self.max_batch_size, int(completed.get("max_batch_size") or 0)
        for role, declared in self._declared.items():
            if self.max_batch_size and not before:
                declared[:] = [dict(tensor, shape=[-1] + list(tensor["shape"])) for tensor in declared]
            known = {tensor["name"] for tensor in declared}
            declared.extend(self._tensor(fields) for fields in completed.get(role) or () if fields["name"] not in known)

    def _tensor(self, fields):
        datatype = fields["data_type"][len("TYPE_") :]
        shape = ([-1] if self.max_batch_size else []) + [int(dim) for dim in fields["dims"]]
        return {"name": fields["name"], "datatype": "BYTES" if datatype == "STRING" else datatype, "shape": shape}

    def specs(self, role):
        """The inputs or outputs; LoadError when there are none, since no file tells them."""
        if not self._declared[role]:
            text = "%s: its configuration names no %s; a Python model needs each with name, data_type and dims"
            raise LoadError(text % (self.path, role))
        return [Spec(tensor["name"], tensor["datatype"], tensor["shape"]) for tensor in self._declared[role]]
