"""Duels and the last ranking of a contest: fixed by public facts, recorded, then decided by the hidden labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.code import LAST_SPEND
from everhold.contest.duels import Duels, duel_method
from everhold.contest.ranking_preview import RankingPreview
from everhold.contest.tally import MARK
from everhold.errors import HoldoutClosed, LedgerError, PrivacyError, QuestionError, SettingError, did_you_mean
from everhold.ledger.ranking import RankingPlan
from everhold.ledger.rounds import ActStart
from everhold.session.act_questions import checked_spend

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.contest.board import Board, Rules
    from everhold.contest.hidden_labels import HiddenLabels
    from everhold.contest.ranks import RankedScore
    from everhold.ledger.kept_arrays import KeptArrays
    from everhold.ledger.reader import StudyFile
    from everhold.queries.request import AskedBy
    from everhold.session.holdout import Holdout

__all__ = ["NOBODY", "Rankings"]

NOBODY = "nobody is on the board yet, so there is nothing to rank."


class Rankings:
    """What ranks entrants of a contest.

    Args:
        path: of its study.
        rules: of the contest.
        sealed_rows: which rows only the last ranking uses; public.
        hidden: the labels.
        kept: what was scored.
    """

    def __init__(
        self, path: Path, rules: Rules, sealed_rows: NDArray[np.bool_], hidden: HiddenLabels, kept: KeptArrays
    ) -> None:
        self._path, self._rules, self._hidden, self._kept = path, rules, hidden, kept
        self._judged_rows = sealed_rows if rules.sealed else np.ones(len(sealed_rows), dtype=bool)

    def require_allowed(self) -> None:
        """Refuse what a private contest cannot do."""
        if self._rules.privacy is not None:
            raise PrivacyError(
                "a private contest has no duels and no last ranking: they disclose something exact about the labels. Its "
                "board shows who is better by intervals. Nothing was read or charged."
            )

    def pair(self, first: str, second: str, entrants: Iterable[str]) -> tuple[str, str]:
        """Two entrants who may be in a duel."""
        if self._rules.sealed:
            raise SettingError(
                "this contest has sealed rows, which are judged once, when it ends, so it has no duels before. Expected its "
                "last ranking (finish), or a contest that was made with sealed=0 (--sealed 0)."
            )
        for name in (first, second):
            if name not in entrants:
                raise QuestionError(f"there is no entrant {name!r} on the board.{did_you_mean(name, entrants)}")
        if first == second:
            raise QuestionError("a duel is between two entrants. Expected two names.")
        return first, second

    def preview(
        self, board: Board, file: StudyFile, names: tuple[str | None, str | None] | None, spend: float
    ) -> RankingPreview:
        """What a duel of two entrants would do and cost; without names, the last ranking."""
        if board.final:
            raise HoldoutClosed("the contest has ended, and its final ranks are on the board.")
        rounds = {place.entrant: place.round for place in board.places}
        if names is None:
            if not rounds:
                raise QuestionError(NOBODY)
            return RankingPreview.of(self._plan(rounds.values(), LAST_SPEND, last=True), file.budget, tuple(rounds), [])
        pair = self.pair(names[0] or "", names[1] or "", rounds)
        plan = self._plan([rounds[entrant] for entrant in pair], spend, last=False)
        submitted = {past.round: past.name for past in file.rounds}
        predictions = [self._predictions(submitted[rounds[entrant]], entrant) for entrant in pair]
        return RankingPreview.of(plan, file.budget, pair, predictions)

    @staticmethod
    def duel_of(holdout: Holdout, request_id: str | None, pair: tuple[str, str]) -> bool | None:
        """What a duel of these two came to that was made under this request id, also where they have got better since."""
        act = holdout.journal.act_of_request(request_id)
        if act is None or act.begun.kind != "rank":
            return None
        rounds = RankingPlan.from_record(act.begun).rounds
        if tuple(holdout.journal.asked_by(number).who for number in rounds) != pair:
            return None
        return bool(act.done.result["beaten"][0])

    def rank(
        self,
        holdout: Holdout,
        submitted: Sequence[tuple[str, RankedScore]],
        spend: float | Fraction,
        asked_by: AskedBy,
        *,
        last: bool,
    ) -> dict[str, Any]:
        """Fix everything by public facts, record it, read the labels, record what is disclosed.

        Args:
            holdout: of the contest, in a turn.
            submitted: what is ranked: the name of its question, and its score.
            spend: of what is left of the failure probability.
            asked_by: for the record.
            last: whether this is the last ranking.
        """
        predictions = [self._predictions(name, score.name) for name, score in submitted]
        scores = [score for _, score in submitted]
        span = self._rules.span
        shares = [score.value / span if self._rules.larger_is_better else 1.0 - score.value / span for score in scores]
        plan = self._plan([score.round for score in scores], spend, last=last)
        labels = self._hidden.read()[self._judged_rows]

        def decide() -> str:
            return Duels(plan, self._rules, predictions, shares, plan.price(holdout.budget)).decide(labels, self._path)

        return holdout.session.recorder.do_act(ActStart("rank", plan.asked, plan.options), decide, asked_by)

    def _plan(self, rounds: Iterable[int], spend: float | Fraction, *, last: bool) -> RankingPlan:
        """Everything that is fixed before labels are read, by public facts."""
        part = checked_spend(spend) or Fraction(1, 16)
        rows = int(self._judged_rows.sum())
        return RankingPlan(tuple(rounds), duel_method(self._rules), rows, part, bool(self._rules.sealed), last)

    def _predictions(self, name: str | None, entrant: str) -> NDArray[Any]:
        """Of a submission that was scored, on the rows that are judged."""
        found = self._kept.read((name or "").removeprefix(f"{MARK} "))
        if found is None:
            raise LedgerError(
                f"the predictions of {entrant!r} are not in {self._kept.folder}. Expected them there for duels: submit the "
                "same predictions again, which costs nothing. Nothing was charged."
            )
        return np.asarray(found[self._judged_rows])
