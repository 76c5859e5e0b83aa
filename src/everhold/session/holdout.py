"""The front door: a holdout's acts, for every interface.

Every question and every act, from every interface, goes through one of two methods: `Recorder.do_round` for a round,
`Recorder.do_act` for any other act.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from everhold.acts import BestOf, Certify, Close, CompareTwo, IsBetter, Read, ReadMany
from everhold.bounds.privacy import Privacy, PrivacyAccount
from everhold.bounds.singling_out import WeightFloor, weight_floor
from everhold.data.sample import EngineName, Sample
from everhold.errors import LedgerError, PrecisionExhausted, QuestionError
from everhold.ledger.audit import Audit
from everhold.ledger.log import Log
from everhold.ledger.logged_act import in_order, logged_act
from everhold.ledger.reader import as_asked, logged_finding, logged_round
from everhold.mechanism.rules import Rule
from everhold.mechanism.tolerance import TolerancePolicy
from everhold.plots import Point, session_figure
from everhold.priors.pool import Prior
from everhold.priors.split import Split
from everhold.queries.answer import Answer
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.queries.protocol import P
from everhold.queries.round_act import RoundAct
from everhold.results import counted, html_table
from everhold.session.outlook import next_reading_text, outlook
from everhold.session.private_acts import acts_of
from everhold.session.public import PublicSide, declared_columns
from everhold.session.registered import warn_rows_in_use
from everhold.session.session import Session
from everhold.session.settings import HoldoutOptions, OverlapRule, RuleName, Settings
from everhold.session.setup import Setup, new_setup
from everhold.session.study import new_study, open_study, rehearse_study
from everhold.session.study_audit import audit_study
from everhold.statistics import checked_statistic, is_statistic, require_no_expect
from everhold.statistics.declared import DeclaredColumns
from everhold.statistics.groups import By
from everhold.statistics.means import Difference, Mean, Ratio, Share
from everhold.statistics.quantiles import Median, Quantile
from everhold.statistics.rehearsal import Rehearsal, as_answer
from everhold.statistics.shortcuts import shortcut
from everhold.statistics.spread import Correlation, Variance
from everhold.statistics.statistic import QuestionBatch, Statistic, run
from everhold.statistics.tables import Histogram, Table
from everhold.trial import Trial, trial_of

if TYPE_CHECKING:
    from everhold.bounds.budget import Budget
    from everhold.data.schema import Schema
    from everhold.errors import EverholdError
    from everhold.ledger.journal import Journal
    from everhold.ledger.replay import Analyst
    from everhold.queries.answer import Preview
    from everhold.queries.protocol import Mechanism, Outcome
    from everhold.queries.query import Query
    from everhold.queries.request import AskedBy, Request

__all__ = ["Holdout", "holdout_without_rows"]

R = TypeVar("R")


class Holdout:
    """A holdout set that does not wear out: private rows that answer any number of adaptive questions.

    Every answer carries an interval for the *population* value. All intervals of a session are valid at the same time with
    the session's confidence, whatever was asked, in whatever order, and however good or bad the prior is. A prior that
    fits makes surprises rare and intervals narrow.

    Args:
        data: the private rows: a path to CSV or Parquet files (or a pattern), a pandas or Polars frame, an Arrow table, a
            mapping of columns; a table that stays in its database (`eh.Postgres`, `eh.Spark`); or their number, when every
            question is given by its values (`eh.Values`). Rows must be independent draws, unless `unit` says which belong
            together.
        prior: what is known beforehand: `eh.Reference`, `eh.Labels`, `eh.Marginals`, `eh.Sampler`, chosen without
            looking at the private rows; or `eh.Split(0.5)`, which makes a random part of them public.
        confidence: probability that all intervals are valid at the same time.
        half_width: a promised half-width on the share scale; the holdout then refuses (`PrecisionExhausted`) rather than
            break the promise. Default None: it never refuses, and intervals widen with what is disclosed.
        rule: 'corrective' (default), 'gradient' or 'entropic'.
        density: λ, where one is known.
        known_rows: how many of the private rows the analyst may know.
        seed: of the coins; drawn from the operating system when left out.
        tolerance: a tolerance policy of your own, such as `eh.Anytime(share=0.7)`.
        schema: what the columns are (`eh.Schema`, or the path of its file); proposed from the public side when left out.
        unit: a column that says which rows belong together: they count as one draw, the mean of their values.
        engine: 'memory', 'duckdb' (Parquet files larger than memory, read in place), or 'auto'.
        memory_limit: for the DuckDB engine, such as '1GB'.
        rounds: how many asks are planned, where that can be said. Their intervals are then narrower.
        overlap: 'refuse' (default) a reference that holds private rows, more of them than chance explains; or 'allow' it,
            if they are known to be independent all the same. The record says so.

    Attributes:
        schema: the declared columns.
        settings: of the session.
        prior: as it was given.
        public: the public side, made ready.
        session: the session behind it.
        mechanism: of the session.
        acts: beyond asking, over this session.

    >>> import numpy as np, everhold as eh
    >>> rng = np.random.default_rng(0)
    >>> people = lambda size: {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < 0.2}
    >>> holdout = eh.Holdout(people(5000), prior=eh.Reference(people(5000)), seed=1)
    >>> answer = holdout.ask(lambda rows: rows["age"] > 40)
    >>> 49 / 72 in answer.interval, answer.surprise, holdout.rounds
    (True, False, 1)
    """

    def __init__(
        self,
        data: object,
        *,
        prior: Prior | Split | None = None,
        confidence: float = 0.95,
        half_width: float | None = None,
        rule: RuleName | Rule = "corrective",
        density: float | None = None,
        known_rows: int = 0,
        seed: int | None = None,
        tolerance: TolerancePolicy | None = None,
        schema: Schema | str | Path | None = None,
        unit: str | None = None,
        engine: EngineName = "auto",
        memory_limit: str | None = None,
        overlap: OverlapRule = "refuse",
        rounds: int | None = None,
    ) -> None:
        options: HoldoutOptions = {
            "confidence": confidence,
            "half_width": half_width,
            "rule": rule,
            "density": density,
            "known_rows": known_rows,
            "seed": seed,
            "tolerance": tolerance,
            "schema": schema,
            "unit": unit,
            "engine": engine,
            "memory_limit": memory_limit,
            "overlap": overlap,
            "rounds": rounds,
        }
        self._start(new_setup(data, prior, options))
        warn_rows_in_use(self.session.sample)

    @classmethod
    def _from_setup(cls, setup: Setup) -> Holdout:
        """A holdout of a session that is ready: its settings, public side and record come from a study's file."""
        holdout = cls.__new__(cls)
        holdout._start(setup)
        return holdout

    def _start(self, setup: Setup) -> None:
        """Answer from this session, which is ready."""
        self._setup = setup
        self.session = setup.session
        self.mechanism = setup.mechanism
        self.schema: Schema = setup.public.schema
        self.settings: Settings = setup.settings
        self.prior: Prior = setup.prior
        self.public: PublicSide = setup.public
        self.acts = acts_of(self.session, self.mechanism, self.declared())

    @classmethod
    def create(
        cls,
        path: str | Path,
        data: object,
        *,
        prior: Prior | Split,
        register: bool = True,
        privacy: Privacy | None = None,
        **options: Unpack[HoldoutOptions],
    ) -> Holdout:
        """A durable study: the same as `Holdout(data, prior=..., ...)`, with its record in a file.

        Three files appear: the study itself, which holds no private row and may be shown to anybody who should check it;
        beside it `<path>.key`, for the owner alone, which binds the study to these rows; `<path>.lock`, while it is open.

        Args:
            path: of the study, which must not exist; `study.everhold` by custom.
            data: the private rows. A path is remembered in the key file, so that `open` finds them again.
            prior: as for `Holdout`; it must have fixed rows.
            register: whether the rows are entered in the user's registry of studies, which warns when a second study is
                made of rows that have one, and refuses a private one.
            privacy: what to promise about every row, such as `eh.Privacy(epsilon=1.0)`: everything that the study ever
                discloses is then differentially private (docs/howto/private.md). It needs a declared schema and a prior,
                neither of them made from the private rows: both are published as they are, and nothing can check it.
                Questions are text and statistics. A third file `<path>.spent` remembers what was charged.
            options: as for `Holdout`.
        """
        return Holdout._from_setup(new_study(Path(path), data, prior, options, privacy, register=register))

    @staticmethod
    def open(
        path: str | Path,
        *,
        data: object = None,
        expect_head: str | None = None,
        engine: EngineName = "auto",
        memory_limit: str | None = None,
    ) -> Holdout:
        """Continue a durable study, for asking. One process at a time.

        Args:
            path: of the study.
            data: the private rows, where they are not at the place that the key file remembers.
            expect_head: a head that was printed or noted before; a copy of the study that does not contain it, because it is
                older or another, is refused.
            engine, memory_limit: as for `Holdout`.
        """
        return Holdout._from_setup(open_study(Path(path), data, expect_head, engine, memory_limit))

    @staticmethod
    def with_mechanism(data: object, build: Callable[[int], Mechanism[P]]) -> Session[P]:
        """A session that answers by another mechanism: `build(rows)` makes it in its first state, each time the same."""
        sample = Sample(data)
        return Session(sample, lambda: build(sample.size))

    def release(self) -> None:
        """Release a durable study, so that another process may ask. Nothing is lost: every returned answer is recorded."""
        self.session.recorder.release()

    def pause(self) -> None:
        """Let another process ask a durable study, without forgetting anything here; `resume` goes on."""
        self.session.recorder.pause()

    def resume(self) -> None:
        """Ask again after `pause`: what other processes recorded meanwhile is taken over, and nothing is read twice.

        Raises:
            LedgerBusy: another process is asking.
        """
        self.session.recorder.resume()

    def __enter__(self) -> Holdout:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    # where it stands -----------------------------------------------------------------------------------------------

    @property
    def who(self) -> str | None:
        """A name that is recorded with the following questions."""
        return self.session.who

    @who.setter
    def who(self, name: str | None) -> None:
        self.session.who = name

    @property
    def head(self) -> str:
        """Where a durable study stands: note it down, and `open(expect_head=...)` refuses every older copy."""
        store = self.session.store
        if store is None:
            raise LedgerError("this holdout is in memory only. Make it durable with Holdout.create(path, ...).")
        return str(store.head)

    @property
    def size(self) -> int:
        """n, the number of private rows. Public."""
        return self.session.size

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return self.session.rounds

    @property
    def surprises(self) -> int:
        """How many of them surprised."""
        return self.session.surprises

    @property
    def price(self) -> float:
        """The price of the next ask's interval, in nats; `budget.claim_price()` is that of the next reading."""
        return self.session.price

    @property
    def budget(self) -> Budget:
        """What has been disclosed so far, and what of the failure probability has been spent."""
        return self.mechanism.budget

    @property
    def closed(self) -> bool:
        """Whether the last act is done, so that nothing can be asked."""
        return self.mechanism.closed

    def require_open(self) -> None:
        """Raise `HoldoutClosed` after the last act."""
        self.mechanism.require_open()

    @property
    def privacy(self) -> PrivacyAccount | None:
        """What a private study has promised and spent; None where nothing was promised."""
        return self.budget.privacy

    @property
    def journal(self) -> Journal:
        """The record of all rounds."""
        return self.session.journal

    @property
    def transcript(self) -> dict[int, tuple[Outcome, tuple[int, ...] | None]]:
        """Z: what every round disclosed, and its fit. With the coins and the questions it replays a session of asks."""
        return self.session.transcript

    @property
    def usable(self) -> bool:
        """Whether it can be asked: the record can be written, and the study is open."""
        return self.session.usable

    def findings(self) -> Log:
        """What was asked and done, as people asked it: statistics with their parts, questions and other acts as they are.

        A list that is also a table (`to_frame`), JSON (`to_json`) and a picture (`plot`).
        """
        journal = self.journal
        rounds = [logged_round(past, journal.asked_by(past.number)) for past in journal]
        asked = as_asked(rounds, [logged_finding(*entry) for entry in journal.findings])
        return Log(in_order(asked, [logged_act(*entry) for entry in journal.recorded_acts]))

    def by(self, *columns: str, read: bool = False) -> By:
        """Statistics by groups: `holdout.by("carrier").mean("arr_delay")`, `holdout.by("city", "smoker").median("age")`.

        Groups are declared categories, or yes and no of a yes/no column or question.

        Args:
            columns: to divide by.
            read: read all groups at one price, instead of asking for one after the other.
        """

        def answered(statistics: Sequence[Statistic[Any]]) -> list[Any]:
            return self.read_many(statistics) if read else [self.ask(statistic) for statistic in statistics]

        return By(answered, self.schema, [name for part in columns for name in ([part] if isinstance(part, str) else part)])

    def plot(self, ax: Any = None) -> Any:
        """The session so far: answers with their intervals over rounds, and the price."""
        points = [Point.of(past.answer.as_share()) for past in self.journal]
        return session_figure(points, title=f"{counted(self.rounds, 'round')}, {counted(self.surprises, 'surprise')}", ax=ax)

    def weight_floor(self, probability: float = 0.05) -> WeightFloor:
        """How rare a trait must be so that the answers so far do not single out a row by it, but for this probability.

        A statement about somebody who knows the population and none of the rows. This is not privacy
        (docs/theory/singling_out.md). After a few surprises it says nothing useful, unless the study is private.
        """
        return weight_floor(self.budget, self.size, probability)

    @property
    def price_text(self) -> str:
        """How wide the next reading of a share is, in words."""
        return next_reading_text(self.budget, self.size, closed=self.closed)

    def outlook(self) -> str:
        """What to expect, in words: half-widths of asks and readings now, and whether another prior would do better.

        Public facts only: nothing is read or charged.
        """
        return outlook(self)

    # asking --------------------------------------------------------------------------------------------------------

    @overload
    def ask(  # type: ignore[overload-overlap]  # a statistic is an object, and gives more than an answer
        self,
        question: Statistic[R],
        *,
        name: None = None,
        request_id: str | None = None,
        who: str | None = None,
        expect: None = None,
    ) -> R: ...

    @overload
    def ask(
        self,
        question: object,
        *,
        name: str | None = None,
        request_id: str | None = None,
        who: str | None = None,
        expect: float | None = None,
    ) -> Answer: ...

    def ask(
        self,
        question: object,
        *,
        name: str | None = None,
        request_id: str | None = None,
        who: str | None = None,
        expect: float | None = None,
    ) -> Any:
        """Answer a question about the population.

        Args:
            question: text such as "age > 40 AND smoker" (docs/reference/expressions.md); a statistic such as
                `eh.Mean("bmi", given="smoker")`; a callable over columns, in process and from trusted code only (booleans
                make a share in [0, 1], numbers in [-1, 1] a mean); or `eh.Values(sample=..., reference=...)`.
            name: a public identity for a callable; asking the same name again returns the recorded answer for nothing.
            request_id: asked again under the same id, the same answer is returned and nothing is charged; another question
                under the same id is refused. The parts of a statistic have the ids `<request_id>/1`, `<request_id>/2` ….
            who: a name for the record.
            expect: what you foresee, on the answer's scale, in place of the sketch's forecast. It must come from public
                facts and earlier answers alone. A good guess avoids surprises.

        Raises:
            QuestionError: the question cannot be answered as it was asked. Nothing was charged.
            PrecisionExhausted: a fixed-precision holdout cannot keep its promise for another question.
        """
        if not is_statistic(question):
            return self.session.ask(question, name=name, request_id=request_id, who=who, expect=expect)
        if name is not None:
            raise QuestionError("a statistic is known by its parts, and takes no other name.")
        require_no_expect(question, expect)
        return self._ask_statistic(cast("Statistic[Any]", question), request_id, who)

    def _ask_statistic(self, statistic: Statistic[R], request_id: str | None, who: str | None) -> R:
        statistic = checked_statistic(statistic)
        asked_by = self.session.stamp(request_id, who)
        count = 0
        paid: list[Answer] = []

        def parts(batch: QuestionBatch) -> list[Answer]:
            nonlocal count
            count += len(batch)
            first = count - len(batch) + 1
            try:
                answers = self.session.ask_parts(batch, asked_by, first=first)
            except PrecisionExhausted as refusal:  # answers before the refusal are charged, and returned with it
                refusal.answers = [*paid, *refusal.answers]
                raise
            paid.extend(answers)
            return answers

        result = run(statistic.steps(self.declared()), parts)
        self.record_finding(statistic, result, asked_by)
        return result

    def declared(self, most_cells: int = 10_000) -> DeclaredColumns:
        """The declared columns, and what statistics may know of the public side."""
        return declared_columns(self.mechanism, self.schema, most_cells)

    def record_finding(self, statistic: Statistic[Any], result: Any, asked_by: AskedBy) -> None:
        """Record a statistic whose parts were answered, before its result is returned. One question is its own record."""
        self.session.record_finding(statistic, result, asked_by)

    def ask_many(
        self,
        questions: Iterable[object],
        *,
        request_id: str | None = None,
        who: str | None = None,
    ) -> list[Answer]:
        """Answer several questions in order. All of them are checked before the first is charged; all are recorded at once.

        Questions given as text are evaluated in one scan of the rows, and what they have in common is computed once.
        A refusal on the way (`PrecisionExhausted`) carries the answers before it, as `error.answers`. With a
        `request_id` the questions have the ids `<request_id>/1`, `<request_id>/2` ….
        """
        return self.session.ask_many(questions, request_id=request_id, who=who)

    def ask_each(self, requests: Sequence[Request]) -> list[Answer | EverholdError]:
        """Answer questions of several people in one turn: one scan, one record, each as if it were asked alone.

        An error of one stands in its place, and the others are answered all the same. Only a record that cannot be written
        is raised: then nobody gets an answer.
        """
        return self.session.ask_each(requests)

    # readings and other acts ---------------------------------------------------------------------------------------

    @overload
    def read(  # type: ignore[overload-overlap]
        self,
        question: Statistic[R],
        *,
        spend: float | None = None,
        expect: None = None,
        request_id: str | None = None,
        who: str | None = None,
    ) -> R: ...

    @overload
    def read(
        self,
        question: object,
        *,
        spend: float | None = None,
        expect: float | None = None,
        request_id: str | None = None,
        who: str | None = None,
    ) -> Answer: ...

    def read(
        self,
        question: object,
        *,
        spend: float | None = None,
        expect: float | None = None,
        request_id: str | None = None,
        who: str | None = None,
    ) -> Any:
        """The private rows' own value, with a narrow interval for the population.

        A reading discloses the value to a small cell, so every later interval is wider: `try_out` says by how much. Asked
        again, the same reading is returned for nothing.

        Args:
            question: as for `ask`.
            spend: of what is left of the failure probability for readings, the part that this one spends. More makes it
                narrower and later ones wider. Default: a half for the first, a third of the rest for the second, and so on.
            expect: what you foresee, as for `ask`. A good guess makes the reading cheaper for later ones.
            request_id, who: as for `ask`.
        """
        return self.acts.do(Read(cast(Any, question), spend=spend, expect=expect), self.session.stamp(request_id, who))

    def read_many(
        self,
        questions: Iterable[object],
        *,
        spend: float | None = None,
        request_id: str | None = None,
        who: str | None = None,
    ) -> list[Any]:
        """Read several questions and statistics at once, at one price: what each discloses widens only what comes later.

        All are fixed before the first is read, so that they cost each other no more than questions fixed in advance.
        """
        results: list[Any] = self.acts.do(ReadMany(cast(Any, questions), spend=spend), self.session.stamp(request_id, who))
        return results

    def close(self, questions: Iterable[object], *, request_id: str | None = None, who: str | None = None) -> list[Any]:
        """The last act: read any number of questions in the finest cells, and never read the private rows again.

        All of the failure probability that is left is spent on these. Afterwards the study can be read, audited and cited,
        and nothing can be asked. To let another process go on with a study, use `release`.
        """
        results: list[Any] = self.acts.do(Close(cast(Any, questions)), self.session.stamp(request_id, who))
        return results

    def best_of(
        self,
        questions: Iterable[object],
        *,
        weights: Sequence[float] | None = None,
        request_id: str | None = None,
        who: str | None = None,
    ) -> Choice:
        """Which of several questions or statistics has the largest value on the private rows: `.index`, and nothing else.

        It costs later intervals the logarithm of the number of candidates, however many there are to look at. Then read
        that one.

        Args:
            questions: the candidates. Of equal ones the first counts.
            weights: how probable it is, by what is publicly known, that each is best. A likely winner costs less.
            request_id, who: as for `ask`.
        """
        choice: Choice = self.acts.do(BestOf(cast(Any, questions), weights=weights), self.session.stamp(request_id, who))
        return choice

    def is_better(
        self,
        first: object,
        second: object,
        *,
        by: float = 0.0,
        request_id: str | None = None,
        who: str | None = None,
    ) -> Decision:
        """Whether the first is larger than the second by more than `by` on the private rows: one bit, true or false.

        It says nothing certain about the population; `compare` does.
        """
        decision: Decision = self.acts.do(
            IsBetter(cast(Any, first), cast(Any, second), by=by), self.session.stamp(request_id, who)
        )
        return decision

    def compare(
        self,
        first: object,
        second: object,
        *,
        low: float | None = None,
        high: float | None = None,
        given: str | None = None,
        spend: float | None = None,
        request_id: str | None = None,
        who: str | None = None,
    ) -> Verdict:
        """Which of two is larger in the population, certified: `.verdict` is 'yes', 'no' or 'cannot tell'.

        Two yes/no questions are compared by the rows on which they differ (McNemar's exact test), which finds much smaller
        differences than two intervals do. Numbers are compared by the mean of their difference, statistics side by side.
        For an interval of the difference read `eh.Compare(first, second)`.

        Args:
            first, second: two texts, two callables, two `eh.Values` or two statistics.
            low, high: the range of two numbers given as text.
            given: only rows for which this is true, for two texts.
            spend, request_id, who: as for `read`.
        """
        act = CompareTwo(cast(Any, first), cast(Any, second), low=low, high=high, given=given, spend=spend)
        verdict: Verdict = self.acts.do(act, self.session.stamp(request_id, who))
        return verdict

    def certify(
        self, answer: Answer | int, *, spend: float | None = None, request_id: str | None = None, who: str | None = None
    ) -> Answer:
        """A narrower interval for an earlier share of all rows, from the part of the failure probability kept for claims.

        It discloses nothing new: the interval follows from what the earlier answer disclosed.
        """
        if not isinstance(answer, int | Answer):
            raise QuestionError(
                f"certify takes an earlier answer or the number of its round, not {type(answer).__name__}. Expected "
                "holdout.certify(holdout.ask(...)). Nothing was charged."
            )
        number = answer if isinstance(answer, int) else answer.round
        certified: Answer = self.acts.do(Certify(number, spend=spend), self.session.stamp(request_id, who))
        return certified

    share = shortcut(Share)
    mean = shortcut(Mean)
    difference = shortcut(Difference)
    ratio = shortcut(Ratio)
    median = shortcut(Median)
    quantile = shortcut(Quantile)
    variance = shortcut(Variance)
    correlation = shortcut(Correlation)
    histogram = shortcut(Histogram)
    table = shortcut(Table)

    # the public side -----------------------------------------------------------------------------------------------

    @overload
    def try_out(self, question: Statistic[Any]) -> Trial: ...  # type: ignore[overload-overlap]

    @overload
    def try_out(self, question: object) -> Preview: ...

    def try_out(self, question: object) -> Any:
        """What the public side alone says of a question: costs nothing, reads no private row, shows errors in full.

        Of a statistic: what an ask and a reading of it would show, side by side, and what each costs.
        """
        return self.try_both(question) if is_statistic(question) else self.session.try_out(question)

    def try_both(self, question: object) -> Trial:
        """What asking and what reading would show of a question or a statistic, and what each costs: for nothing."""

        def preview(query: Query, parts: int) -> Preview:
            return self.session.try_out(query, read=RoundAct("read", parts=parts))

        def refusal(names: Sequence[str | None]) -> str:
            return self.session.ask_refusal(self.who, names)

        return trial_of(question, self.declared(), preview, self.privacy, refusal)

    @property
    def rehearsal(self) -> Rehearsal:
        """The same questions on the public side alone: `holdout.rehearsal.mean("bmi")` spends nothing."""
        return Rehearsal(self._rehearse, self.session.try_out, lambda: self.schema)

    def _rehearse(self, statistic: Statistic[R]) -> R:
        """A statistic's result if no part of it were a surprise."""
        steps = checked_statistic(statistic).steps(self.declared())
        return run(steps, lambda batch: [as_answer(self.session.try_out(query)) for query in batch])

    def check(self, question: object) -> None:
        """Raise what is wrong with a question or statistic, without asking it. Nothing is read or charged."""
        if is_statistic(question):
            self._rehearse(cast("Statistic[Any]", question))
        else:
            self.session.query(question)

    @staticmethod
    def rehearse(path: str | Path) -> Rehearsal:
        """A durable study's rehearsal, for anybody who has its file: no private rows, no key, nothing spent."""
        return holdout_without_rows(path).rehearsal

    # the past ------------------------------------------------------------------------------------------------------

    def audit(self) -> Audit:
        """Replay the whole record without the private rows, bit for bit; of a durable study, the file itself."""
        if (store := self.journal.store) is not None:
            self.journal.require_open()
            return self.audit_file(store.path)
        return self.session.audit()

    @staticmethod
    def audit_file(
        path: str | Path, *, expect_head: str | None = None, progress: Callable[[int], None] | None = None
    ) -> Audit:
        """Check a study's file, for anybody who has it: no private rows, no key.

        The chain of hashes, every byte of the file, and every round again from the public rows and the recorded surprises:
        the sketch, prices, intervals and answers, bit for bit; and every statistic again from its rounds.
        """
        return audit_study(Path(path), expect_head=expect_head, progress=progress)

    def replay(self, questions: Analyst | Iterable[object]) -> list[Answer]:
        """Every answer again from the transcript, the coins and the questions (or the analyst's program), without data."""
        return self.session.replay(questions)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.session.__reduce__()

    def __repr__(self) -> str:
        draws = "rows" if self._setup.unit is None else "units"
        if self.session.broken:
            return f"Holdout({self.size:,} private {draws}, interrupted: open the study again)"
        return (
            f"Holdout({self.size:,} private {draws}, rounds: {self.rounds:,}, surprises: {self.surprises:,}; "
            f"{self.price_text})"
        )

    def _repr_html_(self) -> str:
        draws = "rows" if self._setup.unit is None else "units"
        facts = [
            (f"private {draws}", f"{self.size:,}"),
            ("confidence", f"{self.settings.confidence:g}"),
            ("rounds", f"{self.rounds:,}, of which {counted(self.surprises, 'surprise')}"),
            ("next", self.price_text),
            ("state", "closed" if self.closed else "open"),
        ]
        return html_table(["everhold holdout", ""], [(escape(name), escape(value)) for name, value in facts])


def holdout_without_rows(path: str | Path) -> Holdout:
    """A study's holdout for anybody who has its file: its public side can be tried, and nothing can be asked."""
    return Holdout._from_setup(rehearse_study(Path(path)))
