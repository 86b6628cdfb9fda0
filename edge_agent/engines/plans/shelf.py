"""`{state_dir}/plans`: the plans that this agent has built, bounded. A plan is executable: only whole ones are given out."""

from __future__ import annotations

import dataclasses
import logging
import os
from pathlib import Path
from typing import Collection, Dict, List, NamedTuple, Optional

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.plans import plan_files
from edge_agent.engines.plans.digest import file_digest
from edge_agent.engines.plans.key import PlanKey
from edge_agent.engines.plans.plan_files import Unfit
from edge_agent.engines.plans.shelf_room import Removed, make_room
from edge_agent.engines.plans.sidecar import Refusal, Sidecar

_log = logging.getLogger(__name__)

_MAX_TOLD = 256


class Plan(NamedTuple):
    """A plan whose bytes are what its sidecar says."""

    path: Path
    sidecar: Sidecar


class PlanShelf:
    """Plans by their key. All of it is file work: call it off the loop, one call at a time."""

    def __init__(self, folder: Path, max_bytes: int, clock: Optional[Clock] = None) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._clock = clock or Clock()
        self._serial = 0
        self._refused: Dict[str, Sidecar] = {}  #: what could not be written down
        self._told: Dict[str, None] = {}

    def prepare(self) -> None:
        """Makes the folder, for the agent alone, and removes what a power cut left half done. StoreError, StoreFull."""
        try:
            plan_files.make_folder(self.folder)
            for path in plan_files.leftovers(self.folder):
                plan_files.discard(path)
        except OSError as exc:
            raise self._unusable(exc) from exc

    def look(self) -> None:
        """Makes the folder anew where it is gone. StoreError, StoreFull where nothing can be kept in it now."""
        try:
            plan_files.make_folder(self.folder)
            plan_files.try_to_write(self.folder)
        except OSError as exc:
            raise self._unusable(exc) from exc

    def temporary(self, key: PlanKey) -> Path:
        """Where a builder writes the plan that `add` takes; removed by `prepare` if it is left behind."""
        return self.folder / (".%s.%d%s" % (key.digest, os.getpid(), plan_files.TEMPORARY))

    def timing_cache(self, key: PlanKey) -> Path:
        """Where the builder keeps what it has measured on this box."""
        return self.folder / key.timing_name

    # -- looking ----------------------------------------------------------------------------------------------------

    def find(self, key: PlanKey) -> Optional[Plan]:
        """The plan, if it is here whole and not refused. What is damaged is removed, and told once."""
        path = plan_files.plan_path(self.folder, key.digest)
        plan = self._look(path, plan_files.sidecar_path(self.folder, key.digest), key, own=True)
        return None if plan is None or self._is_refused(plan) else plan

    def beside(self, onnx_path: Path, key: PlanKey) -> Optional[Plan]:
        """`model.plan` beside `model.onnx`, if its `model.plan.json` says that it is of this key and whole. Removes nothing."""
        path = onnx_path.with_suffix(".plan")
        plan = self._look(path, path.with_name(path.name + ".json"), key, own=False)
        return None if plan is None or self._is_refused(plan) else plan

    def refused(self, key: PlanKey) -> Optional[Refusal]:
        """Why there is no plan of this key any more, if one was taken out of service."""
        sidecar = self._refused.get(key.digest) or self._record(key.digest)
        return None if sidecar is None else sidecar.refused

    # -- changing ---------------------------------------------------------------------------------------------------

    def add(self, temporary: Path, sidecar: Sidecar) -> Plan:
        """Takes a built plan, unverified. Durable, or nothing of it is left: StoreFull, StoreError. Then `trim`."""
        before = self._refused.get(sidecar.key) or self._record(sidecar.key)
        path = plan_files.plan_path(self.folder, sidecar.key)
        try:
            size, sha256 = plan_files.seal(temporary)
            full = dataclasses.replace(
                sidecar,
                sha256=sha256,
                size=size,
                serial=self._next_serial(),
                refused_plans=before.refused_plans if before is not None else (),
            )
            plan_files.put(temporary, path, full.encode())
        except OSError as exc:
            plan_files.discard(temporary)
            if before is not None and before.refused_plans and self._record(sidecar.key) is None:
                self._keep_refused(before)
            raise _store_error("the plan of %s cannot be kept in %s" % (sidecar.model, self.folder), exc) from exc
        self._refused.pop(sidecar.key, None)
        return Plan(path, full)

    def verified(self, plan: Plan, figures: Dict[str, object]) -> Plan:
        """The plan gives the right answers. Where that cannot be written down it is told, and holds until the restart."""
        good = Plan(plan.path, dataclasses.replace(plan.sidecar, verified=True, figures=dict(figures)))
        self._write(self._sidecar_of(plan), good.sidecar)
        return good

    def quarantine(self, plan: Plan, code: str, reason: str) -> Sidecar:
        """Never again: the reason stays, the plan's bytes go (those of a plan beside its ONNX are the operator's and stay)."""
        key = plan.sidecar.key
        known = self._refused.get(key) or self._record(key)
        refused = dataclasses.replace(
            plan.sidecar, refused_plans=known.refused_plans if known is not None else (), serial=self._next_serial()
        ).refuse(code, reason, self._clock.now())
        if not self._write(plan_files.sidecar_path(self.folder, key), refused):
            self._keep_refused(refused)
        if plan.path == plan_files.plan_path(self.folder, key):
            plan_files.discard(plan.path)
        return refused

    def forgive(self, key: PlanKey) -> None:
        """Somebody wants what was refused tried anew."""
        record = self._refused.pop(key.digest, None) or self._record(key.digest)
        if record is None or not (record.refused or record.refused_plans):
            return
        path = plan_files.sidecar_path(self.folder, key.digest)
        if record.refused is None:
            self._write(path, dataclasses.replace(record, refused_plans=()))
        else:
            plan_files.discard(path)

    def trim(self, pinned: Collection[str]) -> List[Removed]:
        """Removes the oldest until the folder is under its bound; never a plan whose key digest is pinned."""
        try:
            removed, left = make_room(self.folder, self._max_bytes, pinned)
        except OSError as exc:
            self._tell(self.folder, "cannot be tidied: %s" % exc.strerror)
            return []
        if left > self._max_bytes:
            self._tell(self.folder, "takes %d bytes: what is in use alone is over the bound of %d" % (left, self._max_bytes))
        return removed

    # -- within -----------------------------------------------------------------------------------------------------

    def _look(self, path: Path, sidecar_path: Path, key: PlanKey, own: bool) -> Optional[Plan]:
        """Own files that are certainly damaged are removed; a read that fails says nothing about a file."""
        try:
            sidecar = plan_files.read_sidecar(sidecar_path, own)
            if sidecar is None:
                if own and os.path.lexists(str(path)):
                    raise Unfit("has no sidecar")
                return None
            if sidecar.key != key.digest:
                if own:
                    raise Unfit("is of another key, as its sidecar has it")
                return None
            if sidecar.refused is not None:
                return None
            plan_files.check(path, own)
            if os.stat(str(path)).st_size != sidecar.size or file_digest(path) != sidecar.sha256:
                raise Unfit("is not what its sidecar says (its size or digest is another)")
        except Unfit as exc:
            self._tell(path, "is not used: it %s" % exc)
            if own:
                plan_files.discard(path)
                plan_files.discard(sidecar_path)
            return None
        except FileNotFoundError:
            return None
        except OSError as exc:
            self._tell(path, "is not used now: %s" % exc.strerror)
            return None
        return Plan(path, sidecar)

    def _unusable(self, exc: OSError) -> errors.StoreError:
        return _store_error("the folder of plans %s cannot be used" % self.folder, exc)

    def _is_refused(self, plan: Plan) -> bool:
        record = self._refused.get(plan.sidecar.key) or self._record(plan.sidecar.key)
        return record is not None and plan.sidecar.sha256 in record.refused_plans

    def _record(self, digest: str) -> Optional[Sidecar]:
        """The sidecar on the shelf; None where there is none to be read."""
        try:
            return plan_files.read_sidecar(plan_files.sidecar_path(self.folder, digest), own=True)
        except (OSError, Unfit):
            return None

    def _keep_refused(self, record: Sidecar) -> None:
        """Until the restart: its file is not there."""
        self._refused[record.key] = record
        while len(self._refused) > _MAX_TOLD:
            del self._refused[next(iter(self._refused))]

    def _sidecar_of(self, plan: Plan) -> Path:
        if plan.path.parent == self.folder:
            return plan_files.sidecar_path(self.folder, plan.sidecar.key)
        return plan.path.with_name(plan.path.name + ".json")

    def _write(self, path: Path, sidecar: Sidecar) -> bool:
        try:
            plan_files.write_sidecar(path, sidecar)
        except OSError as exc:
            self._tell(path, "cannot be written: %s; what it should say is forgotten at the next start" % exc.strerror)
            return False
        return True

    def _next_serial(self) -> int:
        self._serial = 1 + max(self._serial, plan_files.last_serial(self.folder))
        return self._serial

    def _tell(self, path: Path, text: str) -> None:
        line = "%s %s" % (path, text)
        if line in self._told:
            return
        while len(self._told) >= _MAX_TOLD:
            del self._told[next(iter(self._told))]
        self._told[line] = None
        _log.warning("plan %s", line)


def _store_error(what: str, exc: OSError) -> errors.StoreError:
    if plan_files.is_full(exc):
        return errors.StoreFull("%s: no room on disk; free some, or lower models.plans_max_bytes" % what)
    return errors.StoreError("%s: %s; make it writable for the agent" % (what, exc.strerror))
