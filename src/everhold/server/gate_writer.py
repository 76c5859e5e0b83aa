"""One gate behind one writer thread: candidates are checked in turn, and a verdict is visible when it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from everhold.gate.gate import Gate
from everhold.ledger.reader import StudyFile, read_study
from everhold.server.job_queue import OwnThread, StartRunner
from everhold.server.viewed_writer import ViewedWriter

if TYPE_CHECKING:
    from everhold.gate.outcomes import Outcomes
    from everhold.gate.results import CheckResult, GateStatus, TotalGain
    from everhold.ledger.safe_files import FileStamps
    from everhold.server.caller import Caller
    from everhold.server.time_grid import TimeGrid

__all__ = ["GateWriter"]


@dataclass(frozen=True, slots=True)
class _View:
    """What readers see of a gate.

    Attributes:
        status: where it stands.
        file: makes the study as its file would be read.
        stamps: of the gate's files when this was taken, to find out what others have changed.
    """

    status: GateStatus
    file: Callable[[], StudyFile]
    stamps: FileStamps


class GateWriter(ViewedWriter[_View]):
    """A gate that many may use at once. It stays open: a check costs the same however many came before.

    Args:
        path: of its study.
        grid: when verdicts leave.
        charges_each: of a private one, how many charges each name may cause; None: any.
        start: makes what runs the writer's turns.
    """

    kind: Literal["gate"] = "gate"

    def __init__(
        self, path: Path, *, grid: TimeGrid, charges_each: int | None = None, start: StartRunner = OwnThread
    ) -> None:
        self.gate = Gate(path, charges_each=charges_each)
        self.gate.require_ready()  # whether all files are there, and the newest, is found out at once
        super().__init__(path, self.gate.study.stamps, grid, start)

    async def check(self, outcomes: Outcomes, caller: Caller, *, name: str | None, artifact: bytes | None) -> CheckResult:
        """Check a candidate. The verdict leaves on the grid, whatever it is."""
        by = caller.asked_by
        return await self.do(
            lambda: self.gate.check(outcomes, name=name, artifact=artifact, request_id=by.request_id, who=by.who),
            caller.arrived,
        )

    async def decide(self, caller: Caller) -> CheckResult:
        """Check the candidates that wait."""
        by = caller.asked_by
        return await self.do(lambda: self.gate.decide(request_id=by.request_id, who=by.who), caller.arrived)

    async def finish(self, caller: Caller) -> TotalGain:
        """The last act."""
        return await self.do(lambda: self.gate.finish(who=caller.asked_by.who), caller.arrived)

    def _take_view(self) -> _View:
        """The gate as it stands: from memory where this process wrote last, else from its file."""
        stamps = self.gate.study.stamps()
        if stamps[0] != self.gate.study.last_stamps[0]:
            file = read_study(self.path)
            return _View(self.gate.status_in(file), lambda: file, stamps)
        status, holdout = self.gate.status_and_holdout()
        return _View(status, self._file_so_far(holdout), stamps)

    def status(self) -> GateStatus:
        """Where it stands."""
        return self.view.status

    def close(self) -> None:
        """Check what waits, then stop."""
        super().close()
        self.gate.release()
