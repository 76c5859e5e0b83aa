"""A contest: many entrants, one ledger, a board that does not wear out.

Features are public, labels are hidden. An entrant submits predictions for the public features; each is one question to one
holdout, so all intervals on the board are valid at the same time, however entrants learn from it. All scores on the board
come from the study's ledger. A log beside it keeps what was refused, with the reason, and who sent an earlier submission
again, so that it counts; without the log each entrant's last one counts. The last ranking names in the ledger what counted.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.code import LAST_SPEND
from everhold.bounds.privacy import Privacy
from everhold.clock import utc_now
from everhold.contest.board import Board, Place, Rules, Submission
from everhold.contest.create import NewContest, beside
from everhold.contest.hidden_labels import HiddenLabels, sealed_rows
from everhold.contest.outlook import ContestOutlook
from everhold.contest.predictions import MalformedPredictions, PredictionReader, SubmissionRefused
from everhold.contest.ranking_preview import RankingPreview
from everhold.contest.rankings import NOBODY, Rankings
from everhold.contest.submissions import SubmissionLog
from everhold.contest.tally import MARK, Entrant, Tally
from everhold.errors import (
    HoldoutClosed,
    LedgerError,
    PrecisionExhausted,
    PrivacyUsedUp,
    QuestionError,
    RowsInUseWarning,
)
from everhold.learn.metrics import Task, find
from everhold.learn.testset import TestSet
from everhold.ledger.kept_arrays import KeptArrays
from everhold.ledger.reader import logged_round, read_study
from everhold.ledger.safe_files import UNKNOWN_STAMPS, FileStamps, file_stamp, read_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.bounds.privacy import PrivacyAccount
    from everhold.contest.ranks import RankedScore
    from everhold.ledger.reader import StudyFile
    from everhold.queries.request import AskedBy
    from everhold.session.holdout import Holdout

__all__ = ["Board", "Contest", "MalformedPredictions", "Place", "Rules", "Submission"]

_DUEL_SPEND = 1 / 16


class Contest:
    """A contest in a study's file.

    `sealed_rows` says which rows only the last ranking uses; it is public.
    Beside `path` lie the study's key, `<path>.contest.json` (the rules, public), `<path>.labels` (the hidden labels) and
    `<path>.predictions` (what was scored), both for the owner alone, and `<path>.submissions.jsonl` (what was sent, and what
    became of it).

    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 500)
    >>> path = Path(tempfile.mkdtemp()) / "coins.everhold"
    >>> contest = Contest.create(path, y, title="Guess the coins", classes=[0, 1], seed=1)
    >>> contest.submit("ann", rng.integers(0, 2, 500)).state
    'scored'
    >>> contest.board().places[0].entrant
    'ann'
    """

    def __init__(self, path: str | Path, *, charges_each: int | None = None) -> None:
        self.path = Path(path)
        try:
            kept = read_json(self._beside("contest.json"))
            self.ids: list[str] = [str(one) for one in kept.pop("ids")]
            self.rules = Rules(**kept)
        except FileNotFoundError:
            raise LedgerError(
                f"there is no contest at {self.path}. Check the name, or create it: everhold contest create, or "
                "eh.Contest.create in Python."
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LedgerError(
                f"the rules of the contest at {self.path} cannot be read ({error}). Expected "
                f"{self._beside('contest.json')} as it was written when the contest was created: restore it from a "
                "backup. The study itself is not changed."
            ) from None
        self._charges_each = charges_each
        self._test: TestSet | None = None
        self._tally = Tally(self.rules)
        self._counted: Holdout | None = None  # whose rounds the tally has
        self.last_stamps: FileStamps = UNKNOWN_STAMPS
        self._log = SubmissionLog(self._beside("submissions.jsonl"))
        self._reader = PredictionReader(self.rules, self.ids)
        self.sealed_rows = sealed_rows(len(self.ids), self.rules.sealed, self.rules.seed)
        self._hidden = HiddenLabels(self._beside("labels"), self.sealed_rows, self.rules.sealed_digest)
        self._kept = KeptArrays(self._beside("predictions"), _digest_of)
        self._rankings = Rankings(self.path, self.rules, self.sealed_rows, self._hidden, self._kept)
        self._lock = RLock()

    def _beside(self, what: str) -> Path:
        return beside(self.path, what)

    @classmethod
    def create(
        cls,
        path: str | Path,
        y: Any,
        *,
        ids: Any = None,
        title: str = "A contest",
        task: Task = "classification",
        metric: str | None = None,
        classes: Any = None,
        low: float | None = None,
        high: float | None = None,
        id_column: str = "id",
        prediction_column: str = "prediction",
        most_bytes: int = 20_000_000,
        max_per_day: int | None = None,
        ladder: bool = False,
        confidence: float = 0.95,
        half_width: float | None = None,
        seed: int | None = None,
        sealed: float | None = None,
        privacy: Privacy | None = None,
        register: bool = True,
    ) -> Contest:
        """Start a contest. The features are public: publish them beside it, with the same ids.

        Args:
            path: of its study, which must not exist.
            y: labels, hidden, one for each row.
            ids: what rows are called in submissions; 0, 1, 2 … when left out.
            title: what it is called.
            task, metric: what is scored: a metric that is a plain mean ('accuracy', 'error'; 'mean_absolute_error',
                'mean_squared_error').
            classes, low, high: the possible labels, or their range; public.
            id_column, prediction_column: of a submission's file.
            most_bytes, max_per_day: limits.
            ladder: show an entrant only what is clearly better than its best so far (Blum and Hardt 2015).
            confidence, half_width, seed: as for `eh.Holdout`.
            sealed: the part of the rows, drawn at random, that is kept for the last ranking (`finish`). Scores before it
                are about the other rows. Final ranks then do not pay for what the contest disclosed. 0 seals nothing: then
                scores are narrower, final ranks wider, and duels are possible before the end. A half, if left out; nothing
                with privacy.
            privacy: what to promise about every hidden label, such as `eh.Privacy(epsilon=1.0)`: scores have noise, and
                there are neither duels nor a last ranking, which are exact (docs/howto/private.md#contests).
            register: whether it is entered in the registry of studies, which warns of a second one of these labels, and
                refuses a private one.
        """
        new = NewContest.of(
            Path(path),
            y,
            ids,
            register=register,
            title=title,
            task=task,
            metric=metric,
            classes=classes,
            low=low,
            high=high,
            id_column=id_column,
            prediction_column=prediction_column,
            most_bytes=most_bytes,
            max_per_day=max_per_day,
            ladder=ladder,
            confidence=confidence,
            half_width=half_width,
            seed=seed,
            sealed=sealed,
            privacy=privacy,
        )
        with new.written(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RowsInUseWarning)  # about the rows that are not sealed: `new` warns of all
            contest = cls(path)
            contest._test = contest._test_set(new.labels, register=register)
            contest._test.release()
        return contest

    def _test_set(self, labels: NDArray[Any], *, register: bool = True) -> TestSet:
        """Of the features only the rows' order matters: submissions say what they say of each."""
        open_labels = labels[~self.sealed_rows]
        places = np.arange(len(open_labels), dtype=np.float64)[:, None]
        return TestSet.from_options(places, open_labels, replace(self.rules.options(self.path), register=register))

    @property
    def outlook(self) -> ContestOutlook:
        """What to expect of the board with this number of rows: half-widths, by public facts alone."""
        return ContestOutlook.of(self.rules, len(self.ids))

    @classmethod
    def open(cls, path: str | Path) -> Contest:
        """A contest that was made before, as `Contest(path)`; refused at once if its labels are missing or do not fit."""
        contest = cls(path)
        contest.require_ready()
        return contest

    def require_ready(self) -> None:
        """Find out whether the hidden labels are there and fit the study. Submissions do so by themselves."""
        with self._turn():
            pass

    def _opened(self) -> TestSet:
        if self._test is None:
            self._test = self._test_set(self._hidden.read())
        return self._test

    @contextmanager
    def _turn(self) -> Iterator[tuple[TestSet, Holdout]]:
        """From the limit to the score nobody else has a turn: no other thread, and no other process.

        Between two turns other processes may score. What they recorded is taken over, and nothing is read twice.
        """
        with self._lock:
            self.last_stamps = UNKNOWN_STAMPS
            test = self._opened()
            with test.turn() as holdout:
                try:
                    if holdout is not self._counted:
                        holdout.session.limit_charges(self._charges_each, self.path)
                    self._count(holdout)
                    yield test, holdout
                finally:
                    if holdout.usable:
                        self.last_stamps = self.stamps()
                        holdout.pause()

    def stamps(self) -> FileStamps:
        """What the study's file and the log look like now: as long as it stays, so does the board.

        `last_stamps` is the same as this process left it, under its lock.
        """
        return file_stamp(self.path), file_stamp(self._beside("submissions.jsonl"))

    def _count(self, holdout: Holdout) -> None:
        """Bring the tally up to date with the ledger, and refuse a ledger that is older than what was returned."""
        if self._counted is not holdout:
            self._tally, self._counted = Tally(self.rules), holdout
        journal = holdout.journal
        new = range(self._tally.rounds + 1, len(journal) + 1)
        self._tally.add(logged_round(journal[number], journal.asked_by(number)) for number in new)
        self._tally.add_rankings(act.done.result or None for act, _ in journal.recorded_acts if act.begun.kind == "rank")
        self._log.read()
        self._tally.sent_again = self._log.sent_again
        if self._log.highest > len(journal):
            raise LedgerError(
                f"{self.path} ends at round {len(journal)}, and the score of round {self._log.highest} was returned: this "
                "is an older copy. Use the newer file: continuing from this copy would answer the same questions a "
                "second time."
            )

    def release(self) -> None:
        """Release the study's file, so that another process may use it."""
        with self._lock:
            if self._test is not None:
                self._test.release()

    # submissions ---------------------------------------------------------------------------------------------------

    def submit(self, entrant: str, predictions: Any) -> Submission:
        """Score predictions, or say at once why not.

        Args:
            entrant: who sends them.
            predictions: one for each row in the order of `ids`; or a `Path` to a CSV file with the columns of the rules, its
                bytes or its text, rows in any order.
        """
        entrant = _name(entrant)
        try:
            values = self._reader.read(predictions)
        except MalformedPredictions as error:
            return self._log_submission(Submission(entrant, "malformed", str(error), row=error.row, column=error.column))
        except SubmissionRefused as refusal:
            return self._log_submission(Submission(entrant, refusal.state, str(refusal)))
        digest = _digest_of(values)
        name = f"{MARK} {digest}"
        with self._turn() as (test, holdout):
            repeated = name in self._tally.names
            try:
                if not repeated:  # what was scored before is returned again at any time
                    self._require_under_daily_limit(entrant)
                self._kept.keep(values, digest)  # before it is scored: whatever has a score can be in a duel
                metric = find(self.rules.metric, self.rules.task)
                score = test.score_named(holdout, metric, values[~self.sealed_rows], name, entrant)
            except SubmissionRefused as refusal:
                return self._log_submission(Submission(entrant, refusal.state, str(refusal)))
            except HoldoutClosed:
                said = "the contest has ended, and its final ranks are on the board."
                return self._log_submission(Submission(entrant, "closed", said))
            except PrivacyUsedUp as refusal:
                used_up = holdout.privacy is not None and not holdout.privacy.surprises_left
                said = f"the contest has ended: {refusal}" if used_up else str(refusal)
                return self._log_submission(Submission(entrant, "closed", said))
            except PrecisionExhausted as refusal:
                return self._log_submission(Submission(entrant, "closed", f"the contest has ended: {refusal}"))
            found = self._tally.judge(entrant, score, repeated=repeated)
            if cut := self._reader.outside(values):
                found = replace(found, note=f"{cut} {found.note}".rstrip())
            self._count(holdout)
            again = self._tally.rounds if repeated and found.counts else None
            return self._log_submission(found, score.round, again)  # also where the ladder does not show it

    def _require_under_daily_limit(self, entrant: str) -> None:
        """By the ledger: submissions that were scored within 24 hours count."""
        limit = self.rules.max_per_day
        if limit is None:
            return
        since = (utc_now() - timedelta(days=1)).isoformat(timespec="milliseconds")
        recent = [time for time in self._tally.entrants.get(entrant, Entrant()).times[-limit:] if time >= since]
        if len(recent) >= limit:
            free = datetime.fromisoformat(recent[0]) + timedelta(days=1)
            raise SubmissionRefused(
                "too soon", f"{limit} submissions a day are allowed. The next is possible at {free:%Y-%m-%d %H:%M} UTC."
            )

    def _log_submission(self, submission: Submission, number: int | None = None, again: int | None = None) -> Submission:
        self._log.add(submission.entrant, submission.state, submission.reason, number, again)
        return submission

    # duels ---------------------------------------------------------------------------------------------------------

    def preview(
        self,
        first: str | None = None,
        second: str | None = None,
        *,
        spend: float = _DUEL_SPEND,
        board_and_file: tuple[Board, StudyFile] | None = None,
    ) -> RankingPreview:
        """What `finish()` would do and cost, or with two names `duel(first, second)`. It records and discloses nothing.

        Args:
            first, second, spend: as for `duel`; without names it is about `finish`.
            board_and_file: a board and the study behind it, where they are known; otherwise the study's file is read, once.
        """
        self._rankings.require_allowed()
        if board_and_file is None:
            read = read_study(self.path)
            board_and_file = self.board_in(read), read
        return self._rankings.preview(*board_and_file, None if first is None and second is None else (first, second), spend)

    def duel(
        self,
        first: str,
        second: str,
        *,
        spend: float = _DUEL_SPEND,
        request_id: str | None = None,
        who: str | None = None,
    ) -> bool:
        """Whether the first entrant's submission that counts is certified to be better than the second's.

        It is decided by the rows on which they differ.

        It costs all later intervals 0.7 nats, whatever comes out, and a part of the failure probability: `preview` says
        more. With sealed rows, which is the default, there are no duels before the last ranking.

        Args:
            first, second: entrants on the board. Choose who is first by public facts.
            spend: of what is left of the failure probability.
            request_id: under which the same duel, asked again, is not made again.
            who: asks, for the record.
        """
        self._rankings.require_allowed()
        with self._turn() as (_, holdout):
            scores = {score.name: score for score in self._tally.ranked()}
            pair = self._rankings.pair(first, second, scores)
            if (made := self._rankings.duel_of(holdout, request_id, pair)) is not None:
                return made
            asked_by = holdout.session.stamp(request_id, who)
            result = self._rank(holdout, [scores[entrant] for entrant in pair], spend, asked_by, last=False)
            return bool(result["beaten"][0])

    def finish(self, *, who: str | None = None) -> Board:
        """End the contest: one last ranking by duels of all entrants, and everybody's score on the rows that are judged.

        For every entrant the last submission that was scored counts, or an earlier one that was sent again since.
        Nothing is disclosed afterwards, so all duels share one price: that of all pairs, and of what the contest has
        disclosed of these rows before. Of sealed rows that is nothing. Later submissions are refused. Called again, it
        returns the same board.

        Args:
            who: ends it, for the record.
        """
        self._rankings.require_allowed()
        with self._turn() as (_, holdout):
            if self._tally.final is None:
                scores = self._tally.ranked()
                if not scores:
                    raise QuestionError(NOBODY)
                self._rank(holdout, scores, LAST_SPEND, holdout.session.stamp(None, who), last=True)
        return self.board()

    def _rank(
        self, holdout: Holdout, scores: list[RankedScore], spend: float | Fraction, asked_by: AskedBy, *, last: bool
    ) -> dict[str, Any]:
        names = {number: name for name, number in self._tally.names.items()}
        submitted = [(names[score.round], score) for score in scores]
        result = self._rankings.rank(holdout, submitted, spend, asked_by, last=last)
        self._count(holdout)
        return result

    # the board -----------------------------------------------------------------------------------------------------

    def log(self) -> list[dict[str, Any]]:
        """What was sent, and what became of it."""
        return self._log.read()

    def board(self) -> Board:
        """The board, from the ledger alone; anybody who has the study's file and the rules can read it."""
        return self.board_in(read_study(self.path))

    def board_in(self, file: StudyFile) -> Board:
        """The board by the study's file, which was read."""
        tally = Tally(self.rules)
        tally.add(file.rounds)
        tally.add_rankings(act.result for act in file.acts if act.act == "rank")
        return self._board(tally, str(file.head), file.price, file.budget.privacy)

    def board_and_holdout(self) -> tuple[Board, Holdout]:
        """The board and the study behind it as the last turn left them: nothing is read again. Only between turns."""
        holdout = self._counted
        if holdout is None:
            raise LedgerError(
                "the contest was not opened yet. Call contest.require_ready() first, or read the file: contest.board()."
            )
        return self._board(self._tally, holdout.head, holdout.price, holdout.privacy), holdout

    def _board(self, tally: Tally, head: str, price: float, privacy: PrivacyAccount | None) -> Board:
        self._log.read()
        tally.sent_again = self._log.sent_again
        silent = {who: said for who, said in self._log.last_outcome.items() if who not in tally.entrants}
        final = tally.final is not None
        spent = None if privacy is None else privacy.text
        places, unranked = tuple(tally.places()), tuple(silent.items())
        return Board.of(self.rules, places, unranked, head=head, price=price, final=final, privacy=spent)


def _digest_of(values: NDArray[Any]) -> str:
    """What predictions are known by."""
    return hashlib.sha256(json.dumps([str(one) for one in values.tolist()]).encode()).hexdigest()


def _name(entrant: object) -> str:
    """Who sends it: readable, without blanks around it, writable."""
    name = entrant.strip() if isinstance(entrant, str) else ""
    if not 0 < len(name) <= 100 or not name.isprintable():
        raise QuestionError("an entrant's name is a text of up to 100 printable letters.")
    return name
