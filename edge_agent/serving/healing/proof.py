"""Tries a plan before anybody is answered from it: loads it aside, compares its answers, measures it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.plans.digest import onnx_digest
from edge_agent.processes.arena import Arena
from edge_agent.serving.healing.asking import Asked, ask
from edge_agent.serving.healing.comparison import Verdict, compare
from edge_agent.serving.healing.golden import GOLDEN_UNREADABLE, golden, misfit
from edge_agent.serving.healing.recipe import golden_folder
from edge_agent.serving.healing.samples import Sample, seeded
from edge_agent.serving.loading import Loader, load_code
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion

_log = logging.getLogger(__name__)

_RUNS = 100
_RUNS_S = 10.0
_LARGEST_RUNS = 20
_DEATHS = 3  #: of its host by one sample
_PATIENCE_S = 60.0  #: for one answer, beside the time that a run may take


@dataclass(frozen=True)
class Proof:
    """`good` is None where nothing could be said: `reason` tells why."""

    good: Optional[bool]
    code: str = ""  #: engine.verify_failed: wrong; engine.plan_refused: it cannot be used at all
    reason: str = ""
    figures: Dict[str, Any] = field(default_factory=dict)
    incomparable: bool = False  #: there is nothing that it could be compared with, now or later
    slow: bool = False  #: right, and slower than allowed: the box may have been busy


@dataclass(frozen=True)
class Candidate:
    """A plan to be tried, of a version as it is configured."""

    of: ServedVersion
    path: Path
    gpu_host: str
    onnx_host: str
    precision: str  #: for what may differ
    sha256: str  #: of the plan
    sizes: Mapping[str, Sequence[int]]  #: what inputs with open dimensions are tried with
    truth: str = ""  #: digest of the ONNX model that it is made of, where there is one


class Refused(Exception):
    """TensorRT does not take the plan, or dies of it."""


class Wrong(Exception):
    """The plan does not do what the model does."""


def refuses(error: errors.EdgeAgentError) -> bool:
    """Whether a plan is to blame for this error, given that it was alone in its host."""
    return load_code(error) == "plan.foreign" or bool(error.args_by_name.get("deaths"))


def cannot_run(error: errors.EdgeAgentError) -> bool:
    """Whether ONNX Runtime is certain not to run the model at any other time."""
    return bool(error.args_by_name.get("permanent"))


class Prover:
    """One proof at a time, whoever asks; it leaves no engine behind."""

    def __init__(self, loader: Loader, arena: Arena, clock: Clock) -> None:
        self._loader = loader
        self._arena = arena
        self._clock = clock
        self._lock: Optional[asyncio.Lock] = None

    async def prove(
        self,
        candidate: Candidate,
        serving: Optional[ServedVersion],
        tell: Callable[[str, float], None] = lambda phase, percent: None,
    ) -> Proof:
        """`serving` answers for the model now, by ONNX Runtime from the same files; None: one is loaded for it if need be."""
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            return await self._prove(candidate, serving, tell)

    async def _prove(self, candidate: Candidate, serving: Optional[ServedVersion], tell: Callable[[str, float], None]) -> Proof:
        tell("load", 0.0)
        subject = self._aside(candidate.of, "-proof")
        try:
            given = await self._given(candidate.of)  # first: without them there is nothing to load a plan for
            await self._bring(candidate, subject)
            return await self._try(candidate, subject, serving, given, tell)
        except Refused as error:
            return Proof(False, "engine.plan_refused", str(error))
        except Wrong as error:
            return Proof(False, "engine.verify_failed", str(error))
        except errors.EdgeAgentError as error:
            return Proof(None, load_code(error), str(error))
        finally:
            await self._put_away(subject)

    # -- engines ----------------------------------------------------------------------------------------------------

    def _aside(self, of: ServedVersion, aside: str) -> ServedVersion:
        return ServedVersion(of.name, of.entry, of.config, self._clock, aside=of.aside + aside)

    async def _bring(self, candidate: Candidate, subject: ServedVersion) -> None:
        """In a host of its own, so that an engine that dies takes nobody along."""
        try:
            await self._loader.bring(
                subject, "tensorrt", candidate.path, candidate.gpu_host, once=True, sha256=candidate.sha256
            )
        except errors.ConfigError as error:
            raise Wrong("it does not fit the model's configuration: %s" % error) from error
        except errors.EdgeAgentError as error:
            if refuses(error):
                raise Refused(str(error)) from error
            raise

    async def _put_away(self, version: ServedVersion) -> None:
        if version.hosted is not None:
            version.close(errors.ModelNotReady("the check of its plan is over"))
            await version.retire()
        await self._loader.end_idle_hosts()

    async def _reference(self, candidate: Candidate) -> Optional[ServedVersion]:
        """None where ONNX Runtime never can say what is right; EdgeAgentError where it cannot now."""
        onnx = candidate.of.entry.onnx
        if onnx is None:
            return None
        version = self._aside(candidate.of, "-reference")
        try:
            await self._loader.bring(version, "onnxruntime", onnx, candidate.onnx_host, once=True)
            await self._is_the_truth(candidate, onnx)
        except errors.EdgeAgentError as error:
            await self._put_away(version)
            if not cannot_run(error):
                raise
            _log.warning("%s: ONNX Runtime cannot say what its plan should answer: %s", version.label, error)
            return None
        return version

    async def _is_the_truth(self, candidate: Candidate, onnx: Path) -> None:
        if candidate.truth and await in_thread(onnx_digest, onnx) != candidate.truth:
            raise errors.EngineLoadError("%s is not the one any more that its plan is made of" % onnx)

    # -- comparing --------------------------------------------------------------------------------------------------

    async def _given(self, version: ServedVersion) -> Optional[List[Sample]]:
        """Golden files; None where none are asked for."""
        directory = version.entry.path.parent.parent
        folder = golden_folder(version.config, directory)
        return None if folder is None else await in_thread(golden, folder, directory)

    async def _try(
        self,
        candidate: Candidate,
        subject: ServedVersion,
        serving: Optional[ServedVersion],
        given: Optional[List[Sample]],
        tell: Callable[[str, float], None],
    ) -> Proof:
        version = candidate.of
        if given is not None:
            await self._fit(candidate, subject, serving, given)
            return await self._judge(candidate, subject, given, None, tell)
        reference = serving or await self._reference(candidate)
        try:
            made = seeded(subject.inputs, subject.max_batch_size, version.config.image, candidate.sizes)
            return await self._judge(candidate, subject, await in_thread(lambda: list(made)), reference, tell)
        finally:
            if reference is not None and reference is not serving:
                await self._put_away(reference)

    async def _fit(
        self, candidate: Candidate, subject: ServedVersion, serving: Optional[ServedVersion], samples: Sequence[Sample]
    ) -> None:
        """Wrong where they are the model's and not the plan's; where they are not the model's they say nothing of it."""
        why = misfit(samples, subject)
        if not why:
            return
        truth = serving or await self._reference(candidate)
        try:
            if truth is not None and not misfit(samples, truth):
                raise Wrong("it takes or gives other tensors than the model: %s" % why)
        finally:
            if truth is not None and truth is not serving:
                await self._put_away(truth)
        raise errors.EngineLoadError("[accept] %s: this does not fit the model" % why, code=GOLDEN_UNREADABLE)

    async def _judge(
        self,
        candidate: Candidate,
        subject: ServedVersion,
        samples: List[Sample],
        reference: Optional[ServedVersion],
        tell: Callable[[str, float], None],
    ) -> Proof:
        accept = candidate.of.config.accept
        verdict = Verdict()
        for number, sample in enumerate(samples):
            tell("compare", 100.0 * number / len(samples))
            got = await self._answer(subject, sample)
            right = await self._right(sample, reference)
            if got is None or right is None:
                continue
            limit = accept.max_abs_error if accept is not None else None
            await in_thread(compare, verdict, got.outputs, right, candidate.precision, limit, sample.name)
        if verdict.wrong:
            return Proof(False, "engine.verify_failed", verdict.wrong, verdict.figures())
        tell("time", 0.0)
        figures = {**verdict.figures(), **await self._measured(subject, samples)}
        slowest = accept.max_p95_ms if accept is not None else None
        if slowest is not None and figures["p95_ms"] > slowest:
            text = "it takes %.4g ms (95 of 100 runs), more than the %.4g of max_p95_ms" % (figures["p95_ms"], slowest)
            return Proof(False, "engine.verify_failed", text, figures, slow=True)
        if not verdict.compared:
            nobody = reference is None
            text = "there is nothing to compare it with" if nobody else "no sample fits into the memory for tensors"
            return Proof(None, "engine.unverified", text, figures, incomparable=nobody)
        return Proof(True, figures=figures)

    async def _answer(self, subject: ServedVersion, sample: Sample) -> Optional[Asked]:
        """None where the sample is too large for the memory that there is."""
        for death in range(1, _DEATHS + 1):
            try:
                return await self._ask(subject, sample)
            except errors.PayloadTooLarge:
                return None
            except errors.HostDied as error:
                if death == _DEATHS:
                    raise Refused("it ended its engine host %d times: %s" % (death, error)) from error
            except (errors.ModelNotReady, errors.DeadlineExceeded) as error:
                why = subject.hosted.error if subject.hosted is not None else None
                if why is None:
                    raise
                if refuses(why):
                    raise Refused(str(why)) from error
                raise why from error
            except (errors.ExecutionError, errors.RequestError) as error:
                raise Wrong("%s: it fails: %s" % (sample.name, error)) from error
        raise AssertionError("each death is counted")

    async def _right(self, sample: Sample, reference: Optional[ServedVersion]) -> Optional[Mapping[str, Any]]:
        """What the model should answer; None where nobody can say."""
        if sample.expected is not None or reference is None:
            return sample.expected
        try:
            return (await self._ask(reference, sample)).outputs
        except errors.PayloadTooLarge:
            return None
        except errors.TensorMismatch as error:
            raise Wrong("its inputs are not those of the model: %s" % error) from error

    async def _ask(self, version: ServedVersion, sample: Sample, keep: bool = True) -> Asked:
        run_s = version.host.options.batch_timeout_s if version.host is not None else 0.0
        return await ask(version, self._arena, sample.inputs, self._clock.monotonic() + _PATIENCE_S + run_s, keep)

    # -- measuring --------------------------------------------------------------------------------------------------

    async def _measured(self, subject: ServedVersion, samples: Sequence[Sample]) -> Dict[str, Any]:
        """Times of the smallest sample; of the largest one the median too."""
        least, most = min(samples, key=_bytes), max(samples, key=_bytes)
        times = await self._times(subject, least, _RUNS)
        figures = {"p50_ms": _percentile(times, 0.5), "p95_ms": _percentile(times, 0.95), "runs": len(times)}
        if most is not least:
            figures["largest_p50_ms"] = _percentile(await self._times(subject, most, _LARGEST_RUNS), 0.5)
        return figures

    async def _times(self, subject: ServedVersion, sample: Sample, runs: int) -> List[float]:
        end = self._clock.monotonic() + _RUNS_S
        times: List[float] = []
        while len(times) < runs and (self._clock.monotonic() < end or not times):
            try:
                times.append((await self._ask(subject, sample, keep=False)).seconds)
            except errors.PayloadTooLarge:
                return [0.0]
        return times


def _bytes(sample: Sample) -> int:
    return sum(int(array.nbytes) for array in sample.inputs.values())


def _percentile(times: Sequence[float], share: float) -> float:
    ordered = sorted(times)
    return round(1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 3)
