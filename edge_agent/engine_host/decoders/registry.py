"""The decoder that a model's `[decode]` section names."""

from edge_agent.engine_host.decoders import foreign
from edge_agent.engine_host.decoders.centerface import CenterFace
from edge_agent.engine_host.decoders.classification import Classification
from edge_agent.engine_host.decoders.decoder import DecodeError, Options
from edge_agent.engine_host.decoders.ssd import Ssd
from edge_agent.engine_host.decoders.yolo import Yolo
from edge_agent.engine_host.decoders.yunet import YuNet

_KINDS = {
    "yolo": Yolo,
    "ssd": Ssd,
    "centerface": CenterFace,
    "yunet": YuNet,
    "classification": Classification,
}


def make(config, inputs, outputs, directory=""):
    """An object with decode(outputs, rows, size), or None without a kind; DecodeError when it cannot be.

    `decode` takes a dict of output name to batched array, the number of rows, and (height, width) of the model's
    input; it answers one list a row of {"label", "score", "box"}, boxes in pixels of the input.
    """
    kind = (config or {}).get("kind", "none")
    if kind == "none":
        return None
    if kind.startswith("python:"):
        return foreign.load(kind, config, inputs, outputs, directory)
    decoder = _KINDS.get(kind)
    if decoder is None:
        raise DecodeError(
            "kind '%s' is unknown; there are %s, none and python:MODULE:CLASS" % (kind, ", ".join(sorted(_KINDS)))
        )
    return decoder(Options(config), outputs)
