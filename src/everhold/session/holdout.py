"""The one door: every question, from wherever it comes, enters at `Holdout.ask`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, cast, overload
from weakref import ref

import numpy as np

from everhold.data.overlap import require_independent
from everhold.data.sample import EngineName, Sample
from everhold.data.schema import Schema
from everhold.data.source import Frame, as_source
from everhold.data.table import Table
from everhold.errors import (
    DataError,
    EverholdError,
    LedgerError,
    PrecisionExhausted,
    PriorError,
    QuestionError,
    RequestConflict,
)
from everhold.ledger.audit import Audit, audit
from everhold.ledger.codec import AskedBy, Repeat, read_entry
from everhold.ledger.journal import Journal
from everhold.ledger.replay import Analyst, replay
from everhold.ledger.rounds import Digest, Recorded, Round, keep
from everhold.ledger.store import Store
from everhold.ledger.study import Secret, Study
from everhold.mechanism.rules import Rule
from everhold.mechanism.tolerance import Contract
from everhold.priors.pool import Prior
from everhold.priors.reference import Reference
from everhold.priors.split import Split
from everhold.queries.expression import BoundedMean, Expression, expression
from everhold.queries.expression.canonical import looks_like_text
from everhold.queries.expression.parser import Words
from everhold.queries.expression.program import Batch, Columns, TooSlow
from everhold.queries.expression.question import Evaluated, size_of_query
from everhold.queries.query import Query, as_query
from everhold.queries.request import Request
from everhold.queries.rng import fresh_seed, stream_rng
from everhold.session.public import Public, build
from everhold.session.settings import OverlapRule, RuleName, Settings
from everhold.session.study import audit_study, expected_records, kept_public
from everhold.statistics import STATISTICS
from everhold.statistics.base import Statistic, run
from everhold.statistics.declared import Declared
from everhold.statistics.rehearsal import Rehearsal
from everhold.statistics.shortcuts import Asker
from everhold.version import VERSION

if TYPE_CHECKING:
    from everhold.queries.answer import Answer, Preview
    from everhold.queries.protocol import Mechanism
    from everhold.statistics.finding import Finding, Shares

__all__ = ["Holdout"]

_AT_ONCE = 1024  # questions of a batch that are scanned for together
_LIGHT = 5_000_000  # parts times public rows: what takes less is not worth preparing
_TEXT = (Expression, BoundedMean, Evaluated)


@dataclass(frozen=True, slots=True, eq=False)
class _Decided:
    """A round whose cell is known and which is not yet recorded."""

    query: Query
    proposal: Any
    cell: int | None
    identity: str | None
    answer: Answer
    at: AskedBy


class _Turn:
    """A question that is being answered."""

    __slots__ = ("__weakref__",)


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
        overlap: 'refuse' (default) a reference that holds private rows, more of them than chance explains; or 'allow' it,
            if they are known to be independent all the same. The record says so.

    Attributes:
        who: a name for the record of whoever asks next.

    >>> import numpy as np, everhold as eh
    >>> rng = np.random.default_rng(0)
    >>> people = lambda size: {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < 0.2}
    >>> holdout = eh.Holdout(people(5000), prior=eh.Reference(people(5000)), seed=1)
    >>> answer = holdout.ask(lambda rows: rows["age"] > 40)
    >>> 49 / 72 in answer.interval, answer.surprise, holdout.rounds
    (True, False, 1)
    """

    who: str | None = None

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
        overlap: OverlapRule = "refuse",
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
            overlap=overlap,
        )
        rows = as_source(data, what="the private table", private=True)
        split = None
        if isinstance(prior, Split):
            split = prior.fraction
            shown, rows = prior.divide(rows, stream_rng(settings.seed, "split"), unit)
            prior = Reference(shown.table())
        declared = Schema.load(schema) if schema is not None and not isinstance(schema, Schema) else schema
        public = Public(prior, settings.seed, declared, unit)
        if declared is None:
            _require_same_columns(rows, public.columns)
        sample = Sample(rows, schema=public.schema, unit=unit, engine=engine, memory_limit=memory_limit)
        if overlap == "refuse" and split is None and public.pool is not None and not getattr(prior, "compared", False):
            require_independent(sample, public.pool.rows)
        self._begin(sample, public, settings, prior, unit, split)

    def _begin(
        self, sample: Sample, public: Public, settings: Settings, prior: Prior, unit: str | None, split: float | None
    ) -> None:
        self._open(sample, lambda: build(sample.size, public, settings))
        self._words: dict[str, Words] = public.schema.words
        self._pool_rows: Table | None = None if public.pool is None else public.pool.rows
        self._public: Public | None = public
        self._unit, self._split = unit, split
        self.schema: Schema | None = public.schema
        self.settings: Settings | None = settings
        self.prior: Prior | None = prior

    @classmethod
    def create(cls, path: str | Path, data: object, *, prior: Prior | Split, **settings: Any) -> Holdout:
        """A durable study: the same as `Holdout(data, prior=..., ...)`, with its record in a file.

        Three files appear: the study itself, which holds no private row and may be shown to whoever should check it; beside
        it `<path>.key`, for the owner alone, which binds the study to these rows; and `<path>.lock`, while it is open.

        Args:
            path: of the study, which must not exist; `study.everhold` by custom.
            data: the private rows. A path is remembered in the key file, so that `open` finds them again.
            prior: as for `Holdout`; it must have fixed rows.
            settings: as for `Holdout`.
        """
        place = Path(path)
        if place.exists():
            raise LedgerError(f"{place} exists already. Open it with Holdout.open, or choose another name.")
        holdout = cls(data, prior=prior, **settings)
        public, kept = holdout._public, holdout.settings
        if public is None or public.pool is None or kept is None or holdout.prior is None:
            raise LedgerError(
                "a durable study keeps its public rows: use a prior with fixed rows, such as Sampler(size=...)."
            )
        secret = Secret.new(_location(data))
        study = Study(
            settings=kept.to_dict(),
            schema=public.schema,
            rows=holdout.size,
            unit=holdout._unit,
            split=holdout._split,
            reference=public.pool.rows,
            weights=public.pool.weights,
            draws=public.pool.draws,
            density=public.density,
            prior=holdout.prior.describe(),
            fingerprint=holdout._sample.fingerprint(bytes.fromhex(secret.key)),
            created=_now(),
            version=VERSION,
            binding=holdout._sample.binding,
        )
        store = Store.create(place, study.record(), before=lambda: secret.save(place))
        holdout._journal = Journal(store)
        return holdout

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        data: object = None,
        expect_head: str | None = None,
        engine: EngineName = "auto",
        memory_limit: str | None = None,
    ) -> Holdout:
        """Go on with a durable study, for asking. One process at a time.

        Args:
            path: of the study.
            data: the private rows, where they are not at the place that the key file remembers.
            expect_head: a head that was printed or noted before; a copy of the study that does not contain it, because it is
                older or another, is refused.
            engine, memory_limit: as for `Holdout`.
        """
        place = Path(path)
        store = Store.open(place, write=True)
        try:
            return cls._resume(store, data, expect_head, engine, memory_limit)
        except BaseException:
            store.close()
            raise

    @classmethod
    def _resume(
        cls, store: Store, data: object, expect_head: str | None, engine: EngineName, memory_limit: str | None
    ) -> Holdout:
        records = expected_records(store, expect_head)
        study = Study.read(next(records))
        secret = Secret.load(store.path)
        if data is None and secret.data is None:
            raise DataError(
                "the study was made from rows in memory. Expected them again: Holdout.open(path, data=...), or --data FILE."
            )
        settings = Settings.from_dict(study.settings)
        rows = as_source(secret.data if data is None else data, what="the private table", private=True)
        if study.split is not None:
            _, rows = Split(study.split).divide(rows, stream_rng(settings.seed, "split"), study.unit)
        if engine == "auto":  # as it was when the study was made
            engine = "duckdb" if study.binding == "files" else "memory"
        sample = Sample(rows, schema=study.schema, unit=study.unit, engine=engine, memory_limit=memory_limit)
        if sample.size != study.rows or sample.fingerprint(bytes.fromhex(secret.key)) != study.fingerprint:
            raise LedgerError(
                f"these are not the rows that {store.path} was made for. Expected the same rows, in any order (in the same "
                "order where a part of them was split off, and the same files where they are read in place); other rows "
                "need a study of their own."
            )
        public, prior = kept_public(study, settings)
        holdout = cls.__new__(cls)
        holdout._begin(sample, public, settings, prior, study.unit, study.split)
        holdout._restore(records, store)
        return holdout

    def _restore(self, records: Iterator[Any], store: Store) -> None:
        """Take over what is recorded. Quiet rounds only count; surprises teach the sketch what they taught it then."""
        journal, mechanism = Journal(store), self._mechanism
        quiet = 0
        for record in records:
            entry = read_entry(record, self._kinds, parse="surprises")
            if isinstance(entry, Repeat):
                journal.restore_request(entry.circumstance.request, entry.number)
                continue
            past = entry.round
            journal.restore(past, entry.circumstance)
            if past.cell is None:
                quiet += 1
                continue
            mechanism.skip(quiet)
            quiet = 0
            if isinstance(past.question, Digest):
                raise LedgerError(f"round {past.number} was a surprise, but its question was not kept.")
            proposal = mechanism.propose(past.question)
            if proposal.reading != past.reading:
                raise LedgerError(f"round {past.number} of {store.path} does not replay: audit it.")
            mechanism.absorb(proposal, past.cell, past.fit)
        mechanism.skip(quiet)
        self._journal = journal

    def close(self) -> None:
        """Give up a durable study, so that another process may ask. Nothing is lost: everything told is recorded."""
        if self._journal.store is not None:
            self._journal.store.close()

    def __enter__(self) -> Holdout:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def head(self) -> str:
        """Where a durable study stands: note it down, and `open(expect_head=...)` refuses every older copy."""
        if self._journal.store is None:
            raise LedgerError("this holdout is in memory only. Make it durable with Holdout.create(path, ...).")
        return str(self._journal.store.head)

    def _open(self, sample: Sample, build: Callable[[], Mechanism]) -> None:
        self._sample = sample
        self._words = {}
        self._pool_rows = None
        self._public = None
        self._unit = self._split = None
        self._build = build
        self._mechanism = build()
        self._journal = Journal()
        self._lock = RLock()
        self._process = os.getpid()
        self._asking: Callable[[], _Turn | None] = lambda: None
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
        self._require_sound()
        return self._mechanism.rounds

    @property
    def surprises(self) -> int:
        """How many of them surprised."""
        self._require_sound()
        return self._mechanism.surprises

    @property
    def spent(self) -> float:
        """The price so far in nats: what the next answer's interval will be computed with."""
        self._require_sound()
        return self._mechanism.spent

    @property
    def journal(self) -> Journal:
        """The record of all rounds."""
        self._require_sound()
        return self._journal

    @property
    def transcript(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Z: every surprise's round, cell and fit. With the coins and the questions it replays the whole session."""
        self._require_sound()
        return self._journal.transcript()

    @overload
    def ask(  # type: ignore[overload-overlap]  # a statistic is an object, and gives more than an answer
        self, question: Statistic, *, name: None = None, request_id: str | None = None, who: str | None = None
    ) -> Answer | Finding | Shares: ...

    @overload
    def ask(
        self, question: object, *, name: str | None = None, request_id: str | None = None, who: str | None = None
    ) -> Answer: ...

    def ask(
        self, question: object, *, name: str | None = None, request_id: str | None = None, who: str | None = None
    ) -> Answer | Finding | Shares:
        """Answer a question about the population.

        Args:
            question: text such as "age > 40 AND smoker" (docs/reference/expressions.md); a statistic such as
                `eh.Mean("bmi", given="smoker")`; a callable over columns, in process and from trusted code only (booleans
                make a share in [0, 1], numbers in [-1, 1] a mean); or `eh.Values(sample=..., reference=...)`.
            name: a public identity for a callable; asking the same name again returns the recorded answer for nothing.
            request_id: asked again under the same id, the same answer is given and nothing is charged; another question
                under the same id is refused.
            who: a name for the record.

        Raises:
            QuestionError: the question is at fault. Nothing was charged.
            PrecisionExhausted: a fixed-precision holdout has used up its promise.
        """
        if isinstance(question, tuple(STATISTICS.values())):
            return self._ask_statistic(cast(Statistic, question), name, request_id, who)
        query = self._query(question, name)
        at = AskedBy(_now(), _text(who or self.who, "who"), _text(request_id, "request_id"))
        with self._turn():
            answer = self._answer(query, at)
            self._journal.flush()
            return answer

    def _ask_statistic(
        self, statistic: Statistic, name: str | None, request_id: str | None, who: str | None
    ) -> Answer | Finding | Shares:
        """Part by part, under `<request_id>/1`, `<request_id>/2` …."""
        if name is not None:
            raise QuestionError("a statistic is known by its parts, and takes no other name.")
        asked = 0

        def parts(batch: Sequence[Expression | BoundedMean]) -> list[Answer]:
            nonlocal asked
            asked += len(batch)
            return self.ask_many(batch, request_id=request_id, who=who, first=asked - len(batch) + 1)

        return run(statistic.steps(Declared(self._declared())), parts)

    def _answer(self, query: Query, at: AskedBy, total: int | None = None) -> Answer:
        """One question's way through the house, but for the last step. `total`: found already by a scan for a batch."""
        if (earlier := self._journal.requested(at.request)) is not None:
            if not self._is_round(query, earlier):
                raise RequestConflict(
                    f"request id {at.request!r} belongs to another question (round {earlier.number}). Expected a new id "
                    "for a new question. Nothing was charged."
                )
            return _told(query, earlier.answer)
        if (earlier := self._journal.named(query.name)) is not None:
            self._require_same(query, earlier)
            self._journal.repeat(earlier.number, at)
            return _told(query, earlier.answer)
        proposal = self._mechanism.propose(query)
        identity = self._identity(query)
        part = self._mechanism.part(proposal)
        if total is None or part is not None:
            total = self._sample.total(query, proposal.reading.scale, part)
        cell = self._mechanism.decide(proposal, total)
        # From here on the round is charged, whatever happens: an interrupted one is ended before the next.
        self._decided = _Decided(query, proposal, cell, identity, self._mechanism.answer(proposal, cell), at)
        return _told(query, self._settle(self._decided))

    def ask_many(
        self,
        questions: Iterable[object],
        *,
        request_id: str | None = None,
        who: str | None = None,
        time: str | None = None,
        first: int = 1,
    ) -> list[Answer]:
        """Answer several questions in order. All of them are checked before the first is charged; all are recorded at once.

        Questions given as text are evaluated in one scan of the rows, with what they have in common computed once.
        A refusal on the way (`PrecisionExhausted`) carries the answers given before it, as `error.answers`. With a
        `request_id` the questions have the ids `<request_id>/1`, `<request_id>/2` …, or from `first` on. The record says
        `time` of all of them, where it is given, and else when each was answered.
        """
        who = _text(who or self.who, "who")
        _text(request_id, "request_id")
        if callable(questions) or not isinstance(questions, Iterable) or isinstance(questions, str):
            raise QuestionError("ask_many takes a list of questions; for a single one there is ask.")
        queries = [self._query(question) for question in questions]
        with self._turn():
            self._require_names(queries, request_id, first)
            for query in queries:
                if self._journal.named(query.name) is None and not isinstance(query, _TEXT):
                    proposal = self._mechanism.propose(query)
                    if not query.repeatable:  # values that somebody handed over may be at fault on either side
                        self._sample.total(query, proposal.reading.scale)
            answers: list[Answer] = []
            for start in range(0, len(queries), _AT_ONCE):
                some = queries[start : start + _AT_ONCE]
                prepared, totals = self._scan(some)
                for query in some:
                    request = None if request_id is None else f"{request_id}/{len(answers) + first}"
                    at = AskedBy(time or _now(), who, request)
                    text = isinstance(query, _TEXT)
                    one, total = (prepared.get(query.name, query), totals.get(query.name)) if text else (query, None)
                    try:
                        answers.append(self._answer(one, at, total))
                    except PrecisionExhausted as refusal:
                        self._journal.flush()
                        refusal.answers = list(answers)
                        raise
            self._journal.flush()
        return answers

    def ask_each(self, requests: Sequence[Request]) -> list[Answer | EverholdError]:
        """Answer questions of several people in one turn: one scan, one record, each as if it were asked alone.

        What is wrong with one is told in its place, and the others are answered all the same. Only a record that cannot be
        written is raised: then nothing is told to anybody.
        """
        asked = [self._requested(request) for request in requests]
        found: list[Answer | EverholdError] = []
        with self._turn():
            prepared, totals = self._scan([one[0] for one in asked if not isinstance(one, EverholdError)])
            for one in asked:
                if isinstance(one, EverholdError):
                    found.append(one)
                    continue
                query, at = one
                try:
                    found.append(self._answer(prepared.get(query.name, query), at, totals.get(query.name)))
                except (QuestionError, RequestConflict, PrecisionExhausted) as refusal:
                    if self._decided is not None:  # not after the rows have spoken: then it is no refusal
                        raise
                    found.append(refusal)
            self._journal.flush()
        return found

    def _requested(self, request: Request) -> tuple[Query, AskedBy] | EverholdError:
        """A request made ready, or what is wrong with it."""
        try:
            at = AskedBy(request.time or _now(), _text(request.who, "who"), _text(request.request_id, "request_id"))
            return self._query(request.question), at
        except QuestionError as fault:
            return fault

    def _require_names(self, queries: list[Query], request_id: str | None, first: int) -> None:
        """One name for one question, and one request id, before anything of a batch is charged."""
        seen: dict[str, str | None] = {}
        for place, query in enumerate(queries, first):
            earlier = None if request_id is None else self._journal.requested(f"{request_id}/{place}")
            if earlier is not None and not self._is_round(query, earlier):
                raise RequestConflict(
                    f"request id '{request_id}/{place}' belongs to another question (round {earlier.number}). Expected a "
                    "new id for new questions. Nothing was charged."
                )
            if earlier is None and (named := self._journal.named(query.name)) is not None:
                self._require_same(query, named)
            if query.name is not None and not isinstance(query, _TEXT):
                identity = self._identity(query)
                if seen.setdefault(query.name, identity) != identity:
                    raise QuestionError(f"two different questions of the batch are called {query.name!r}. Rename one.")

    def _scan(self, queries: list[Query]) -> tuple[dict[str | None, Query], dict[str | None, int]]:
        """The batch's text questions that are new, evaluated on both sides at once; by name."""
        new: dict[str, Expression | BoundedMean | Evaluated] = {
            query.name: query
            for query in queries
            if isinstance(query, _TEXT) and self._journal.named(query.name) is None
        }
        if len(new) < 2:
            return {}, {}
        totals: dict[str | None, int] = dict(zip(new, self._sample.totals(list(new.values())), strict=True))
        ready: dict[str | None, Query] = {name: query for name, query in new.items() if isinstance(query, Evaluated)}
        texts = [query for query in new.values() if not isinstance(query, Evaluated)]
        if self._pool_rows is not None and texts:
            ready |= {query.name: query for query in self._evaluated(texts, None)}
        return ready, totals

    def _evaluated(self, texts: Sequence[Expression | BoundedMean], until: float | None) -> list[Evaluated]:
        """Text questions on the fixed public rows, in one scan."""
        rows = self._pool_rows
        if rows is None:
            raise QuestionError("there are no fixed public rows.")
        values = Batch(texts, Columns(rows)).values(rows.row_count, until=until)
        return [Evaluated(query, found, rows.units) for query, found in zip(texts, values, strict=True)]

    def parsed(self, question: object) -> Query:
        """A question parsed and checked, ready to be asked. Reads nothing and may be called from any thread."""
        return self._query(question)

    def prepared(self, queries: Sequence[Query], *, seconds: float) -> list[Query]:
        """Parsed text questions with their values on the public rows, so that asking them is quick. From any thread.

        Small questions are returned as they are. No private row is touched.

        Raises:
            QuestionError: it takes longer than so many seconds.
        """
        if self.is_light(queries):
            return list(queries)
        return [self._prepared(query, seconds) for query in queries]

    def _prepared(self, query: Query, seconds: float) -> Query:
        if not isinstance(query, Expression | BoundedMean) or self._pool_rows is None:
            return query
        try:
            return self._evaluated([query], time.monotonic() + seconds)[0]
        except TooSlow:
            raise QuestionError(
                f"the question takes longer than {seconds:g} s on the public rows. Expected a smaller one."
            ) from None

    def is_light(self, queries: Sequence[Query]) -> bool:
        """Whether questions are so small together that they need not be prepared: by sizes and the number of public rows."""
        rows = 0 if self._pool_rows is None else self._pool_rows.row_count
        return sum(size_of_query(query) for query in queries if not isinstance(query, Evaluated)) * rows <= _LIGHT

    def _query(self, question: object, name: str | None = None) -> Query:
        """What somebody asks, checked against the public columns where it is text."""
        if isinstance(question, str):
            if name is not None:
                raise QuestionError("a question given as text is known by its text, and takes no other name.")
            return expression(question, self._kinds, self._words)
        query = as_query(question, name=name)
        _require_writable(query.name, "the name")
        if query.name is not None and looks_like_text(query.name) and not isinstance(query, _TEXT):
            raise QuestionError(
                f"the name {query.name[:60]!r} could be taken for a question given as text. Expected a name that begins "
                "with a letter, and with none of TRUE, FALSE, NULL, CASE, MEAN and NOT."
            )
        self._sample.check(query)
        return query

    def _ask_parts(self, queries: Sequence[Expression | BoundedMean]) -> list[Answer]:
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
            if self._asking() is not None:
                raise QuestionError("a question cannot ask the holdout while it is being answered: ask beforehand.")
            self._journal.require_open()
            # The thread that holds the lock is in a turn as long as this object lives, whatever interrupts what follows.
            turn = _Turn()
            try:
                self._asking = ref(turn)
                if self._decided is not None:
                    self._settle(self._decided)
                self._journal.flush()
                yield
            except EverholdError:
                if self._decided is None and self._journal.waiting and not self._broken:
                    self._journal.flush()  # what was decided before the error is recorded, though nobody sees it now
                raise
            except BaseException:
                # In memory an interrupted round is ended before the next. In a file nobody knows how far it got.
                store = self._journal.store
                if store is not None and (self._decided is not None or self._journal.waiting):
                    store.fail()
                raise
            finally:
                del turn

    @property
    def _broken(self) -> bool:
        return self._journal.store is not None and self._journal.store.broken

    def _require_sound(self) -> None:
        """What was decided and not recorded is not told, by a number either."""
        if self._broken:
            self._journal.require_open()

    def _settle(self, decided: _Decided) -> Answer:
        """End the decided round: learn, record, and only then tell. Ends it later if it is interrupted on the way."""
        query, proposal, cell = decided.query, decided.proposal, decided.cell
        if self._mechanism.rounds < proposal.round:
            self._mechanism.absorb(proposal, cell)
        if len(self._journal) < proposal.round:
            fit = None if cell is None else self._mechanism.fit
            kept = keep(query, proposal, surprise=cell is not None, whole=self._mechanism.fresh)
            done = Round(decided.answer, cell, fit, proposal.reading, kept, query.name, decided.identity)
            self._journal.commit(done, decided.at)
        self._decided = None
        return decided.answer

    def try_out(self, question: object) -> Preview:
        """What the public side alone says of a question: costs nothing, touches no private row, tells errors in full."""
        with self._turn():
            query = self._query(question)
            preview = self._mechanism.preview(query)
            return preview.as_share() if isinstance(query, Expression) or _is_yes_no(query) else preview

    def check(self, question: object) -> None:
        """Raise what is wrong with a question, without asking it. Nothing is read or charged."""
        self._query(question)

    @classmethod
    def rehearse(cls, path: str | Path) -> Rehearsal:
        """A durable study's rehearsal, for anybody who has its file: no private rows, no key, nothing spent."""
        store = Store.open(Path(path), write=False)
        try:
            records = store.records()
            study = Study.read(next(records))
            settings = Settings.from_dict(study.settings)
            public, prior = kept_public(study, settings)
            holdout = cls.__new__(cls)
            holdout._begin(Sample(study.rows), public, settings, prior, study.unit, study.split)
            holdout._restore(records, store)
            holdout._journal = Journal()
            return holdout.rehearsal
        finally:
            store.close()

    def audit(self) -> Audit:
        """Replay the whole record without the private rows, bit for bit; of a durable study, the file itself."""
        with self._turn():
            if self._journal.store is not None:
                return self.audit_file(self._journal.store.path)
            return audit(self._build(), self._journal)

    @staticmethod
    def audit_file(
        path: str | Path, *, expect_head: str | None = None, progress: Callable[[int], None] | None = None
    ) -> Audit:
        """Check a study's file, for anybody who has it: no private rows, no key.

        The chain of hashes, every byte of the file, and every round again from the public rows and the recorded surprises:
        the sketch, prices, intervals and answers, bit for bit.
        """
        return audit_study(Path(path), expect_head=expect_head, progress=progress)

    def replay(self, questions: Analyst | Iterable[object]) -> list[Answer]:
        """Every answer again from the transcript, the coins and the questions (or the analyst's program), without data."""
        with self._turn():
            readings = [record.reading for record in self._journal]
            return replay(self._build(), self.transcript, questions, readings=readings, read=self._query, told=_told)

    def _identity(self, query: Query) -> str | None:
        """What makes a named question that question: its canonical text, or its values on public rows."""
        if isinstance(query, Expression | BoundedMean | Evaluated) or query.name is None:
            return query.name
        return self._mechanism.identity(query)

    def _is_round(self, query: Query, earlier: Round) -> bool:
        """Whether this is the question that was answered then."""
        if query.name is not None or earlier.name is not None:
            return query.name == earlier.name and self._identity(query) == earlier.identity
        kept = earlier.question
        digest = kept.sha256 if isinstance(kept, Digest) else kept.packed.digest if isinstance(kept, Recorded) else None
        if digest is None:
            return query == kept  # a callable over rows that are drawn anew
        return self._mechanism.identity(query) == digest

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
        draws = "rows" if self._unit is None else "units"
        if self._broken:
            return f"Holdout({self.size:,} private {draws}, interrupted: open the study again)"
        return (
            f"Holdout({self.size:,} private {draws}, questions: {self.rounds:,}, surprises: {self.surprises:,}, "
            f"{self.spent:.1f} nats spent)"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _text(value: str | None, what: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= 200):
        raise QuestionError(f"{what} is {value!r}. Expected a text of up to 200 letters.")
    _require_writable(value, what)
    return value


def _require_writable(value: str | None, what: str) -> None:
    """A record is UTF-8: what cannot be written so is refused before anything is read."""
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise QuestionError(
            f"{what} has half of a character in it. Expected text that can be written as UTF-8."
        ) from None


def _location(data: object) -> str | None:
    """Where to find the rows again, if they are in files."""
    if isinstance(data, str | Path):
        return str(Path(data).absolute())
    return None


def _told(query: Query, answer: Answer) -> Answer:
    """What is shown: a share for a yes/no question, also where it was averaged within units."""
    return answer.as_share() if isinstance(query, Expression) or _is_yes_no(query) else answer


def _is_yes_no(query: Query) -> bool:
    return isinstance(query, Evaluated) and query.question.yes_no


def _require_same_columns(rows: Any, public: Table) -> None:
    """Every question must make sense on both sides. Names and kinds only; both are public."""
    difference: str | None
    if isinstance(rows, Frame):
        difference = public.check_like(rows.table())
    else:
        shape = Table({name: np.zeros(1) for name in rows.usable}) if rows.usable else public
        names = Table({name: np.zeros(1) for name in public}) if len(public) else shape
        difference = names.check_like(shape)
    if difference is not None:
        raise PriorError(
            f"the prior {difference} Expected the same columns on both sides, so that every question can be asked of "
            "both: rename or drop columns, choose another prior, or declare the columns to use with schema=..."
        )
