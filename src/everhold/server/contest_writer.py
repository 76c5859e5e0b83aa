"""One contest behind one writer thread: submissions are scored in turn, and shown when their answers leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from everhold.contest.contest import Contest
from everhold.ledger.reader import StudyFile, read_study
from everhold.server.job_queue import OwnThread, StartRunner
from everhold.server.viewed_writer import ViewedWriter

if TYPE_CHECKING:
    from everhold.contest.board import Board, Submission
    from everhold.contest.ranking_preview import RankingPreview
    from everhold.ledger.safe_files import FileStamps
    from everhold.server.caller import Caller
    from everhold.server.time_grid import TimeGrid

__all__ = ["ContestWriter"]


@dataclass(frozen=True, slots=True)
class _View:
    """What readers see of a contest.

    Attributes:
        board: where everybody stands.
        file: makes the study as its file would be read.
        stamps: of the contest's files when this was taken, to find out what others have changed.
        logged: how many submissions there were.
    """

    board: Board
    file: Callable[[], StudyFile]
    stamps: FileStamps
    logged: int


class ContestWriter(ViewedWriter[_View]):
    """A contest that many may enter at once. It stays open: a submission costs the same however many came before.

    Args:
        path: of its study.
        grid: when answers leave.
        charges_each: of a private one, how many charges each name may cause; None: any.
        start: makes what runs the writer's turns.
    """

    kind: Literal["contest"] = "contest"

    def __init__(
        self, path: Path, *, grid: TimeGrid, charges_each: int | None = None, start: StartRunner = OwnThread
    ) -> None:
        self.contest = Contest(path, charges_each=charges_each)
        self.contest.require_ready()  # whether the labels are there is found out at once
        super().__init__(path, self.contest.stamps, grid, start)

    async def submit(self, entrant: str, predictions: bytes, *, arrived: float | None = None) -> Submission:
        """Score a submission. It leaves on the grid, whatever becomes of it."""
        return await self.do(partial(self.contest.submit, entrant, predictions), arrived)

    async def duel(self, caller: Caller, first: str, second: str) -> bool:
        """Make a duel. It leaves on the grid, whatever becomes of it."""
        by = caller.asked_by
        work = partial(self.contest.duel, first, second, request_id=by.request_id, who=by.who)
        return await self.do(work, caller.arrived)

    async def finish(self, caller: Caller) -> Board:
        """End the contest. It leaves on the grid, whatever becomes of it."""
        return await self.do(partial(self.contest.finish, who=caller.asked_by.who), caller.arrived)

    def preview(self, first: str | None = None, second: str | None = None) -> RankingPreview:
        """What `finish`, or with two names a duel, would do and cost, by what has left."""
        view = self.view
        return self.contest.preview(first, second, board_and_file=(view.board, view.file()))

    def _take_view(self) -> _View:
        """The contest as it stands: from memory where this process wrote last, else from its file."""
        stamps = self.contest.stamps()
        if stamps[0] != self.contest.last_stamps[0]:
            file = read_study(self.path)
            return _View(self.contest.board_in(file), lambda: file, stamps, len(self.contest.log()))
        board, holdout = self.contest.board_and_holdout()
        return _View(board, self._file_so_far(holdout), stamps, len(self.contest.log()))

    def board(self) -> Board:
        """Where everybody stands."""
        return self.view.board

    def refused(self, entrant: str) -> list[dict[str, Any]]:
        """An entrant's own submissions that were not scored, the latest first, as far as their answers have left."""
        logged = self.contest.log()[: self.view.logged]
        return [
            submission for submission in reversed(logged) if submission["entrant"] == entrant and submission["round"] is None
        ]

    def close(self) -> None:
        """Score what waits, then stop."""
        super().close()
        self.contest.release()
