"""A test set that stays honest however often it is looked at."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everhold.data.likeness import ROW_DIGEST
from everhold.data.overlap import require_independent
from everhold.data.sample import Sample
from everhold.data.table import RowTable
from everhold.errors import (
    DataError,
    HoldoutClosed,
    PrecisionExhausted,
    PriorError,
    PrivacyError,
    QuestionError,
    SearchWarning,
    SettingError,
)
from everhold.learn.entries import Entries, Entry, Winner
from everhold.learn.history import History, ScoredModel
from everhold.learn.label_model import label_chances
from everhold.learn.layout import (
    LabelPrior,
    columns_of,
    length,
    paired,
    pool_of,
    private_layout,
    public_layout,
    row_digests,
)
from everhold.learn.metrics import Metric, Task, find
from everhold.learn.model_acts import Group, ModelActs, outputs_of
from everhold.learn.options import TestSetOptions, checked_labels
from everhold.learn.score import ModelVerdict, Score, ScoreDifference
from everhold.learn.scorer import Scorer
from everhold.learn.search import Search
from everhold.learn.search_advice import SearchAdvice
from everhold.learn.shared_study import SharedStudy
from everhold.learn.sides import Outputs, Sides, question
from everhold.learn.validation import reference_parts, require_same_columns, warn_of_many_classes
from everhold.ledger.key_file import KeyFile
from everhold.priors.fixed import FixedPrior, StudyKind
from everhold.queries.expression import expression
from everhold.queries.expression.program import Columns, CompiledBatch
from everhold.session.holdout import Holdout
from everhold.session.settings import OverlapRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.bounds.privacy import Privacy, PrivacyAccount
    from everhold.queries.disclosed import Choice

__all__ = ["TestSet"]

S = TypeVar("S", bound=Score)
T = TypeVar("T")


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
        prior: what is supposed of labels: 'uniform' (every label equally likely: the default of a classification),
            'baseline' (a baseline model's cross-validated probabilities on the reference), 'labelled' (the reference's own
            labels: the default of a regression with a labelled reference).
        path: of a durable study; opened again if it exists. Searches with several processes need one. While it is open no
            other process can ask; `release` gives it up. A process that has to wait says so after 2 seconds, and gives up
            after 120, or after `EVERHOLD_PATIENCE` seconds.
        classes: the possible labels, in the order that tables of probabilities have; those of the reference, sorted, when
            left out. They are there as `test.classes`.
        low, high: the declared range of a regression's labels; that of the reference's labels, with a quarter more on both
            sides, when left out. Predictions are cut to it.
        positive: the class that precision, recall, F1 and AUC are about; left out, the second of two; for more classes the
            mean over all, and none for AUC.
        least_probability: probabilities count as at least this much in the log loss, which bounds it.
        pairs: pair the rows up, so that AUC can be asked for; everything then rests on half as many draws. Not where the
            test features are public: a model could be made for the pairs.
        label: the name of the label's column in subgroups (`given=`).
        confidence, known_rows, seed, overlap: as for `eh.Holdout`.
        half_width: a promise about every question that `score` asks: it refuses (`PrecisionExhausted`) rather than break it.
            Readings, differences, verdicts and the winner's score are not bound by it.
        privacy: what to promise about every test label, such as `eh.Privacy(epsilon=1.0)`: everything ever disclosed is then
            differentially private. Only where the features are public (no `reference`), with a `path`; metrics of rows and
            `best_of`, `winner`, `compare`, `difference` of plain means work, with noise (docs/howto/private.md#test-sets).
        register: of a durable one, whether its rows are entered in the registry of studies, as for `eh.Holdout.create`.

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
        prior: LabelPrior | None = None,
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
        privacy: Privacy | None = None,
        register: bool = True,
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
                privacy=privacy,
                register=register,
            ),
        )

    @classmethod
    def from_options(cls, X: Any, y: Any, options: TestSetOptions, *, reference: Any = None) -> TestSet:
        """The same, from options as one value."""
        return cls(X, y, reference=reference, **{one.name: getattr(options, one.name) for one in fields(options)})

    # making ready --------------------------------------------------------------------------------------------------

    def _set_up(self, X: Any, y: Any, reference: Any, given: TestSetOptions) -> None:
        if given.pairs and reference is None:
            raise SettingError(
                "pairs=True needs reference=…: where the test features are public, so are the pairs, and a model could be "
                "made for them."
            )
        given.require_privacy(reference)
        public, public_labels = reference_parts(reference)
        if reference is not None:
            require_same_columns(X, public)
        given = given.completed(public_labels)
        if given.prior != "uniform" and public_labels is None:
            raise PriorError(f"prior={given.prior!r} needs labelled public rows: reference=(X_train, y_train).")
        self._context = given.context(public_labels)
        if given.task == "classification":
            warn_of_many_classes(public_labels, self._context.classes)
        labels = checked_labels(y, length(X), given.task, self._context)
        if given.privacy is not None and given.task == "classification":  # of one type, whatever type each label has
            labels = self._context.classes[(labels[:, None] == self._context.classes).argmax(axis=1)]
        self._options = options = given.with_seed()
        self._given = {"X": X, "y": y, "reference": reference, "options": options.to_dict()}
        transductive = reference is None
        public = X if transductive else public
        self.task: Task = options.task
        seed = int(options.holdout_settings["seed"])
        values, size = self._context.classes, length(public)
        chances = label_chances(public, public_labels, self._context, self.task) if options.prior == "baseline" else None
        own = public_labels if options.prior == "labelled" else None
        public_draws = public_layout(size, own, values, chances, pairs=options.pairs, seed=seed)
        private_draws = private_layout(labels, pairs=options.pairs, seed=seed)
        self.sides = Sides(
            X, labels, public, public_labels, transductive, self._context, private_draws, public_draws, self._owners_key()
        )
        self._acts = ModelActs(self.sides, Entries(options.path), pairs=options.pairs)
        self._search = Search(self._acts)
        self._history = History()
        self._advice = SearchAdvice()
        self.prior = self._described(size)
        self.exhausted: PrecisionExhausted | None = None
        self._rows, laid = self._sides(labels)
        self._study = SharedStudy(self._rows, laid, options)

    def _owners_key(self) -> Callable[[], bytes]:
        """The key that lies beside a durable study; in memory a fresh one."""
        path, fresh = self._options.path, secrets.token_bytes(32)
        return lambda: fresh if path is None else bytes.fromhex(KeyFile.load(path).key)

    def _described(self, size: int) -> str:
        """The prior in words."""
        what = "test features" if self.sides.transductive else "public features"
        labels = {
            "uniform": f"× {len(self._context.classes)} equally likely labels",
            "baseline": "× a baseline model's label probabilities",
            "labelled": "with their own labels",
        }[self._options.prior or "uniform"]
        return f"{size:,} {what} {labels}{', in pairs' if self._options.pairs else ''}"

    def _sides(self, labels: NDArray[Any]) -> tuple[RowTable, FixedPrior]:
        private_columns, public_columns = columns_of(self.sides.X, "X"), columns_of(self.sides.public, "the reference")
        both = {name: private_columns[name] for name in private_columns if name in public_columns}
        label = self._options.label
        if label in both:
            raise DataError(f"X has a column {label!r} already. Name the label's column otherwise: label='target'.")
        shared = {name: public_columns[name] for name in both}
        if len(both) < len(private_columns) or not both:  # what tells these rows from others, where columns do not
            both[ROW_DIGEST], shared[ROW_DIGEST] = row_digests(self.sides.X), row_digests(self.sides.public)
        if not self.sides.transductive and self._options.overlap == "refuse":
            try:
                require_independent(Sample(RowTable(both)), RowTable(shared))
            except PriorError as error:
                found = str(error).partition(", more than")[0]
                raise PriorError(
                    f"{found}, more than chance explains: training rows are in the test set. Remove these rows from X and "
                    "y, or from the reference, and from what models are fitted to. If you know why these rows are equal and "
                    "that they are still independent, pass overlap='allow'."
                ) from None
        uniform = self._options.prior == "uniform" and self.task == "classification"
        density = 1.0 / len(self._context.classes) if uniform else None
        pool = pool_of(shared, self.sides.public_draws, label)
        kind: StudyKind = "labels" if self.sides.transductive else "study"
        laid = FixedPrior(pool, density, self.prior, exempt_from_overlap=True, kind=kind)
        if self._options.pairs:
            return RowTable(paired(both, self.sides.private_draws), what="the test rows"), laid
        return RowTable({**both, label: labels}, what="the test rows"), laid

    @property
    def path(self) -> Path | None:
        """Of a durable study; None in memory."""
        return self._options.path

    @property
    def privacy(self) -> PrivacyAccount | None:
        """What is promised about every test label, and what of it is spent; None where nothing is promised."""
        with self.turn() as holdout:
            return holdout.privacy

    @property
    def classes(self) -> NDArray[Any]:
        """The possible labels, in the order that tables of probabilities have."""
        return self._context.classes

    @contextmanager
    def turn(self) -> Iterator[Holdout]:
        """The holdout, for one act, one thread at a time. Between the turns of a shared test set others may ask."""
        with self._study.turn() as holdout:
            yield holdout

    def release(self) -> None:
        """Give up the study's file, so that other processes may ask; the next score opens it again."""
        self._study.release()

    def open_to_processes(self) -> None:
        """Make ready for other processes: the rows go into a file for the owner alone, and others may ask between scores."""
        self._study.open_to_processes(self._given)

    @classmethod
    def from_rows_file(cls, content: dict[str, Any]) -> TestSet:
        """In another process: the same test set again, from the content of its rows file."""
        options = TestSetOptions.from_dict(content["options"])
        test = cls.from_options(content["X"], content["y"], options, reference=content["reference"])
        test._study.let_others_ask()
        return test

    @property
    def holdout(self) -> Holdout:
        """The holdout inside: every score goes through it."""
        return self._study.ready()

    # scores --------------------------------------------------------------------------------------------------------

    def score(
        self,
        model: Any,
        metric: str | None = None,
        *,
        given: str | None = None,
        expect: float | None = None,
        name: str | None = None,
    ) -> Score:
        """A model's score for the population, as an ask: the forecast, where the private rows agree with it.

        Scores are wide, and while nothing surprises they follow the prior. To find the best of many models use `enter` and
        `winner`, or `best_of`; for a narrow interval use `read`.

        Args:
            model: fitted, with predict(X), or a function of X; it is asked about the test rows and the public ones.
            metric: 'accuracy', 'error', 'balanced_accuracy', 'precision', 'recall', 'f1', 'brier', 'log_loss', 'auc'; or
                'mean_absolute_error', 'mean_squared_error', 'r2'. The first of its task when left out.
            given: only rows for which this is true, as text: "region = 'north'".
            expect: what you foresee, from public facts: a cross-validated score. For metrics that are plain means.
            name: what the record calls it; the name of its entry, or the model as it prints, when left out.
        """
        chosen_metric = self._metric(metric)
        self._acts.require_pairs(chosen_metric)
        outputs = self._acts.titled(self.sides.outputs(model, chosen_metric), model, name)
        self._warn_if_unrecognised(("score", chosen_metric.name, given), [model], [outputs])
        found = self._turned(
            lambda holdout: self._acts.ask(holdout, chosen_metric, outputs, self._group(holdout, given), expect)
        )
        self._advice.after_score(found)
        return self._noted("score", outputs.title, given, found)

    def read(
        self,
        model: Any,
        metric: str | None = None,
        *,
        given: str | None = None,
        expect: float | None = None,
        name: str | None = None,
    ) -> Score:
        """A model's score on the private rows, with a narrow interval for the population.

        Every later interval is a little wider. The same model again returns the same reading, for nothing.

        Args:
            model, metric, given, expect, name: as for `score`.
        """
        chosen_metric = self._metric(metric)
        self._acts.require_pairs(chosen_metric)
        outputs = self._acts.titled(self.sides.outputs(model, chosen_metric), model, name)
        self._warn_if_unrecognised(("read", chosen_metric.name, given), [model], [outputs])
        found = self._turned(
            lambda holdout: self._acts.read(holdout, chosen_metric, outputs, self._group(holdout, given), expect)
        )
        if given is None:
            self._advice.after_reading(found)
        return self._noted("read", outputs.title, given, found)

    def score_predictions(
        self,
        y_pred: Any,
        metric: str | None = None,
        *,
        reference: Any = None,
        given: str | None = None,
        name: str = "given predictions",
    ) -> Score:
        """The score of predictions that were made elsewhere.

        Args:
            y_pred: one for each test row: labels or values; a table of probabilities in the order of the classes for
                'brier' and 'log_loss'; scores for 'auc'.
            metric, given: as for `score`.
            reference: predictions of the same model for the public rows; not needed where the test features are public.
            name: what the record calls them.
        """
        chosen_metric = self._metric(metric)
        self._acts.require_pairs(chosen_metric)
        if reference is None and not self.sides.transductive:
            raise QuestionError(
                f"the prior has {length(self.sides.public):,} public rows of its own, and the model's predictions for them "
                "are needed too: score_predictions(y_pred, reference=model.predict(X_reference)). A test set made without "
                "reference= needs none."
            )
        outputs = self._acts.titled(self.sides.given(y_pred, reference, chosen_metric), y_pred, name)
        found = self._turned(
            lambda holdout: self._acts.ask(holdout, chosen_metric, outputs, self._group(holdout, given), None)
        )
        return self._noted("score", outputs.title, given, found)

    def score_named(self, holdout: Holdout, metric: Metric, predictions: NDArray[Any], name: str, who: str) -> Score:
        """For a contest, in its turn: one question about public features, known by its name. A repeat costs nothing."""
        if metric.loss is None or not self.sides.transductive:
            raise SettingError(f"{metric.name} cannot be asked by one question about public features.")
        checked = self.sides.checked(predictions, length(self.sides.X), metric, "y_pred")
        outputs = Outputs(checked, checked, None)  # known by its name: it needs no digest of its own
        title = f"{metric.name} of {name}"
        values = self.sides.values(metric.loss(self.sides.context), outputs, pairs=False)
        asked = question(*values, None, title, span=self.sides.span_of(metric))
        answer = holdout.ask(asked, name=name, who=who)
        answer = answer if answer.scale == "share" else answer.as_share()
        return Score.of_share(answer, metric.name, metric.span(self.sides.context))

    # choices, verdicts, the last act -------------------------------------------------------------------------------

    def best_of(
        self,
        models: Iterable[Any],
        metric: str | None = None,
        *,
        weights: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> Choice:
        """Which of several models is best on the private rows: `.index`, and nothing else. Then `read` that one.

        It costs later intervals the logarithm of the number of models.

        Args:
            models: fitted.
            metric: any of them, 'auc' and 'f1' too: only the index is disclosed.
            weights: how probable it is, by what is publicly known, that each is best; they are scaled to
                sum to 1, an eighth of them even.
            names: what the record calls them; the names of their entries, or the models as they print, when left out.
        """
        chosen_metric = self._metric(metric)
        candidates = outputs_of(self._acts, chosen_metric, models, names)
        return self._turned(lambda holdout: self._acts.best_of(holdout, chosen_metric, candidates, weights))

    def compare(
        self, first: Any, second: Any, metric: str | None = None, *, names: Sequence[str] | None = None
    ) -> ModelVerdict:
        """Is the first model better than the second in the population? Certified: 'better', 'worse' or 'cannot tell'.

        By the rows on which they differ. For an interval of the difference there is `difference`.

        Args:
            first, second: fitted models.
            metric: one that is a plain mean: accuracy, error, brier, log_loss, mean_absolute_error, mean_squared_error.
            names: what the record calls the two, as for `best_of`.
        """
        chosen_metric = self._metric(metric)
        one, other = outputs_of(self._acts, chosen_metric, [first, second], names)
        self._warn_if_unrecognised(("compare", chosen_metric.name), [first, second], [one, other])
        return self._turned(lambda holdout: self._acts.compare(holdout, chosen_metric, one, other))

    def difference(
        self, first: Any, second: Any, metric: str | None = None, *, names: Sequence[str] | None = None
    ) -> ScoreDifference:
        """How much better the first model is than the second: a reading of the difference on the same rows.

        Args:
            first, second, metric, names: as for `compare`.
        """
        chosen_metric = self._metric(metric)
        one, other = outputs_of(self._acts, chosen_metric, [first, second], names)
        self._warn_if_unrecognised(("difference", chosen_metric.name), [first, second], [one, other])
        found = self._turned(lambda holdout: self._acts.difference(holdout, chosen_metric, one, other))
        return self._noted("difference", f"{one.title} less {other.title}", None, found)

    def close(self, models: Iterable[Any], metric: str | None = None, *, names: Sequence[str] | None = None) -> list[Score]:
        """The last act: read any number of models at once, as narrow as can be. The test set cannot be used afterwards.

        Args:
            models, metric, names: as for `best_of`; metrics of pairs need pairs=True.
        """
        chosen_metric = self._metric(metric)
        self._acts.require_pairs(chosen_metric)
        candidates = outputs_of(self._acts, chosen_metric, models, names)
        found = self._turned(lambda holdout: self._acts.close(holdout, chosen_metric, candidates))
        return [self._noted("close", one.title, None, score) for one, score in zip(candidates, found, strict=True)]

    # searches ------------------------------------------------------------------------------------------------------

    def enter(
        self,
        model: Any,
        metric: str | None = None,
        *,
        name: str | None = None,
        expect: float | None = None,
        folds: int = 5,
    ) -> Entry:
        """Enter a candidate. Its private predictions are kept sealed, and only a public forecast is returned.

        Entering costs nothing, however many there are. `winner` names the best of all entries.

        Args:
            model: fitted, as for `score`.
            metric: that it will be judged by.
            name: what to call it; its parameters when left out.
            expect: the forecast, where you have one. Otherwise it is the out-of-bag score of a forest, or a cross-validated
                one where the reference has labels, or what the prior supposes.
            folds: of the cross-validation; 0 for none.
        """
        chosen_metric = self._metric(metric)
        outputs = self.sides.outputs(model, chosen_metric)
        with self._study.lock:
            same = self._acts.entries.same_as(outputs, chosen_metric.name)
        if same is not None:
            return same.entry
        self._require_open()
        candidate = self._search.candidate(chosen_metric, outputs, model, name, expect, folds)
        return self._turned(lambda _: self._search.enter(candidate, model, outputs.public))

    def winner(self, metric: str | None = None, *, read: bool = True) -> Winner:
        """The best of all entries on the private rows, and its score with an interval for the population.

        Only which one it is and its score are disclosed. Entries that come later are another generation: `winner` then
        chooses among them and the champion so far. The champion stays unless one of them is better by about two standard
        errors of the difference (less for an entry that is foreseen as good). So after the first generation the winner
        is not always the best entry on the private rows: what is better by less is mostly luck, and to name it would cost
        more than it gains. `best_of` names the best of a list without a margin.

        Args:
            metric: that the entries were made for.
            read: whether to read its score. AUC is read only with pairs=True.
        """
        chosen_metric = self._metric(metric)
        found = self._turned(lambda holdout: self._search.winner(holdout, chosen_metric, read=read))
        if found.score is not None:
            self._noted("winner", found.entry.name, None, found.score)
        return found

    def history(self) -> History:
        """The scores that were returned in this process: a list that is also a table (`to_frame`) and a picture (`plot`)."""
        with self._study.lock:
            return History(self._history)

    def plot(self, ax: Any = None, *, metric: str | None = None) -> Any:
        """A forest plot of the scores so far, with a panel for each metric. Needs matplotlib (`everhold[plot]`).

        Args:
            ax: matplotlib's axes to draw one metric in; by default a new figure.
            metric: the only one to draw; all of them when left out.
        """
        return self.history().plot(ax, metric=metric)

    def _noted(self, act: str, name: str, given: str | None, score: S) -> S:
        with self._study.lock:
            self._history.append(ScoredModel(act, f"{name} given {given}" if given else name, score))
        return score

    @property
    def entries(self) -> list[Entry]:
        """All candidates that were entered."""
        with self._study.lock:
            return [one.entry for one in self._acts.entries]

    def _turned(self, work: Callable[[Holdout], T]) -> T:
        """Do something in a turn, and remember a refusal."""
        with self.turn() as holdout:
            try:
                return work(holdout)
            except PrecisionExhausted as refusal:
                self.exhausted = refusal
                raise

    def _warn_if_unrecognised(self, what: tuple[object, ...], models: Sequence[Any], outputs: Sequence[Outputs]) -> None:
        """Say that a model of somebody's own code is asked about anew, although the same object was asked about before."""
        if self._acts.asked_before(what, models, outputs):
            unknown = [one.title for one in outputs if one.name is None]
            warnings.warn(
                f"{' and '.join(unknown)} was asked about in the same way before, and is charged again: everhold recognises "
                "models of scikit-learn, and cannot tell whether code of your own is still the same. Keep the result "
                "instead of asking again; test.history() has it.",
                SearchWarning,
                stacklevel=4,
            )

    def _group(self, holdout: Holdout, given: str | None) -> Group | None:
        """Which draws of both sides are in a group."""
        if given is None:
            return None
        if not isinstance(given, str):
            raise QuestionError(
                f"given is a {type(given).__name__}. Expected a condition as text, about features and the label "
                f"{self._options.label!r}: given='\"mean radius\" > 14', given=\"region = 'north'\". Nothing was charged."
            )
        if self._options.privacy is not None:
            raise PrivacyError(
                "a private test set has no subgroups: who is in one may depend on the label. Score all rows. Nothing was "
                "charged."
            )
        public = holdout.session.public_rows
        if self._options.pairs or public is None:
            raise QuestionError("subgroups (given=…) need features as columns, and single rows, not pairs.")
        asked = expression(given, holdout.schema.kinds, holdout.schema.words)
        table = holdout.schema.conform(self._rows, what="the test rows")
        masks = [
            np.unpackbits(CompiledBatch([asked], Columns(rows)).values(rows.row_count)[0], count=rows.row_count).view(
                np.bool_
            )
            for rows in (table, public)
        ]
        return Group(given, masks[0], masks[1])

    def _metric(self, name: str | None) -> Metric:
        return find(name or ("accuracy" if self.task == "classification" else "mean_absolute_error"), self.task)

    # scikit-learn --------------------------------------------------------------------------------------------------

    def scorer(self, metric: str | None = None, *, folds: int = 5, generation_size: int | None = None) -> Scorer:
        """A scorer for `GridSearchCV`, `RandomizedSearchCV` and `HalvingGridSearchCV`: it enters every candidate.

        The search goes by public forecasts, and `winner` says which candidate is best on the private rows. With several
        processes (`n_jobs=2`) the test set must be durable (`path=`): the scorer is then a handle to the study's file, and
        every process waits for its turn.

        Args:
            metric, folds: as for `enter`.
            generation_size: for a search that learns from its scores: choose the best so far after every so many entries,
                such as 50, without reading it. Left out: only in `winner`.
        """
        if generation_size is not None and (isinstance(generation_size, bool) or generation_size < 1):
            raise SettingError(f"generation_size is {generation_size!r}. Expected at least 1 entry, such as 50, or None.")
        return Scorer(self, self._metric(metric).name, folds=folds, generation_size=generation_size)

    def cv(self, X: Any, y: Any = None) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """A single split that trains on all rows, so that a search enters a candidate once: `cv=test.cv(X_train)`.

        The scorer makes its own forecast, so what is held out plays no part.
        """
        size = length(X)
        if size < 1:
            raise DataError("X has no rows. Expected the training rows: cv=test.cv(X_train).")
        return [(np.arange(size), np.arange(size))]

    def optuna_callback(self) -> Callable[[Any, Any], None]:
        """For `study.optimize(…, callbacks=[…], catch=(eh.PrecisionExhausted,))`: ends the search when nothing is left."""

        def stop(study: Any, _: Any) -> None:
            if self.exhausted is not None:
                study.stop()

        return stop

    def _require_open(self) -> None:
        """Refuse a candidate that could never be judged."""
        if self._study.closed:
            raise HoldoutClosed(
                "this test set was closed by its last act, and no candidate can be judged any more. Enter models before "
                "close(), or make a test set of fresh rows."
            )

    def __repr__(self) -> str:
        draws = "pairs" if self._options.pairs else "rows"
        holdout = self._study.holdout
        asked = (
            ""
            if holdout is None
            else f", rounds: {holdout.rounds:,}, surprises: {holdout.surprises:,}, {holdout.price:.1f} nats"
        )
        closed = ", closed" if self._study.closed else ""
        size = f"{len(self.sides.private_draws.index):,} private {draws}"
        return f"TestSet({self.task}, {size}{asked}{closed}; prior: {self.prior})"

    def _repr_html_(self) -> str:
        holdout = self._study.holdout
        facts = {
            "task": self.task,
            "private": f"{len(self.sides.private_draws.index):,} {'pairs' if self._options.pairs else 'rows'}",
            "prior": self.prior,
            "confidence": f"{self._options.confidence:g}",
        }
        if holdout is not None:
            facts |= {"rounds": f"{holdout.rounds:,}", "surprises": f"{holdout.surprises:,}", "nats": f"{holdout.price:.1f}"}
        if self._study.closed:
            facts["state"] = "closed"
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items()
        )
        return f"<table><caption>everhold test set</caption>{rows}</table>"
