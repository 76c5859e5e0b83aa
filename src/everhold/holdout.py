"""The one door: every question, from wherever it comes, enters at `Holdout.ask`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from everhold.data.sample import EngineName, Sample
from everhold.data.schema import Schema
from everhold.data.source import Frame, as_source
from everhold.data.table import Table
from everhold.data.units import Units
from everhold.errors import (
    LedgerError,
    PrecisionExhausted,
    PriorError,
    QuestionError,
    SettingError,
    require_number,
    require_whole,
)
from everhold.ledger.audit import Audit, audit
from everhold.ledger.events import Round, keep
from everhold.ledger.journal import Journal
from everhold.ledger.replay import Analyst, replay
from everhold.mechanism.estimator import Draws, FreshEstimator, PoolEstimator
from everhold.mechanism.everhold import Everhold
from everhold.mechanism.rules import Corrective, Entropic, Gradient, Rule
from everhold.mechanism.tolerance import Anytime, Contract, FixedPrecision
from everhold.priors.pool import Pool, Prior
from everhold.priors.reference import Reference
from everhold.priors.split import Split
from everhold.queries.coins import coins, fresh_seed
from everhold.queries.expression import Expression, Graded, expression
from everhold.queries.expression.program import Batch, Columns
from everhold.queries.expression.question import Prepared
from everhold.queries.query import Query, as_query
from everhold.questions.asker import Asker
from everhold.questions.rehearsal import Rehearsal

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.queries.answer import Answer, Preview
    from everhold.queries.mechanism import Mechanism

__all__ = ["Holdout", "RuleName", "Settings"]

RuleName = Literal["corrective", "gradient", "entropic"]

_AT_ONCE = 1024  # questions of a batch that are scanned for together
_LOOK_AT = 2048  # fresh rows that a schema is proposed from


@dataclass(frozen=True, slots=True, eq=False)
class _Decided:
    """A round whose cell is known and which is not yet recorded."""

    query: Query
    proposal: Any
    cell: int | None
    identity: str | None
    answer: Answer


@dataclass(frozen=True, slots=True)
class Settings:
    """The public settings of a session. Together with the prior they fix everything but what the data says.

    Attributes:
        confidence: probability that all intervals of the session hold together.
        half_width: promised half-width on the share scale (fixed precision), or None (anytime).
        rule: how surprises teach the sketch; a name, or a rule object.
        density: λ where one is known: `D ≤ π/λ`; it caps the density ratio. The prior's own when left out.
        known_rows: how many private rows the analyst may know.
        seed: of all coins.
        tolerance: a contract to use instead of the default for `half_width`.
    """

    confidence: float = 0.95
    half_width: float | None = None
    rule: RuleName | Rule = "corrective"
    density: float | None = None
    known_rows: int = 0
    seed: int = 0
    tolerance: Contract | None = None

    def __post_init__(self) -> None:
        require_number(self.confidence, "confidence")
        if not 1e-9 < self.confidence < 1.0:
            raise SettingError(
                f"confidence lies strictly between 0 and 1, not at {self.confidence!r}. 0.95 is usual: all intervals of a "
                "session hold together in 95 of 100 sessions."
            )
        if self.half_width is not None:
            require_number(self.half_width, "half_width")
            if not 0.0 < self.half_width < 1.0:
                raise SettingError(f"half_width is on the share scale, between 0 and 1, not {self.half_width!r}")
        if self.density is not None:
            require_number(self.density, "density")
            if not 0.0 < self.density <= 1.0:
                raise SettingError(f"the density λ lies in (0, 1], not at {self.density!r}")
        require_whole(self.known_rows, "known_rows")
        require_whole(self.seed, "seed")
        if isinstance(self.rule, str) and self.rule not in get_args(RuleName):
            raise SettingError(f"the rule is one of {', '.join(get_args(RuleName))}, not {self.rule!r}")
        if not isinstance(self.rule, str) and not hasattr(self.rule, "fit"):
            raise SettingError(f"the rule is a name or a rule such as eh.Corrective(), not {self.rule!r}")
        if self.tolerance is not None and not hasattr(self.tolerance, "tolerance"):
            raise SettingError(f"tolerance is a policy such as eh.Anytime(share=0.7), not {self.tolerance!r}")

    def contract(self) -> Contract:
        """The tolerance policy."""
        if self.tolerance is not None:
            return self.tolerance
        return Anytime() if self.half_width is None else FixedPrecision(2.0 * self.half_width)

    def make_rule(self, prior_density: float | None) -> Rule:
        """The rule, its cap set by the density where one is known."""
        if not isinstance(self.rule, str):
            return self.rule
        density = self.density or prior_density
        if self.rule == "gradient":
            return Gradient()
        if self.rule == "entropic":
            return Entropic()
        return Corrective() if density is None else Corrective(cap=min(max(1.0 / density, 1.01), 2.0**12))


class Holdout(Asker):
    """A holdout set that never wears out: private rows that answer any number of adaptive questions.

    Every answer carries an interval for the *population* value, and all intervals of a session hold together with
    the session's confidence, whatever was asked, in whatever order, and however good or bad the prior is. A prior that
    fits makes surprises rare and intervals narrow.

    Args:
        data: the private rows: a path to CSV or Parquet files (or a pattern), a pandas or Polars frame, an Arrow table, a
            mapping of columns; or their number, when every question is given by its values (`eh.Values`). Rows must
            be independent draws, unless `unit` says which belong together.
        prior: what is known beforehand: `eh.Reference`, `eh.Labels`, `eh.Marginals`, `eh.Sampler`, chosen without
            looking at the private rows; or `eh.Split(0.5)`, which makes a random part of them public.
        confidence: probability that all intervals hold together.
        half_width: a promised half-width on the share scale; the holdout then refuses (`PrecisionExhausted`) rather than
            break the promise. Left out: it answers for ever, and intervals widen with surprises.
        rule: 'corrective' (default), 'gradient' or 'entropic'.
        density: λ, where one is known.
        known_rows: how many of the private rows the analyst may know.
        seed: of the coins; drawn from the operating system when left out.
        tolerance: a tolerance policy of your own, such as `eh.Anytime(share=0.7)`.
        schema: what the columns are (`eh.Schema`, or the path of its file); proposed from the public side when left out.
        unit: a column that tells which rows belong together: they count as one draw, the mean of what they say.
        engine: 'memory', 'duckdb' (Parquet files larger than memory, read in place), or 'auto'.
        memory_limit: for the DuckDB engine, such as '1GB'.

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
        prior: Prior | Split,
        confidence: float = 0.95,
        half_width: float | None = None,
        rule: RuleName | Rule = "corrective",
        density: float | None = None,
        known_rows: int = 0,
        seed: int | None = None,
        tolerance: Contract | None = None,
        schema: Schema | str | Path | None = None,
        unit: str | None = None,
        engine: EngineName = "auto",
        memory_limit: str | None = None,
    ) -> None:
        if not isinstance(prior, Prior | Split):
            raise PriorError(
                f"the prior is of type {type(prior).__name__}. Expected eh.Reference(table), eh.Labels(...), "
                "eh.Marginals(...) or eh.Sampler(...): public rows, or a way to draw them; or eh.Split(0.5). For a file "
                "write prior=eh.Reference('last_year.csv')."
            )
        settings = Settings(
            confidence=confidence,
            half_width=half_width,
            rule=rule,
            density=density,
            known_rows=known_rows,
            seed=fresh_seed() if seed is None else seed,
            tolerance=tolerance,
        )
        rows = as_source(data, what="the private table", private=True)
        if isinstance(prior, Split):
            shown, rows = prior.divide(rows, coins(settings.seed, "split"), unit)
            prior = Reference(shown.table())
        declared = Schema.load(schema) if schema is not None and not isinstance(schema, Schema) else schema
        public = _Public(prior, settings.seed, declared, unit)
        if declared is None:
            _require_same_columns(rows, public.columns)
        sample = Sample(rows, schema=public.schema, unit=unit, engine=engine, memory_limit=memory_limit)
        self._open(sample, lambda: _build(sample.size, public, settings))
        self._words: dict[str, frozenset[str]] = public.schema.words
        self._pool_rows: Table | None = None if public.pool is None else public.pool.rows
        self.schema: Schema | None = public.schema
        self.settings: Settings | None = settings
        self.prior: Prior | None = prior

    def _open(self, sample: Sample, build: Callable[[], Mechanism]) -> None:
        self._sample = sample
        self._words = {}
        self._pool_rows = None
        self._build = build
        self._mechanism = build()
        self._journal = Journal()
        self._lock = RLock()
        self._process = os.getpid()
        self._asking = False
        self._decided: _Decided | None = None

    @classmethod
    def with_mechanism(cls, data: object, build: Callable[[int], Mechanism]) -> Holdout:
        """A holdout that answers by another mechanism: `build(rows)` makes it in its first state, each time the same."""
        holdout = cls.__new__(cls)
        holdout.settings = holdout.prior = holdout.schema = None
        sample = Sample(data)
        holdout._open(sample, lambda: build(sample.size))
        return holdout

    @property
    def size(self) -> int:
        """n, the number of private rows. Public."""
        return self._sample.size

    @property
    def rounds(self) -> int:
        """How many questions have been answered."""
        return self._mechanism.rounds

    @property
    def surprises(self) -> int:
        """How many of them surprised."""
        return self._mechanism.surprises

    @property
    def spent(self) -> float:
        """The price so far in nats: what the next answer's interval will be computed with."""
        return self._mechanism.spent

    @property
    def journal(self) -> Journal:
        """The record of all rounds."""
        return self._journal

    @property
    def transcript(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Z: every surprise's round, cell and fit. With the coins and the questions it replays the whole session."""
        return self._journal.transcript()

    def ask(self, question: object, *, name: str | None = None) -> Answer:
        """Answer a question about the population.

        Args:
            question: text such as "age > 40 AND smoker" (docs/reference/expressions.md); a callable over columns, in
                process and from trusted code only (booleans make a share in [0, 1], numbers in [-1, 1] a mean); or
                `eh.Values(sample=..., reference=...)`.
            name: a public identity for a callable; asking the same name again returns the recorded answer for nothing.

        Raises:
            QuestionError: the question is at fault. Nothing was charged.
            PrecisionExhausted: a fixed-precision holdout has used up its promise.
        """
        query = self._query(question, name)
        with self._turn():
            return self._answer(query)

    def _answer(self, query: Query, total: int | None = None) -> Answer:
        """One question's way through the house. `total`: what a scan for a whole batch has found already."""
        if (earlier := self._journal.named(query.name)) is not None:
            self._require_same(query, earlier)
            return _told(query, earlier.answer)
        proposal = self._mechanism.propose(query)
        identity = self._identity(query)
        if total is None:
            total = self._sample.total(query, proposal.reading.scale)
        cell = self._mechanism.decide(proposal, total)
        # From here on the round is charged, whatever happens: an interrupted one is ended before the next.
        self._decided = _Decided(query, proposal, cell, identity, self._mechanism.answer(proposal, cell))
        return _told(query, self._settle(self._decided))

    def ask_many(self, questions: Iterable[object]) -> list[Answer]:
        """Answer several questions in order. All of them are checked before the first is charged.

        Questions given as text are evaluated in one scan of the rows, with what they have in common computed once.
        A refusal on the way (`PrecisionExhausted`) carries the answers given before it, as `error.answers`.
        """
        if callable(questions) or not isinstance(questions, Iterable) or isinstance(questions, str):
            raise QuestionError("ask_many takes a list of questions; for a single one there is ask.")
        queries = [self._query(question) for question in questions]
        with self._turn():
            for query in queries:
                if self._journal.named(query.name) is None and not isinstance(query, Expression | Graded):
                    proposal = self._mechanism.propose(query)
                    if not query.repeatable:  # values that somebody handed over may be at fault on either side
                        self._sample.total(query, proposal.reading.scale)
            answers: list[Answer] = []
            for start in range(0, len(queries), _AT_ONCE):
                some = queries[start : start + _AT_ONCE]
                prepared, totals = self._scan(some)
                for query in some:
                    try:
                        answers.append(self._answer(prepared.get(query.name, query), totals.get(query.name)))
                    except PrecisionExhausted as refusal:
                        refusal.answers = list(answers)
                        raise
        return answers

    def _scan(self, queries: list[Query]) -> tuple[dict[str | None, Query], dict[str | None, int]]:
        """The batch's text questions that are new, evaluated on both sides at once; by name."""
        new: dict[str, Expression | Graded] = {
            query.name: query
            for query in queries
            if isinstance(query, Expression | Graded) and self._journal.named(query.name) is None
        }
        if len(new) < 2:
            return {}, {}
        texts = list(new.values())
        totals: dict[str | None, int] = dict(zip(new, self._sample.totals(texts), strict=True))
        if self._pool_rows is None:
            return {}, totals
        rows = self._pool_rows
        values = Batch(texts, Columns(rows)).values(rows.row_count)
        prepared = [Prepared(query, found, rows.units) for query, found in zip(texts, values, strict=True)]
        return {query.name: query for query in prepared}, totals

    def _query(self, question: object, name: str | None = None) -> Query:
        """What somebody asks, checked against the public columns where it is text."""
        if isinstance(question, str):
            if name is not None:
                raise QuestionError("a question given as text is known by its text, and takes no other name.")
            return expression(question, self._kinds, self._words)
        query = as_query(question, name=name)
        self._sample.check(query)
        return query

    def _ask_parts(self, queries: Sequence[Expression | Graded]) -> list[Answer]:
        if len(queries) == 1:
            return [self.ask(queries[0])]
        return self.ask_many(queries)

    def _declared(self) -> Schema:
        if self.schema is None:
            raise QuestionError("this holdout was made for a mechanism of its own, and knows no schema: use ask.")
        return self.schema

    @property
    def rehearsal(self) -> Rehearsal:
        """The same questions on the public side alone: `holdout.rehearsal.mean("bmi")` spends nothing."""
        return Rehearsal(self.try_out, self._declared())

    @property
    def _kinds(self) -> dict[str, Any]:
        return self._sample.kinds if self.schema is None else self.schema.kinds

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One question at a time, in the process that opened the session, after anything that was interrupted."""
        with self._lock:
            if os.getpid() != self._process:
                raise LedgerError(
                    "this holdout was opened in another process, and asking here would fork its record. Ask where it was "
                    "opened, or open it after the processes have parted."
                )
            if self._asking:
                raise QuestionError("a question cannot ask the holdout while it is being answered: ask beforehand.")
            self._asking = True
            try:
                if self._decided is not None:
                    self._settle(self._decided)
                yield
            finally:
                self._asking = False

    def _settle(self, decided: _Decided) -> Answer:
        """End the decided round: learn, record, and only then tell. Ends it later if it is interrupted on the way."""
        query, proposal, cell = decided.query, decided.proposal, decided.cell
        if self._mechanism.rounds < proposal.round:
            self._mechanism.absorb(proposal, cell)
        if len(self._journal) < proposal.round:
            fit = None if cell is None else self._mechanism.fit
            kept = keep(query, proposal, surprise=cell is not None, whole=self._mechanism.fresh)
            self._journal.commit(Round(decided.answer, cell, fit, proposal.reading, kept, query.name, decided.identity))
        self._decided = None
        return decided.answer

    def try_out(self, question: object) -> Preview:
        """What the public side alone says of a question: costs nothing, touches no private row, tells errors in full."""
        with self._turn():
            query = self._query(question)
            preview = self._mechanism.preview(query)
            return preview.as_share() if isinstance(query, Expression) else preview

    def audit(self) -> Audit:
        """Replay the whole record without the private rows, bit for bit."""
        with self._turn():
            return audit(self._build(), self._journal)

    def replay(self, questions: Analyst | Iterable[object]) -> list[Answer]:
        """Every answer again from the transcript, the coins and the questions (or the analyst's program), without data."""
        with self._turn():
            readings = [record.reading for record in self._journal]
            asked = questions if callable(questions) else [self._query(question) for question in questions]
            return replay(self._build(), self.transcript, asked, readings=readings)

    def _identity(self, query: Query) -> str | None:
        """What makes a named question that question: its canonical text, or its values on public rows."""
        if isinstance(query, Expression | Graded | Prepared) or query.name is None:
            return query.name
        return self._mechanism.identity(query)

    def _require_same(self, query: Query, earlier: Round) -> None:
        if self._identity(query) != earlier.identity:
            raise QuestionError(
                f"the name {query.name!r} belongs to a question with other values on the reference (round "
                f"{earlier.number}). Expected one name for one question: choose another."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        raise LedgerError(
            "a holdout cannot be copied or pickled: two records for the same rows would void the guarantee."
        )

    def __repr__(self) -> str:
        return (
            f"Holdout({self.size:,} private rows, questions: {self.rounds:,}, surprises: {self.surprises:,}, "
            f"{self.spent:.1f} nats spent)"
        )


def _told(query: Query, answer: Answer) -> Answer:
    """What is shown: a share for a yes/no question, also where it was averaged within units."""
    return answer.as_share() if isinstance(query, Expression) or _is_yes_no(query) else answer


def _is_yes_no(query: Query) -> bool:
    return isinstance(query, Prepared) and query.question.yes_no


def _require_same_columns(rows: Any, public: Table) -> None:
    """Every question must make sense on both sides. Names and kinds only; both are public."""
    difference: str | None
    if isinstance(rows, Frame):
        difference = public.check_like(rows.table())
    else:
        shape = Table({name: np.zeros(1) for name in rows.names}) if rows.names else public
        names = Table({name: np.zeros(1) for name in public}) if len(public) else shape
        difference = names.check_like(shape)
    if difference is not None:
        raise PriorError(
            f"the prior {difference} Expected the same columns on both sides, so that every question can be asked of "
            "both: rename or drop columns, choose another prior, or declare the columns to use with schema=..."
        )


class _Public:
    """The prior made ready: a pool drawn once, or a way to draw; its rows as the schema declares them."""

    def __init__(self, prior: Prior, seed: int, schema: Schema | None, unit: str | None) -> None:
        self._prior = prior
        self._declared = schema
        self.density = prior.density
        self.pool: Pool | None = None if prior.fresh else self._conformed(prior.pool(coins(seed, "pool")))
        self.columns: Table = (self.pool or self.draw_pool(coins(seed, "columns"), _LOOK_AT)).rows
        self.schema = schema if schema is not None else Schema.propose(self.columns)
        if unit is not None:
            self.pool = self._by_unit(unit)

    def _conformed(self, pool: Pool) -> Pool:
        if self._declared is None:
            return pool
        return Pool(self._declared.conform(pool.rows, what="the prior"), pool.weights, pool.draws)

    def _by_unit(self, unit: str) -> Pool:
        if self.pool is None or self.pool.weights is not None:
            raise SettingError(
                "unit=... works with a prior of fixed rows without weights: eh.Reference(...) or eh.Split()."
            )
        rows = self.pool.rows.by_unit(unit) if unit in self.pool.rows else None
        if rows is None:
            rows = self.pool.rows.take(np.arange(self.pool.rows.row_count))
            rows.units = Units(np.arange(rows.row_count), rows.row_count)
        return Pool(rows, None, float(rows.size))

    def draw_pool(self, rng: np.random.Generator, size: int) -> Pool:
        """Fresh rows, as declared."""
        return self._conformed(self._prior.draw(rng, size))

    def draw(self, rng: np.random.Generator, size: int) -> Draws:
        """Fresh rows for an estimator."""
        return _draws(self.draw_pool(rng, size))


def _draws(pool: Pool) -> Draws:
    return Draws(pool.rows, pool.size, pool.weights, pool.draws)


def _build(rows: int, public: _Public, settings: Settings) -> Mechanism:
    rule = settings.make_rule(public.density)
    estimator: PoolEstimator | FreshEstimator
    if public.pool is not None:
        estimator = PoolEstimator(_draws(public.pool), rule)
    else:
        estimator = FreshEstimator(public.draw, rule, seed=settings.seed, accuracy=2.0 / sqrt(rows))
    return Everhold(
        rows=rows,
        estimator=estimator,
        contract=settings.contract(),
        failure_probability=1.0 - settings.confidence,
        known_rows=settings.known_rows,
    )
