"""A contest: many entrants, one ledger, a board that does not wear out.

Features are public, labels are hidden. An entrant submits predictions for the public features; each is one question to one
holdout, so all intervals on the board hold together however entrants learn from it. Everything that the board shows of
scores comes from the study's ledger; a log beside it keeps what was refused, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.contest.board import Board, Place, Rules, Submission
from everhold.contest.predictions import Malformed, Reader, Refused
from everhold.errors import DataError, LedgerError, PrecisionExhausted, QuestionError, SettingError
from everhold.learn.layout import length
from everhold.learn.metrics import Task, find
from everhold.learn.score import Score
from everhold.learn.testset import TestSet
from everhold.ledger.files import write_atomic
from everhold.ledger.reader import StudyFile, read_study

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.session.holdout import Holdout

__all__ = ["Board", "Contest", "Malformed", "Place", "Rules", "Submission"]

_MARK = "submission"
_MOST_NOTED = 1_000  # submissions of one entrant that were not scored


class Contest:
    """A contest in a study's file.

    Beside `path` lie the study's key, `<path>.contest.json` (the rules, public), `<path>.labels` (the hidden labels, for the
    owner alone) and `<path>.submissions.jsonl` (what was sent, and what became of it).

    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    >>> place = Path(tempfile.mkdtemp()) / "coins.everhold"
    >>> contest = Contest.create(place, X, y, title="Guess the coins", classes=[0, 1], seed=1)
    >>> contest.submit("ann", rng.integers(0, 2, 500)).state
    'scored'
    >>> contest.board().places[0].entrant
    'ann'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            kept = json.loads(self._beside("contest.json").read_text(encoding="utf-8"))
            self.ids: list[str] = [str(one) for one in kept.pop("ids")]
            self.rules = Rules(**kept)
        except FileNotFoundError:
            raise LedgerError(f"there is no contest at {self.path}. Create it with Contest.create.") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LedgerError(f"the rules of the contest at {self.path} cannot be read ({error}).") from None
        self._test: TestSet | None = None
        self._ready()

    def _beside(self, what: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{what}")

    @classmethod
    def create(
        cls,
        path: str | Path,
        X: Any,
        y: Any,
        *,
        title: str = "A contest",
        ids: Any = None,
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
    ) -> Contest:
        """Start a contest.

        Args:
            path: of its study, which must not exist.
            X: features, public.
            y: labels, hidden.
            title: what it is called.
            ids: what rows are called in submissions; 0, 1, 2 … when left out.
            task, metric: what is scored: a metric that is a plain mean ('accuracy', 'error'; 'mean_absolute_error',
                'mean_squared_error').
            classes, low, high: the possible labels, or their range; public.
            id_column, prediction_column: of a submission's file.
            most_bytes, max_per_day: limits.
            ladder: tell an entrant only what is clearly better than its best so far (Blum and Hardt 2015).
            confidence, half_width, seed: as for `eh.Holdout`.
        """
        found = find(metric or ("accuracy" if task == "classification" else "mean_absolute_error"), task)
        if found.loss is None or found.output == "probabilities":
            raise SettingError(
                f"a contest scores by one question a submission, and {found.name} is none. Expected 'accuracy', 'error', "
                "'mean_absolute_error' or 'mean_squared_error'."
            )
        if most_bytes < 1 or (max_per_day is not None and max_per_day < 1):
            raise SettingError("limits are at least 1.")
        contest = cls.__new__(cls)
        contest.path = Path(path)
        if contest._beside("contest.json").exists() or contest.path.exists():
            raise LedgerError(f"{contest.path} exists already. Choose another name.")
        labels = np.asarray(y)
        names = [str(one) for one in (range(len(labels)) if ids is None else ids)]
        if len(names) != len(labels) or len(set(names)) != len(names):
            raise DataError(f"there are {len(labels):,} labels. Expected as many ids, each once.")
        drawn = int.from_bytes(os.urandom(8), "big") if seed is None else seed
        rules = Rules(
            title, task, found.name, np.unique(np.asarray(list(classes))).tolist() if classes is not None else [], low, high,
            id_column, prediction_column, most_bytes, max_per_day, ladder, drawn, confidence, half_width,
        )  # fmt: skip
        contest.rules, contest.ids = rules, names
        contest._ready()
        if length(X) != len(labels):
            raise DataError(f"there are {length(X):,} feature rows and {len(labels):,} labels.")
        try:
            hidden = json.dumps({"labels": labels.tolist()})
            shown = json.dumps({**asdict(rules), "ids": names}, ensure_ascii=False)
        except TypeError:
            raise SettingError(
                "labels, classes and settings are plain numbers and texts, so that files can keep them."
            ) from None
        try:
            write_atomic(contest._beside("labels"), hidden.encode(), private=True)
            write_atomic(contest._beside("contest.json"), shown.encode())
            contest._test = contest._seated(labels)
        except BaseException:  # all of it or nothing
            for what in ("labels", "contest.json"):
                contest._beside(what).unlink(missing_ok=True)
            raise
        contest._test.release()
        return contest

    def _ready(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._refused: dict[str, int] = {}
        self._read_to, self._highest = 0, 0
        self._reading = RLock()
        self._reader = Reader(self.rules, self.ids)

    def _seated(self, labels: NDArray[Any]) -> TestSet:
        """Of the features only the rows' order matters: submissions say what they say of each."""
        rules = self.rules
        return TestSet(
            np.arange(len(labels), dtype=np.float64)[:, None],
            labels,
            task=rules.task,
            path=self.path,
            classes=rules.classes or None,
            low=rules.low,
            high=rules.high,
            confidence=rules.confidence,
            half_width=rules.half_width,
            seed=rules.seed,
        )

    def _opened(self) -> TestSet:
        if self._test is None:
            try:
                labels = np.array(json.loads(self._beside("labels").read_text(encoding="utf-8"))["labels"])
            except (ValueError, KeyError, TypeError):
                raise LedgerError(f"{self._beside('labels')} cannot be read as this contest's labels.") from None
            except FileNotFoundError:
                raise LedgerError(
                    f"{self._beside('labels')} is missing: only the owner of the contest can score. The board can be read "
                    "without it."
                ) from None
            self._test = self._seated(labels)
            self._test.release()
        self._test._shared = True
        return self._test

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
        except Malformed as fault:
            return self._noted(Submission(entrant, "malformed", str(fault), row=fault.row, column=fault.column))
        except Refused as refusal:
            return self._noted(Submission(entrant, refusal.state, str(refusal)))
        digest = hashlib.sha256(json.dumps([str(one) for one in values.tolist()]).encode()).hexdigest()
        test = self._opened()
        with test._lock, test._turn() as held:  # from the limit to the score nobody else has a turn
            self._require_newest(held)
            file = read_study(self.path)
            told = self._told_to(file).get(entrant, [])
            known = {one.answer.round for one in file.told}
            name = f"{_MARK} {digest}"
            try:
                if all(one.name != name for one in file.told):  # what was scored before is told again at any time
                    self._require_turn(entrant, file)
                metric = find(self.rules.metric, self.rules.task)
                score = test._score_named(metric, values, name, entrant)
            except Refused as refusal:
                return self._noted(Submission(entrant, refusal.state, str(refusal)))
            except PrecisionExhausted as refusal:
                return self._noted(Submission(entrant, "closed", f"the contest has ended: {refusal}"))
            return self._noted(self._judged(entrant, score, told, repeated=score.round in known))

    def _judged(self, entrant: str, score: Score, told: list[tuple[Score, str]], *, repeated: bool) -> Submission:
        best = max((one for one, _ in told), key=lambda one: self._sign * one.value, default=None)
        better = best is None or _beyond_doubt(score, best, self._sign)
        mine = any(one.round == score.round for one, _ in told)
        if self.rules.ladder and repeated and best is None:
            return Submission(entrant, "scored", "the same predictions came before: a copy earns no score of its own.")
        if self.rules.ladder and not mine and (repeated or not better):
            return Submission(entrant, "scored", "not clearly better than your best so far, which still stands.")
        if repeated:
            said = f"the same predictions were scored before, in round {score.round}."
            return Submission(entrant, "repeated", said, score)
        said = "your first score." if best is None else "clearly better than your best." if better else "scored."
        return Submission(entrant, "scored", said, score, better)

    def _require_newest(self, held: Holdout) -> None:
        """Refuse a study that is older than what was told."""
        self.log()
        seen = self._highest
        if seen > held.rounds:
            raise LedgerError(
                f"{self.path} ends at round {held.rounds}, and round {seen} was told already: it is an older copy. Find "
                f"the one "
                "that holds it; answers given since then would be asked twice."
            )

    def _require_turn(self, entrant: str, file: StudyFile) -> None:
        """By the ledger: what was scored within 24 hours counts."""
        limit = self.rules.max_per_day
        if limit is None:
            return
        since = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds")
        recent = [one.time for one in file.told if one.who == entrant and one.time >= since]
        if len(recent) >= limit:
            free = datetime.fromisoformat(recent[-limit]) + timedelta(days=1)
            raise Refused(
                "too soon", f"{limit} submissions a day are allowed. The next may come at {free:%Y-%m-%d %H:%M} UTC."
            )

    # what is known --------------------------------------------------------------------------------------------------

    def _noted(self, submission: Submission) -> Submission:
        self.log()
        if submission.score is None and self._refused.get(submission.entrant, 0) >= _MOST_NOTED:
            return submission  # enough is known of it; the file would grow without end
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "entrant": submission.entrant,
            "state": submission.state,
            "reason": submission.reason,
            "round": None if submission.score is None else submission.score.round,
        }
        line = (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        try:
            self._append(line)
        except OSError as error:
            raise LedgerError(f"{self._beside('submissions.jsonl')} cannot be written ({error.strerror}).") from None
        return submission

    def _append(self, line: bytes) -> None:
        fd = os.open(self._beside("submissions.jsonl"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # the last line was cut off
            os.write(fd, line)
            os.fsync(fd)
        finally:
            os.close(fd)

    def log(self) -> list[dict[str, Any]]:
        """What was sent, and what became of it."""
        with self._reading:
            try:
                with self._beside("submissions.jsonl").open("rb") as file:
                    if file.seek(0, os.SEEK_END) < self._read_to:  # another file, or cut off
                        self._entries, self._refused, self._read_to, self._highest = [], {}, 0, 0
                    file.seek(self._read_to)
                    text = file.read()
            except FileNotFoundError:
                return []
            except OSError as error:
                said = f"{self._beside('submissions.jsonl')} cannot be read ({error.strerror})."
                raise LedgerError(said) from None
            whole = text.rfind(b"\n") + 1  # a line that is being written is read next time
            self._read_to += whole
            for line in text[:whole].decode("utf-8", "replace").splitlines():
                self._take(line)
            return list(self._entries)

    def _take(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:  # a line that was cut off by a crash; the ledger has the score
            return
        if isinstance(entry, dict) and {"entrant", "state", "reason", "round"} <= entry.keys():
            self._entries.append(entry)
            if isinstance(entry["round"], int):
                self._highest = max(self._highest, entry["round"])
            else:
                self._refused[entry["entrant"]] = self._refused.get(entry["entrant"], 0) + 1

    def board(self) -> Board:
        """The board, from the ledger alone; anybody who has the study's file and the rules can read it."""
        file = read_study(self.path)
        ranked = self._ranked(file)
        known = {place.entrant for place in ranked}
        silent: dict[str, str] = {}
        for entry in self.log():
            if entry["entrant"] not in known:
                silent[entry["entrant"]] = f"{entry['state']}: {entry['reason']}"
        return Board(self.rules, tuple(ranked), tuple(silent.items()), str(file.head), file.spent)

    @property
    def _sign(self) -> float:
        return 1.0 if self.rules.larger_is_better else -1.0

    def _told_to(self, file: StudyFile) -> dict[str, list[tuple[Score, str]]]:
        """What each entrant was told, by the ledger: with the ladder only what was clearly better than before."""
        told: dict[str, list[tuple[Score, str]]] = {}
        for one in file.told:
            if one.who is None or not (one.name or "").startswith(_MARK):
                continue
            score, mine = self._told(one.answer), told.setdefault(one.who, [])
            if not self.rules.ladder or all(_beyond_doubt(score, other, self._sign) for other, _ in mine):
                mine.append((score, one.time))
        return told

    def _ranked(self, file: StudyFile) -> list[Place]:
        sent: dict[str, int] = {}
        for one in file.told:
            if one.who is not None and (one.name or "").startswith(_MARK):
                sent[one.who] = sent.get(one.who, 0) + 1
        best = {
            entrant: max(scores, key=lambda one: (self._sign * one[0].value, -one[0].round))
            for entrant, scores in self._told_to(file).items()
        }
        ranked = []
        for entrant, (score, when) in best.items():
            ahead = sum(_beyond_doubt(other, score, self._sign) for other, _ in best.values())
            ranked.append(
                Place(1 + ahead, entrant, score.value, score.low, score.high, score.round, sent[entrant], when)
            )
        return sorted(ranked, key=lambda place: (place.rank, -self._sign * place.value, place.round))

    def _told(self, answer: Any) -> Score:
        """An answer of the ledger in the metric's own units."""
        span = 1.0
        if self.rules.task == "regression" and self.rules.low is not None and self.rules.high is not None:
            width = self.rules.high - self.rules.low
            span = width if self.rules.metric == "mean_absolute_error" else width**2
        return Score.of_share(answer.as_share(), self.rules.metric, span)


def _name(entrant: object) -> str:
    """Who sends it: readable, without blanks around it, writable."""
    name = entrant.strip() if isinstance(entrant, str) else ""
    if not 0 < len(name) <= 100 or not name.isprintable():
        raise QuestionError("an entrant's name is a text of up to 100 printable letters.")
    return name


def _beyond_doubt(one: Score, other: Score, sign: float) -> bool:
    return one.low > other.high if sign > 0 else one.high < other.low
