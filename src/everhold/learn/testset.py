"""A test set that stays honest however often it is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everhold.bounds import derived
from everhold.data.overlap import require_independent
from everhold.data.sample import Sample
from everhold.data.schema import Schema
from everhold.data.table import Table
from everhold.errors import (
    DataError,
    LedgerBusy,
    LedgerError,
    PrecisionExhausted,
    PriorError,
    QuestionError,
    ReplayError,
    SettingError,
)
from everhold.learn.checks import checked_predictions, made_with, reference_parts, require_rows_alone
from everhold.learn.identity import digest_of, model_digest
from everhold.learn.label_model import label_chances
from everhold.learn.layout import (
    LabelPrior,
    columns_of,
    length,
    paired,
    pool_of,
    predicted,
    predicted_in_private,
    private_layout,
    public_layout,
    row_digests,
)
from everhold.learn.metrics import Metric, Part, Task, find
from everhold.learn.options import TestSetOptions, checked_labels
from everhold.learn.score import Score, Verdict
from everhold.learn.scorer import Scorer, rows_file, save_rows
from everhold.priors.fixed import FixedPrior
from everhold.queries.answer import Answer
from everhold.queries.expression import expression
from everhold.queries.expression.program import Batch, Columns
from everhold.queries.query import Values
from everhold.session.holdout import Holdout
from everhold.session.settings import OverlapRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TestSet"]

T = TypeVar("T")

_DIGEST = "row digest"
_PATIENCE = 600.0  # seconds that a search waits for its turn at a durable test set


class TestSet:
    """Labelled test rows that may be scored against any number of times.

    Every score carries an interval for the *population*, and all intervals of all scores are valid at the same time with the
    chosen confidence, however models were picked by earlier scores.

    A model must say of each row what it would say of it alone, and nothing of it may have been fitted to the test rows.
    Where it fails on a test row, that row counts as predicted wrongly, and nothing else is revealed.

    Use exactly one TestSet (or path) per set of rows. A second one would void the guarantee of both.

    Args:
        X: features of the test rows, private: a matrix, a pandas or Polars frame, a mapping of columns.
        y: their labels, private.
        reference: what is public: training features and labels `(X_train, y_train)`, or features alone. Left out: the test
            features themselves are public and only labels are hidden, as in a contest; intervals are then about labels
            drawn anew for these features.
        task: 'classification' or 'regression'.
        prior: what is supposed of labels: 'uniform' (every label equally likely: the default), 'baseline' (a baseline
            model's cross-validated probabilities on the reference), 'labelled' (the reference's own labels, which models
            have seen and overfitted: more surprises).
        path: of a durable study; opened again if it exists. Searches with several processes need one. While it is open no
            other process can ask; `release` gives it up.
        classes: the possible labels, in the order that tables of probabilities have; those of the reference, sorted, when
            left out. They are there as `test.classes`.
        low, high: the declared range of a regression's labels, needed there. Predictions are cut to it.
        positive: the class that precision, recall, F1 and AUC are about; left out, the second of two; for more classes the
            mean over all, and none for AUC.
        least_probability: probabilities count as at least this much in the log loss, which bounds it.
        pairs: pair the rows up, so that AUC can be asked for; everything then rests on half as many draws. Not where the
            test features are public: a model could be made for the pairs.
        label: the name of the label's column in subgroups (`given=`).
        confidence, half_width, known_rows, seed, overlap: as for `eh.Holdout`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(6000, 3)); y = (X[:, 0] > 0).astype(int)
    >>> test = TestSet(X[:2000], y[:2000], reference=X[2000:], classes=[0, 1], seed=1)
    >>> class Rule:
    ...     def predict(self, X): return (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
    >>> score = test.score(Rule())
    >>> 0.9 in score.interval, score.surprise
    (True, True)
    """

    __test__ = False  # not a class of tests, whatever its name begins with

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        reference: Any = None,
        task: Task = "classification",
        prior: LabelPrior = "uniform",
        path: str | Path | None = None,
        classes: Any = None,
        low: float | None = None,
        high: float | None = None,
        positive: Any = None,
        least_probability: float = 0.01,
        pairs: bool = False,
        label: str = "y",
        confidence: float = 0.95,
        half_width: float | None = None,
        known_rows: int = 0,
        seed: int | None = None,
        overlap: OverlapRule = "refuse",
    ) -> None:
        self._set_up(
            X,
            y,
            reference,
            TestSetOptions(
                task=task,
                prior=prior,
                path=None if path is None else Path(path).absolute(),
                classes=None if classes is None else tuple(classes),
                low=low,
                high=high,
                positive=positive,
                least_probability=least_probability,
                pairs=pairs,
                label=label,
                confidence=confidence,
                half_width=half_width,
                known_rows=known_rows,
                seed=seed,
                overlap=overlap,
            ),
        )

    @classmethod
    def from_options(cls, X: Any, y: Any, options: TestSetOptions, *, reference: Any = None) -> TestSet:
        """The same, from options as one value."""
        made = cls.__new__(cls)
        made._set_up(X, y, reference, options)
        return made

    # making ready --------------------------------------------------------------------------------------------------

    def _set_up(self, X: Any, y: Any, reference: Any, given: TestSetOptions) -> None:
        if given.pairs and reference is None:
            raise SettingError(
                "pairs=True needs reference=…: where the test features are public, so are the pairs, and a model could be "
                "made for them."
            )
        public, known = reference_parts(reference)
        if given.prior != "uniform" and known is None:
            raise PriorError(f"prior={given.prior!r} needs labelled public rows: reference=(X_train, y_train).")
        self._context = given.context(known)
        labels = checked_labels(y, length(X), given.task, self._context)
        self._options = options = given.with_seed()
        self._given = {"X": X, "y": y, "reference": reference, "options": options}
        self._X, self._transductive = X, reference is None
        self._public = X if self._transductive else public
        self.task: Task = options.task
        seed = int(options.holdout_settings["seed"])
        values, size = self._context.classes, length(self._public)
        chances = label_chances(self._public, known, self._context, self.task) if options.prior == "baseline" else None
        own = known if options.prior == "labelled" else None
        self._theirs = public_layout(size, own, values, chances, pairs=options.pairs, seed=seed)
        self._mine = private_layout(labels, pairs=options.pairs, seed=seed)
        self.prior = self._described(size)
        self._held: Holdout | None = None
        self._shared = False
        self._lock = RLock()
        self.exhausted: PrecisionExhausted | None = None
        self._rows, self._prior = self._sides(labels)
        self._begin()

    def _described(self, size: int) -> str:
        """The prior in words."""
        what = "test features" if self._transductive else "public features"
        labels = {
            "uniform": f"× {len(self._context.classes)} equally likely labels",
            "baseline": "× a baseline model's label probabilities",
            "labelled": "with their own labels",
        }[self._options.prior]
        return f"{size:,} {what} {labels}{', in pairs' if self._options.pairs else ''}"

    def _sides(self, labels: NDArray[Any]) -> tuple[Table, FixedPrior]:
        mine, theirs = columns_of(self._X, "X"), columns_of(self._public, "the reference")
        both = {name: mine[name] for name in mine if name in theirs}
        label = self._options.label
        if label in both:
            raise DataError(f"X has a column {label!r} already. Name the label's column otherwise: label='target'.")
        shared = {name: theirs[name] for name in both}
        if len(both) < len(mine) or not both:  # what tells these rows from others, where columns do not
            both[_DIGEST], shared[_DIGEST] = row_digests(self._X), row_digests(self._public)
        if not self._transductive and self._options.overlap == "refuse":
            require_independent(Sample(Table(both)), Table(shared))
        uniform = self._options.prior == "uniform" and self.task == "classification"
        density = 1.0 / len(self._context.classes) if uniform else None
        laid = FixedPrior(pool_of(shared, self._theirs, label), density, self.prior, compared=True)
        if self._options.pairs:
            return Table(paired(both, self._mine), what="the test rows"), laid
        return Table({**both, label: labels}, what="the test rows"), laid

    @property
    def path(self) -> Path | None:
        """Of a durable study; None in memory."""
        return self._options.path

    @property
    def classes(self) -> NDArray[Any]:
        """The possible labels, in the order that tables of probabilities have."""
        return self._context.classes

    @property
    def _schema(self) -> Schema:
        """The columns of subgroups; no mean is cut to its ranges."""
        return Schema.propose(self._prior.table, warn=False)

    def _begin(self) -> None:
        path = self._options.path
        if path is not None and path.exists():
            self._open()
            return
        made = {"prior": self._prior, "schema": self._schema, **self._options.holdout_settings}
        self._held = Holdout(self._rows, **made) if path is None else Holdout.create(path, self._rows, **made)

    def _open(self) -> Holdout:
        path = self._options.path
        if path is None:
            raise LedgerError(
                "this test set is in memory only, and only the process that made it can ask. Make it durable with "
                "TestSet(…, path='test.everhold'), and other processes can ask too."
            )
        held = _patiently(lambda: Holdout.open(path, data=self._rows))
        pool = self._prior.pool(np.random.default_rng(0))
        difference = made_with(held, pool, self._options.holdout_settings)
        if difference is not None:
            held.close()
            raise LedgerError(f"{path} was made with {difference}. Expected the same as then, or a new path for other rows.")
        self._held = held
        return held

    @contextmanager
    def turn(self) -> Iterator[Holdout]:
        """The holdout, for one score, one thread at a time. Between the turns of a shared test set others may ask."""
        with self._lock:
            held = self._ready()
            try:
                yield held
            finally:
                if self._shared:
                    held.pause()

    def _ready(self) -> Holdout:
        held = self._held
        if held is None or not held.usable:
            return self._open()
        try:
            _patiently(held.resume)
        except LedgerBusy:
            raise
        except (LedgerError, ReplayError):  # not the file it was: the whole of it is read again
            held.close()
            return self._open()
        return held

    def release(self) -> None:
        """Give up the study's file, so that other processes may ask; the next score opens it again."""
        with self._lock:
            if self._held is not None and self._options.path is not None:
                self._held.close()
                self._held = None

    def share(self) -> None:
        """Make ready for other processes: the rows go into a file for the owner alone, and others may ask between scores."""
        path = self._options.path
        if path is None:
            raise LedgerError(
                "this test set is in memory only, so other processes cannot ask it. Make it durable with "
                "TestSet(…, path='test.everhold')."
            )
        with self._lock:
            if not self._shared or not rows_file(path).exists():
                save_rows(path, self._given)
            self._shared = True
            if self._held is not None:
                self._held.pause()

    @classmethod
    def shared(cls, kept: dict[str, Any]) -> TestSet:
        """In another process: the same test set again, from what `share` kept."""
        test = cls.from_options(kept["X"], kept["y"], kept["options"], reference=kept["reference"])
        with test._lock:
            test._shared = True
            if test._held is not None:
                test._held.pause()
        return test

    @property
    def holdout(self) -> Holdout:
        """The holdout inside: every score goes through it."""
        with self._lock:
            return self._ready()

    # scores --------------------------------------------------------------------------------------------------------

    def score(self, model: Any, metric: str | None = None, *, given: str | None = None) -> Score:
        """A model's score for the population.

        Args:
            model: fitted; it is asked for predictions on the test rows and on the public ones.
            metric: 'accuracy', 'error', 'balanced_accuracy', 'precision', 'recall', 'f1', 'brier', 'log_loss', 'auc'; or
                'mean_absolute_error', 'mean_squared_error', 'r2'. The first of its task when left out.
            given: only rows for which this is true, as text: "region = 'north'".
        """
        found = self._metric(metric)
        self._require_pairs(found)
        before = self._digest(model)
        mine, theirs = self._outputs(model, found)
        return self._score(found, mine, theirs, given, self._known(before, theirs))

    def _digest(self, model: Any) -> str | None:
        """A model's own, taken before it sees a private row; empty where its predictions are all that matters."""
        return "" if self._transductive else model_digest(model)

    def _known(self, digest: str | None, public: NDArray[Any]) -> str | None:
        """What a model's question is called, so that scoring it again returns the recorded answer; None: asked anew.

        Where the test features are public, its predictions are all that matters.
        """
        return None if digest is None else digest_of(digest, public, self._context)

    def score_predictions(
        self, y_pred: Any, metric: str | None = None, *, reference: Any = None, given: str | None = None
    ) -> Score:
        """The score of predictions that were made elsewhere.

        Args:
            y_pred: one for each test row: labels or values; a table of probabilities in the order of the classes for
                'brier' and 'log_loss'; scores for 'auc'.
            metric, given: as for `score`.
            reference: predictions of the same model for the public rows; not needed where the test features are public.
        """
        found = self._metric(metric)
        self._require_pairs(found)
        if reference is None and not self._transductive:
            raise QuestionError(
                f"the prior has {length(self._public):,} public rows of its own, and the model's predictions for them are "
                "needed too: score_predictions(y_pred, reference=model.predict(X_reference)). A test set made without "
                "reference= needs none."
            )
        mine = self._checked(y_pred, length(self._X), found, "y_pred")
        theirs = mine if reference is None else self._checked(reference, length(self._public), found, "reference")
        # A caller with predictions for both sides knows whether they are the same as before.
        known = digest_of("", mine, self._context) if self._transductive else digest_of(mine, theirs, self._context)
        return self._score(found, mine, theirs, given, known)

    def score_named(self, held: Holdout, metric: Metric, predictions: NDArray[Any], name: str, who: str) -> Score:
        """For a contest, in its turn: one question about public features, known by its name. A repeat costs nothing."""
        if metric.loss is None or not self._transductive:
            raise SettingError(f"{metric.name} cannot be asked by one question about public features.")
        part = metric.loss(self._context)
        output = self._checked(predictions, length(self._X), metric, "the submission")
        mine, theirs = (layout.evaluate(part, output, pairs=False) for layout in (self._mine, self._theirs))
        return Score.of_share(_share(held, mine, theirs, name=name, who=who), metric.name, metric.span(self._context))

    def compare(self, first: Any, second: Any, metric: str | None = None, *, given: str | None = None) -> Verdict:
        """Is the first model better than the second? One question about the difference on the same rows.

        Args:
            first, second: fitted models.
            metric: one that is a plain mean: accuracy, error, brier, log_loss, mean_absolute_error, mean_squared_error.
            given: only rows for which this is true.
        """
        found = self._metric(metric)
        if found.loss is None:
            raise SettingError(
                f"{found.name} is not a mean over rows, so one question cannot compare two models. Expected 'accuracy', "
                "'error', 'brier', 'log_loss', 'mean_absolute_error' or 'mean_squared_error'."
            )
        loss = found.loss(self._context)
        digests = [self._digest(model) for model in (first, second)]
        ones, others = self._outputs(first, found), self._outputs(second, found)

        def half(a: Any, b: Any) -> Any:
            def part(place: Any, y: Any) -> Any:
                left, right = (np.asarray(loss(out[place], y), dtype=np.float64) for out in (a, b))
                return 0.5 * (1.0 + left - right)

            return part

        places = np.arange(length(self._X)), np.arange(length(self._public))
        parts = half(ones[0], others[0]), half(ones[1], others[1])
        with self.turn() as held:
            known = [self._known(one, public) for one, public in zip(digests, (ones[1], others[1]), strict=True)]
            name = None if None in known else f"{found.name} of {known[0]} minus {known[1]}"
            answer = self._asked(held, parts[0], parts[1], places[0], places[1], given, pairs=False, name=name)
        worth = found.span(self._context)
        value, low, high = (worth * (2.0 * x - 1.0) for x in (answer.value, answer.low, answer.high))
        return Verdict(
            found.name,
            value,
            low,
            high,
            (answer,),
            bottom=-worth,
            top=worth,
            larger_is_better=found.larger_is_better,
        )

    def _require_pairs(self, metric: Metric) -> None:
        if metric.pairs and (not self._options.pairs or self._context.positive is None):
            raise SettingError(
                f"{metric.name} is about pairs of rows, one of them positive: make the test set with pairs=True"
                f"{'' if self._context.positive is not None else ' and positive=…'}."
            )

    def _score(self, metric: Metric, mine: Any, theirs: Any, given: str | None, known: str | None) -> Score:
        parts: list[Answer] = []
        program = metric.program(self._context)
        with self.turn() as held:
            try:
                part = next(program)
                while True:
                    name = None if known is None else f"{metric.name} of model {known}, part {len(parts) + 1}"
                    answer = self._asked(held, part, part, mine, theirs, given, pairs=metric.pairs, name=name)
                    parts.append(answer)
                    part = program.send(answer)
            except StopIteration as done:
                found = done.value
        return Score(metric.name, found.value, found.low, found.high, tuple(parts), bottom=found.bottom, top=found.top)

    def _asked(
        self,
        held: Holdout,
        mine: Part,
        theirs: Part,
        out: Any,
        public: Any,
        given: str | None,
        *,
        pairs: bool,
        name: str | None,
    ) -> Answer:
        """One mean of numbers in [0, 1], as a share; within a group, from two."""
        values = [
            layout.evaluate(part, output, pairs=pairs)
            for layout, part, output in ((self._mine, mine, out), (self._theirs, theirs, public))
        ]
        try:
            if given is None:
                return _share(held, values[0], values[1], name=name)
            groups = self._groups(held, given)
            part = [np.where(group, value, 0.0) for value, group in zip(values, groups, strict=True)]
            left = [np.where(group, 1.0 - value, 0.0) for value, group in zip(values, groups, strict=True)]
            names = [None if name is None else f"{name}, {side} given {given}" for side in ("of", "the rest")]
            inside, rest = _share(held, *part, name=names[0]), _share(held, *left, name=names[1])
        except PrecisionExhausted as refusal:
            self.exhausted = refusal
            raise
        low, high = derived.ratio((inside.low, inside.high), (rest.low, rest.high))
        whole = inside.value + rest.value
        value = min(max(inside.value / whole if whole > 0.0 else 0.5, low), high)
        return Answer(value, low, high, inside.surprise or rest.surprise, rest.round, rest.spent, "share")

    def _groups(self, held: Holdout, given: str) -> list[NDArray[np.bool_]]:
        public = held.session.public_rows
        if self._options.pairs or public is None:
            raise QuestionError("subgroups (given=…) need features as columns, and single rows, not pairs.")
        question = expression(given, held.schema.kinds, held.schema.words)
        table = held.schema.conform(self._rows, what="the test rows")
        return [
            np.unpackbits(Batch([question], Columns(rows)).values(rows.row_count)[0], count=rows.row_count).view(np.bool_)
            for rows in (table, public)
        ]

    def _metric(self, name: str | None) -> Metric:
        return find(name or ("accuracy" if self.task == "classification" else "mean_absolute_error"), self.task)

    def _outputs(self, model: Any, metric: Metric) -> tuple[Any, Any]:
        """Predictions for both sides: on public rows every error is raised, on private ones none."""

        def predict(rows: Any) -> Any:
            return predicted(model, rows, metric.output, self._context.classes, self._context.positive)

        theirs = self._checked(predict(self._public), length(self._public), metric, "the model")
        if self._transductive:
            return theirs, theirs
        require_rows_alone(predict, self._public, theirs)
        return predicted_in_private(predict, self._X, theirs), theirs

    def _checked(self, given: Any, size: int, metric: Metric, what: str) -> NDArray[Any]:
        return checked_predictions(given, size, metric, self._context, what)

    # scikit-learn --------------------------------------------------------------------------------------------------

    def scorer(self, metric: str | None = None) -> Scorer:
        """A scorer for `GridSearchCV`, `RandomizedSearchCV`, `cross_validate`: it ignores the rows it is given, and asks.

        With several processes (`n_jobs=2`) the test set must be durable (`path=`): the scorer is then a handle to the
        study's file, and every process waits for its turn.
        """
        return Scorer(self, self._metric(metric).name)

    def cv(self, X: Any, y: Any = None) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """A single split that trains on all rows, so that a search asks once a candidate: `cv=test.cv(X_train)`.

        (Twice with `return_train_score=True`, which asks for what it already has.)
        """
        size = length(X)
        if size < 1:
            raise DataError("X has no rows. Expected the training rows: cv=test.cv(X_train).")
        return [(np.arange(size), np.arange(1))]

    def optuna_callback(self) -> Callable[[Any, Any], None]:
        """For `study.optimize(…, callbacks=[…], catch=(eh.PrecisionExhausted,))`: ends the search when nothing is left."""

        def stop(study: Any, _: Any) -> None:
            if self.exhausted is not None:
                study.stop()

        return stop

    def __repr__(self) -> str:
        draws = "pairs" if self._options.pairs else "rows"
        held = self._held
        asked = "" if held is None else f", rounds: {held.rounds:,}, surprises: {held.surprises:,}, {held.spent:.1f} nats"
        return f"TestSet({self.task}, {len(self._mine.index):,} private {draws}{asked}; prior: {self.prior})"

    def _repr_html_(self) -> str:
        held = self._held
        facts = {
            "task": self.task,
            "private": f"{len(self._mine.index):,} {'pairs' if self._options.pairs else 'rows'}",
            "prior": self.prior,
            "confidence": f"{self._options.confidence:g}",
        }
        if held is not None:
            facts |= {"rounds": f"{held.rounds:,}", "surprises": f"{held.surprises:,}", "nats": f"{held.spent:.1f}"}
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items()
        )
        return f"<table><caption>everhold test set</caption>{rows}</table>"


def _patiently(work: Callable[[], T]) -> T:
    """Do something for which this process has to wait for its turn."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return work()
        except LedgerBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _share(
    held: Holdout, sample: NDArray[Any], reference: NDArray[Any], *, name: str | None = None, who: str | None = None
) -> Answer:
    """Ask for a mean of numbers in [0, 1], as a share."""
    if sample.dtype == np.bool_ and reference.dtype == np.bool_:
        return held.ask(Values(sample=sample, reference=reference), name=name, who=who)
    mine, theirs = (np.clip(2.0 * np.asarray(v, dtype=np.float64) - 1.0, -1.0, 1.0) for v in (sample, reference))
    return held.ask(Values(sample=mine, reference=theirs), name=name, who=who).as_share()
