"""Plans and tries on disk for the loop: each call runs in a thread, one at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Collection, Dict, Optional, Sequence, Tuple, TypeVar

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.plans import plan_files
from edge_agent.engines.plans.digest import file_digest
from edge_agent.engines.plans.key import PlanKey, PlanRecipe, PlanTarget
from edge_agent.engines.plans.shelf import Plan, PlanShelf
from edge_agent.engines.plans.sidecar import Refusal, Sidecar
from edge_agent.engines.plans.tries import Tries
from edge_agent.serving.healing.checks import Check, Checks
from edge_agent.serving.healing.decision import WRONG, KeyState
from edge_agent.serving.threads import to_the_end

_log = logging.getLogger(__name__)

_AGAIN_S = 3.0  #: until a folder that could not be used is looked at again

_Answer = TypeVar("_Answer")


class PlanStore:
    """`{state_dir}/plans` and `tries.json` in it; without a state directory a folder that ends with the agent."""

    def __init__(self, state_dir: Optional[Path], max_bytes: int, clock: Clock, tries_clock: Optional[Clock] = None) -> None:
        self.fault = ""  #: why plans cannot be kept
        self.fault_code = ""
        self._state_dir = state_dir
        self._max_bytes = max_bytes
        self._clock = clock
        self._tries_clock = tries_clock or clock
        self._lock: Optional[asyncio.Lock] = None
        self._temporary = ""
        self._error: Optional[errors.StoreError] = None
        self._look_at = 0.0  #: monotonic second from which on a fault is looked at again
        self._read = False  #: what earlier runs have left
        self._shelf: PlanShelf
        self._tries: Tries
        self._checks: Checks

    async def open(self) -> None:
        """Called before each use; only the first one does something, so that nothing is there where no model needs it."""
        if self._lock is None:
            self._lock = asyncio.Lock()
            async with self._lock:
                await to_the_end(self._prepare)

    def _prepare(self) -> None:
        if self._state_dir is None:
            self._temporary = tempfile.mkdtemp(prefix="edge-agent-plans-")
        folder = Path(self._temporary) if self._state_dir is None else self._state_dir / "plans"
        self._shelf = PlanShelf(folder, self._max_bytes or 1 << 62, self._clock)
        self._tries = Tries(folder / "tries.json", self._tries_clock)
        self._checks = Checks(folder / "proofs.json")
        self._use(self._shelf.prepare)

    def _use(self, look: Callable[[], None]) -> None:
        """Whether the folder can be used now. What cannot be read is no reason to forget it: it is read when it can be."""
        before = self.fault
        try:
            look()
        except errors.StoreError as error:
            self._error = error
            self.fault, self.fault_code = str(error), store_code(error)
            self._look_at = self._clock.monotonic() + _AGAIN_S
            if self.fault != before:
                _log.error("no plan can be built: %s", error, extra={"code": self.fault_code})
            return
        self._error, self.fault, self.fault_code = None, "", ""
        if not self._read:
            self._read = True
            self._tries.load()
            self._checks.load()

    def close(self) -> None:
        """Ends a folder that was made for this run only."""
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = ""

    async def _run(self, work: Callable[..., _Answer], *args: Any) -> _Answer:
        await self.open()
        assert self._lock is not None
        async with self._lock:
            return await to_the_end(self._in_folder, work, *args)

    def _in_folder(self, work: Callable[..., _Answer], *args: Any) -> _Answer:
        """Somebody may have deleted the folder meanwhile: then it is made anew, with what is known of tries and checks."""
        if self.fault:
            if self._clock.monotonic() >= self._look_at:
                self._use(self._shelf.look)
        elif not os.path.isdir(str(self._shelf.folder)):
            _log.warning("the folder of plans %s is gone: it is made anew", self._shelf.folder)
            self._use(self._shelf.look)
        return work(*args)

    async def look(self) -> None:
        """StoreError, StoreFull where no plan can be kept now: asked before work begins whose result must be."""
        await self._run(lambda: self._use(self._shelf.look))
        if self._error is not None:
            self._error.code = self.fault_code
            raise self._error

    # -- plans ------------------------------------------------------------------------------------------------------

    async def states(
        self, onnx: Path, keys: Sequence[Tuple[str, PlanKey]], demands: str = "", beside: bool = True
    ) -> Tuple[KeyState, ...]:
        """What is known of each key. `demands`: what a plan must fulfil; `beside`: those beside the model are looked at."""
        return await self._run(lambda: tuple(self._state(onnx, precision, key, demands, beside) for precision, key in keys))

    def _state(self, onnx: Path, precision: str, key: PlanKey, demands: str, beside: bool) -> KeyState:
        """A plan is verified where a check on this box says so, and no sidecar."""
        digest, tries = key.digest, self._tries
        checks = self._checks.of(digest, demands)
        found = [self._shelf.beside(onnx, key) if beside else None, self._shelf.find(key)]
        plans = [_checked(plan, checks.get(plan.sidecar.sha256)) for plan in found if plan is not None]
        left = [plan for plan in plans if plan is not None]
        refusal = self._shelf.refused(key)
        wrong = [check for check in checks.values() if not check.good]
        if not left and wrong:
            refusal = Refusal(WRONG, wrong[-1].reason, "")
        return KeyState(
            precision,
            key,
            next((plan for plan in left if plan.sidecar.verified), left[0] if left else None),
            refusal,
            tries.may_try(digest),
            tries.tries(digest),
            tries.code(digest),
            tries.reason(digest),
        )

    async def paths(self, key: PlanKey) -> Tuple[Path, Path]:
        """Where a plan is built to, and the timing cache."""
        return await self._run(lambda: (self._shelf.temporary(key), self._shelf.timing_cache(key)))

    async def add(self, temporary: Path, sidecar: Sidecar) -> Plan:
        """Keeps a built plan, unverified. StoreError."""
        return await self._run(self._shelf.add, temporary, sidecar)

    async def good(self, plan: Plan, demands: str, figures: Dict[str, Any]) -> Plan:
        """Remembers that the plan fulfils these demands, on this box."""

        def work() -> Plan:
            self._checks.put(plan.sidecar.key, demands, plan.sidecar.sha256, Check(True, figures))
            if plan.path.parent == self._shelf.folder:
                return self._shelf.verified(plan, figures)
            return Plan(plan.path, dataclasses.replace(plan.sidecar, verified=True, figures=figures))

        return await self._run(work)

    async def wrong(self, plan: Plan, demands: str, figures: Dict[str, Any], reason: str) -> None:
        """The plan is not loaded while these are the demands; it stays, as others may be made."""
        check = Check(False, figures, reason)
        await self._run(self._checks.put, plan.sidecar.key, demands, plan.sidecar.sha256, check)

    async def doubt(self, key: str) -> None:
        """Plans of this key are checked anew before they are used."""
        await self._run(self._checks.forget, key)

    async def quarantine(self, plan: Plan, code: str, reason: str) -> None:
        """The plan is never loaded again."""
        await self._run(self._shelf.quarantine, plan, code, reason)

    async def foreign(self, path: Path, target: PlanTarget) -> Tuple[Plan, str]:
        """Somebody's plan as one of this shelf's, so that it can be put aside like them; and why it was, if it was. OSError."""

        def look() -> Tuple[Plan, str]:
            sha256 = file_digest(Path(os.path.realpath(str(path))))
            key = PlanKey(sha256, target, PlanRecipe("as it is"))
            sidecar = Sidecar(key.digest, path.parent.parent.name, "as it is", self._clock.now(), key.fields(), sha256=sha256)
            refusal = self._shelf.refused(key)
            return Plan(path, sidecar), "" if refusal is None else refusal.reason

        return await self._run(look)

    async def trim(self, keys: Collection[str], labels: Collection[str]) -> None:
        """Removes the oldest plans over the bound, but for these keys and for what was built for these `NAME/VERSION`."""

        def work() -> None:
            pinned = set(keys)
            for file in plan_files.listing(self._shelf.folder) if labels else ():
                if file.path.suffix == ".json" and file.key not in pinned and _label(file.path) in labels:
                    pinned.add(file.key)
            for removed in self._shelf.trim(pinned):
                _log.info("plan removed to stay under models.plans_max_bytes: %s", removed)

        try:
            await self._run(work)
        except OSError as error:
            _log.warning("plans cannot be tidied: %s", error)

    # -- tries ------------------------------------------------------------------------------------------------------

    async def begin(self, key: str) -> int:
        """A try begins; how many it is."""

        def work() -> int:
            self._tries.begin(key)
            return self._tries.tries(key)

        return await self._run(work)

    async def failed(self, key: str, code: str, reason: str, permanent: bool) -> None:
        """A try failed."""
        await self._run(self._tries.failed, key, code, reason, permanent)

    async def cancelled(self, key: str) -> None:
        """A try was called off by the agent itself."""
        await self._run(self._tries.cancel, key)

    async def succeeded(self, key: str) -> None:
        """A try gave a plan that is good."""
        await self._run(self._tries.succeeded, key)

    async def cleared(self, *keys: PlanKey) -> None:
        """Somebody wants them tried anew, whatever was wrong before."""
        for key in keys:
            await self._run(self._tries.clear, key.digest)
            await self._run(self._shelf.forgive, key)
            await self._run(self._checks.forget, key.digest)


def store_code(error: Exception) -> str:
    """Why a plan could not be kept, of the table of codes."""
    if isinstance(error, errors.StoreError):
        return "build.no_space" if isinstance(error, errors.StoreFull) else "build.not_kept"
    return "build.failed"


def _checked(plan: Plan, check: Optional[Check]) -> Optional[Plan]:
    """The plan as this box knows it; None where it is wrong."""
    if check is None:
        return Plan(plan.path, dataclasses.replace(plan.sidecar, verified=False, figures={}))
    return Plan(plan.path, dataclasses.replace(plan.sidecar, verified=True, figures=check.figures)) if check.good else None


def _label(path: Path) -> str:
    try:
        sidecar = plan_files.read_sidecar(path, own=True)
    except (OSError, plan_files.Unfit):
        return ""
    return "" if sidecar is None else sidecar.model
