"""The configuration object that Triton hands to a Python model's auto_complete_config()."""

import copy


class AutoCompleted:
    """What is there already stays; adding something else under its name is an error."""

    def __init__(self, config):
        self._config = copy.deepcopy(config)

    def as_dict(self):
        """The configuration so far."""
        return self._config

    def add_input(self, tensor):
        """`tensor`: name, data_type, dims, maybe optional."""
        self._add("input", tensor)

    def add_output(self, tensor):
        """`tensor`: name, data_type, dims."""
        self._add("output", tensor)

    def set_max_batch_size(self, size):
        """At most what is configured, where something is."""
        configured = self._config.get("max_batch_size") or 0
        if configured and configured > size:
            raise ValueError("max_batch_size is configured as %d, the model takes %d" % (configured, size))
        if not configured:
            self._config["max_batch_size"] = size

    def set_dynamic_batching(self):
        """Requests that wait are run together."""
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, policy):
        """Only {"decoupled": False} is served here."""
        if policy.get("decoupled"):
            raise ValueError("decoupled models are not served: answer each request once")

    def _add(self, role, tensor):
        for key in ("name", "data_type", "dims"):
            if key not in tensor:
                raise ValueError("an %s has no '%s': %r" % (role, key, tensor))
        known = self._config.setdefault(role, [])
        for other in known:
            if other["name"] == tensor["name"]:
                self._same(role, other, tensor)
                return
        known.append(dict(tensor))

    @staticmethod
    def _same(role, configured, tensor):
        if configured["data_type"] != tensor["data_type"] or list(configured["dims"]) != list(tensor["dims"]):
            text = "%s '%s' is configured as %s %s, the model says %s %s"
            raise ValueError(
                text % (role, tensor["name"], configured["data_type"], configured["dims"], tensor["data_type"], tensor["dims"])
            )
