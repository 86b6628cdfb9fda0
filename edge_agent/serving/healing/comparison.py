"""Whether the answers of a plan are those that the model should give: pure, on arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

import numpy as np


class Tolerance(NamedTuple):
    """What a precision may cost, as shares of the largest expected value of an output.

    `unequal` is for outputs of whole numbers: the share that may be another one.
    """

    largest: float
    mean: float  #: root of the mean square
    unequal: float


#: fp32 has room for TF32, whose mantissa has 10 bits; fp16 and int8 for what layers in a row add up to
TOLERANCES: Mapping[str, Tolerance] = {
    "fp32": Tolerance(0.01, 0.002, 0.0),
    "fp16": Tolerance(0.05, 0.01, 0.01),
    "int8": Tolerance(0.25, 0.08, 0.05),
}
_WIDEST = TOLERANCES["int8"]

Arrays = Mapping[str, Any]


@dataclass
class Verdict:
    """Of all comparisons of one plan together."""

    wrong: str = ""  #: the first thing that was; empty while all is good
    compared: int = 0  #: answers
    max_abs_error: float = 0.0
    max_share: float = 0.0  #: the largest difference as a share of the output's largest value
    faults: List[str] = field(default_factory=list)

    def figures(self) -> Dict[str, Any]:
        """What is kept of it."""
        return {
            "compared": self.compared,
            "max_abs_error": float("%.6g" % self.max_abs_error),
            "max_share": float("%.6g" % self.max_share),
        }


def compare(verdict: Verdict, got: Arrays, expected: Arrays, precision: str, max_abs_error: Optional[float], what: str) -> None:
    """Adds one answer to the verdict. An output that golden outputs leave out is not looked at."""
    verdict.compared += 1
    for name, right in sorted(expected.items()):
        if name not in got:
            _wrong(verdict, "%s: there is no output '%s'" % (what, name))
            continue
        why = _output(verdict, np.asarray(got[name]), np.asarray(right), TOLERANCES.get(precision, _WIDEST), max_abs_error)
        if why:
            _wrong(verdict, "%s: output '%s' %s" % (what, name, why))


def _wrong(verdict: Verdict, text: str) -> None:
    verdict.wrong = verdict.wrong or text


def _output(verdict: Verdict, got: Any, right: Any, tolerance: Tolerance, max_abs_error: Optional[float]) -> str:
    if got.shape != right.shape:
        return "has shape %s, not %s" % (list(got.shape), list(right.shape))
    if got.size == 0:
        return ""
    if got.dtype.kind == "O" or right.dtype.kind == "O":
        return "" if got.tolist() == right.tolist() else "has other texts than expected"
    if right.dtype.kind != "f" and got.dtype.kind != "f":  # who writes whole numbers for floats means floats
        unequal = float(np.mean(got != right))
        allowed = 0.0 if max_abs_error is not None else tolerance.unequal
        return "" if unequal <= allowed else "has %.3g %% other values than expected" % (100 * unequal)
    return _floats(verdict, got.astype(np.float64), right.astype(np.float64), tolerance, max_abs_error)


def _floats(verdict: Verdict, got: Any, right: Any, tolerance: Tolerance, max_abs_error: Optional[float]) -> str:
    """Where the expected value is no finite number the same one must be there."""
    finite = np.isfinite(right)
    if not np.array_equal(np.isfinite(got), finite):
        return "has values that are not finite, or not where they should be"
    if not finite.any():
        return ""
    off = np.abs(got[finite] - right[finite])
    largest, scale = float(off.max()), float(np.abs(right[finite]).max())
    verdict.max_abs_error = max(verdict.max_abs_error, largest)
    verdict.max_share = max(verdict.max_share, largest / scale if scale else 0.0)
    if max_abs_error is not None:
        return (
            "" if largest <= max_abs_error else "is off by %.4g, more than the %.4g of max_abs_error" % (largest, max_abs_error)
        )
    mean = float(np.sqrt(np.mean(off * off)))
    least = float(np.finfo(np.float16).tiny)  # an output that is all zeros has no scale
    if largest > max(tolerance.largest * scale, least):
        return "is off by %.4g at values up to %.4g" % (largest, scale)
    if mean > max(tolerance.mean * scale, least):
        return "is off by %.4g in the mean at values up to %.4g" % (mean, scale)
    return ""
