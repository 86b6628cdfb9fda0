"""What the agent's status says of a model, in lines for people."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional

from edge_agent.cli.terminal import visible

_LONGEST = 2000
_ENGINES = {"tensorrt": "TensorRT", "onnxruntime": "ONNX Runtime", "python": "Python"}
_STATES = {"ok": "ok", "degraded": "impaired", "failed": "failed", "off": "off"}
#: by what a build does, its words
_PHASES = {
    "": "waits for its turn",
    "waiting": "waits for its next try",
    "parse": "reads the model",
    "build": "builds",
    "serialize": "writes the plan",
    "load": "loads the plan",
    "compare": "compares its answers",
    "time": "measures it",
}
#: of a check: a figure, its text, and what it is multiplied by
_FIGURES = (
    ("compared", "%d answers compared", 1),
    ("max_abs_error", "largest difference %g", 1),
    ("max_share", "that is %.2g %% of the largest value", 100),
    ("p50_ms", "%g ms a run", 1),
    ("p95_ms", "95 of 100 within %g ms", 1),
)

Json = Mapping[str, Any]


def model_lines(model: Json) -> Iterator[str]:
    """One model as `models show` prints it: versions, plans, builds, comparisons, tensors."""
    yield "%s: %s" % (visible(str(model["name"])), _STATES.get(model["state"], model["state"]))
    if not model["versions"]:
        yield from _why(model)
    for version in model["versions"]:
        yield from _version_lines(version)
    for kind in ("inputs", "outputs"):
        for tensor in model.get(kind, ()):
            yield "%s %s %s %s" % (kind[:-1], visible(tensor["name"]), tensor["datatype"], tensor["shape"])


def _version_lines(version: Json) -> Iterator[str]:
    facts = [_STATES.get(version["state"], version["state"]), engine(version)]
    yield "version %s: %s" % (version["version"], ", ".join(filter(None, facts)))
    yield from _why(version)
    lines = [("build", build_text(version.get("build"))), ("plan", figures_text(version.get("plan")))]
    for head, text in (*lines, ("compared", shadow_text(version.get("shadow")))):
        if text:
            yield "  %s: %s" % (head, text)


def _why(part: Json) -> Iterator[str]:
    for head, text in (("", part.get("reason")), ("what to do: ", part.get("cure"))):
        if text:
            yield "  " + head + plain(str(text))


def engine(version: Json) -> str:
    """What runs a version, and whether a plan was checked; empty where nothing does."""
    name = str(version.get("engine") or "")
    shown = _ENGINES.get(name, visible(name))
    return shown + (", checked" if version.get("verified") else ", not checked") if name == "tensorrt" else shown


def build_text(build: Optional[Json]) -> str:
    """How far a plan is."""
    if not build:
        return ""
    state = build["state"]
    if state in ("done", "failed"):
        return " ".join(filter(None, [str(state), _because(build)]))
    facts = [_PHASES.get(build["phase"], visible(str(build["phase"])))]
    if build["percent"]:
        facts.append("%.0f %%" % build["percent"])
    if build["eta_s"] is not None:
        facts.append("about %s left" % duration(build["eta_s"]))
    if build["tries"] > 1:
        facts.append("try %d" % build["tries"])
    more = [plain(str(build["text"])), _because(build)]
    return " ".join(filter(None, [", ".join(facts), *more]))


def _because(build: Json) -> str:
    return "(%s)" % plain(str(build["reason"])) if build.get("reason") else ""


def figures_text(figures: Optional[Json]) -> str:
    """What a plan is, and what its check found."""
    if not figures:
        return ""
    facts: List[str] = [visible(str(figures["precision"]))] if figures.get("precision") else []
    for name, text, factor in _FIGURES:
        number = figures.get(name)
        if isinstance(number, (int, float)):
            facts.append(text % (factor * number))
    return ", ".join(facts)


def shadow_text(shadow: Optional[Json]) -> str:
    """How a version does beside the one that serves."""
    if not shadow:
        return ""
    facts = ["%d of %d requests" % (shadow["compared"], shadow["wanted"])]
    if shadow["agreement"] is not None:
        facts.append("%.1f %% agree" % (100 * shadow["agreement"]))
    if shadow["p95_ms"] is not None:
        facts.append("95 of 100 within %g ms, of the one that serves %g ms" % (shadow["p95_ms"], shadow["serving_p95_ms"]))
    if shadow.get("errors"):
        facts.append("%d failed" % shadow["errors"])
    if shadow["paused"]:
        facts.append("paused: %s" % plain(str(shadow["paused"])))
    if shadow.get("overdue"):
        facts.append("too little traffic so far")
    return ", ".join(facts)


def duration(seconds: float) -> str:
    """In the largest unit, hours with minutes."""
    whole = max(0, round(seconds))
    if whole < 90:
        return "%d s" % whole
    if whole < 5400:
        return "%d min" % round(whole / 60)
    return "%d h %d min" % divmod(whole // 60, 60)


def plain(text: str) -> str:
    """A text from outside, whole and without what steers a terminal."""
    return visible(text, _LONGEST)


def version_of(model: Optional[Json], number: str) -> Optional[Dict[str, Any]]:
    """The entry of a version in that of its model."""
    return next((one for one in (model or {}).get("versions", ()) if one["version"] == number), None)
