"""1,000 configurations on one test set: how wide the winner's interval is, and what the winner is worth on fresh rows.

Three searches a run. *One batch*: candidates are entered, and `winner` names the best and reads it; what leads the search
is public forecasts. *Five generations* of 200: after each, `winner(read=False)` names the champion, and most of the next
generation are its neighbours. *Plain*: every candidate is scored on the test rows themselves, and neighbours of the best so
far are tried, one after the other.

A winner is compared with two plain ones on fresh rows: the best of the same candidates by plain test score, and the winner
of the same search when plain test scores lead it. In one batch these are one, because test scores lead nothing there.

A half-width is divided by that of the interval for 1,000 questions fixed in advance, at 0.05/1,000 each, for the same rows
and the same winner: Clopper and Pearson's for accuracy, the normal one for errors. A candidate leaves out 40 % of the
training rows, and its score there is its forecast (`expect=`, `folds=0`), because 1,000 cross-validations would take longer
than all else. The search with Optuna cross-validates (`test.enter(model)`).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import everhold as eh
from benchmarks.candidates import Candidate, Data, Split, tables
from benchmarks.promises import Line

CONFIGURATIONS = 1_000
GENERATIONS = 5
DELTA = 0.05


@dataclass(frozen=True)
class Found:
    """One search by everhold: its winner and the winner's interval. Values are the larger the better.

    Attributes:
        low, high: of the interval, in the metric's units.
        limit: the half-width of as many questions fixed in advance.
        fresh: the winner on fresh rows.
        population: the winner on all rows but those for training, from which the test rows were drawn.
        same: on fresh rows, the best of the same candidates by plain test score.
        led: on fresh rows, the winner of the same search led by plain test scores, with candidates of its own.
        nats: the price of the interval.
    """

    low: float
    high: float
    limit: float
    fresh: float
    population: float
    same: float
    led: float
    nats: float

    @property
    def half(self) -> float:
        """The half-width."""
        return (self.high - self.low) / 2

    @property
    def ratio(self) -> float:
        """To questions fixed in advance."""
        return self.half / self.limit

    @property
    def holds(self) -> bool:
        """Whether the interval holds the score in the population."""
        return self.low <= abs(self.population) <= self.high

    @property
    def holds_fresh(self) -> bool:
        """Whether it holds the score on fresh rows, which has a noise of its own: there may be few of them."""
        return self.low <= abs(self.fresh) <= self.high


@dataclass(frozen=True)
class Run:
    """All searches on one split.

    Attributes:
        told, plain: of the plain search's winner, the score that made it one, and its score on fresh rows.
    """

    data: Data
    batch: Found
    generations: Found
    told: float
    plain: float

    def behind(self, found: Found) -> float:
        """How much worse the winner is on fresh rows than the plain search's: in points, or per cent of the error."""
        return 100 * (self.plain - found.fresh) / (1.0 if self.data.limits is None else abs(self.plain))

    def behind_same(self, found: Found) -> float:
        """The same, beside the plain winner of the same candidates."""
        return 100 * (found.same - found.fresh) / (1.0 if self.data.limits is None else abs(found.same))

    def behind_led(self, found: Found) -> float:
        """The same, beside the winner of the same search led by plain scores."""
        return 100 * (found.led - found.fresh) / (1.0 if self.data.limits is None else abs(found.led))


def fixed_in_advance(values: NDArray[np.float64], questions: int, *, share: bool) -> float:
    """The half-width for one of so many questions that are fixed before looking, all valid together."""
    if share:
        low, high = clopper_pearson(round(float(values.sum())), len(values), DELTA / questions)
        return (high - low) / 2
    return float(stats.norm.isf(DELTA / questions / 2) * values.std(ddof=1) / np.sqrt(len(values)))


def clopper_pearson(k: int, n: int, failure: float) -> tuple[float, float]:
    """The exact interval of a share."""
    low = 0.0 if k == 0 else float(stats.beta.ppf(failure / 2, k, n - k + 1))
    return low, 1.0 if k == n else float(stats.beta.isf(failure / 2, k + 1, n - k))


def _test_set(data: Data, rows: Split, seed: int) -> eh.TestSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.ReferenceWarning)  # fewer public rows than private ones: on purpose
        return eh.TestSet(*rows.test, reference=rows.train, seed=seed, overlap="allow", **data.options())


def _enter(test: eh.TestSet, one: Candidate) -> None:
    test.enter(one, expect=abs(one.foreseen), folds=0)


def _found(data: Data, rows: Split, tried: Sequence[Candidate], told: eh.Winner, plainly: Candidate | None = None) -> Found:
    """What a search found, beside the plain winner of the same candidates and of the same search led by plain scores."""
    ours, same = tried[told.index], max(tried, key=lambda one: one.score(rows.test))
    score = told.score
    if score is None:
        raise ValueError("the winner was not read")
    limit = fixed_in_advance(ours.goodness(rows.test), len(tried), share=data.limits is None)
    both = np.concatenate([ours.goodness(rows.test), ours.goodness(rows.fresh)])
    return Found(
        score.low,
        score.high,
        limit,
        ours.score(rows.fresh),
        float(np.mean(both)),
        same.score(rows.fresh),
        (plainly or same).score(rows.fresh),
        score.parts[0].price,
    )


def one_batch(data: Data, rows: Split, seed: int, randoms: Sequence[Candidate], configurations: int) -> Found:
    """Random candidates, then neighbours of the one with the best forecast; all entered."""
    rng, test = np.random.default_rng([seed, 1]), _test_set(data, rows, seed)
    tried = list(randoms)
    best = max(tried, key=lambda one: one.foreseen)
    for _ in range(configurations - len(tried)):
        one = Candidate.random(rng, data, best).fit(*rows.train)
        best = max(best, one, key=lambda one: one.foreseen)
        tried.append(one)
    for one in tried:
        _enter(test, one)
    return _found(data, rows, tried, test.winner())


def in_generations(data: Data, rows: Split, seed: int, randoms: Sequence[Candidate], configurations: int) -> Found:
    """The first generation is random; the others have neighbours of the champion that the private rows named."""
    test, size = _test_set(data, rows, seed), configurations // GENERATIONS

    def champion(tried: list[Candidate]) -> Candidate:
        for one in tried[-size:]:
            _enter(test, one)
        return tried[test.winner(read=False).index]

    def plain_best(tried: list[Candidate]) -> Candidate:
        return max(tried, key=lambda one: one.score(rows.test))

    def searched(best_of: Callable[[list[Candidate]], Candidate]) -> list[Candidate]:
        rng, tried = np.random.default_rng([seed, 2]), list(randoms[:size])
        for _ in range(GENERATIONS - 1):
            best = best_of(tried)
            tried += [Candidate.random(rng, data, best).fit(*rows.train) for _ in range(size)]
        best_of(tried)
        return tried

    tried = searched(champion)
    return _found(data, rows, tried, test.winner(), plain_best(searched(plain_best)))


def plain(data: Data, rows: Split, seed: int, randoms: Sequence[Candidate], configurations: int) -> tuple[float, float]:
    """The winner's score on the test rows that chose it, and on fresh rows."""
    rng = np.random.default_rng([seed, 3])
    scores = [one.score(rows.test) for one in randoms]
    top = max(scores)
    best = randoms[scores.index(top)]
    for _ in range(configurations - len(scores)):
        one = Candidate.random(rng, data, best).fit(*rows.train)
        value = one.score(rows.test)
        if value > top:
            best, top = one, value
    return top, best.score(rows.fresh)


def run_once(data: Data, seed: int, configurations: int = CONFIGURATIONS) -> Run:
    """All three searches on the same rows. They begin with the same random candidates."""
    rows, rng = data.split(seed), np.random.default_rng(seed)
    randoms = [Candidate.random(rng, data).fit(*rows.train) for _ in range(configurations // 2)]
    batch, generations = (way(data, rows, seed, randoms, configurations) for way in (one_batch, in_generations))
    return Run(data, batch, generations, *plain(data, rows, seed, randoms, configurations))


def with_optuna(data: Data, seed: int, trials: int = 200) -> tuple[float, float, bool]:
    """The error on fresh rows of Optuna's winner by forecasts and `winner`, and by plain test scores.

    Third, whether the interval holds the error.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows = data.split(seed)
    test = _test_set(data, rows, seed)

    def searched(value: Callable[[Any], float]) -> list[Any]:
        models: list[Any] = []

        def objective(trial: Any) -> float:
            models.append(_pipeline(trial).fit(*rows.train))
            return value(models[-1])

        study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(objective, n_trials=trials)
        return [models[study.best_trial.number], models]

    def error(model: Any, on: Any) -> float:
        return -float(np.mean(data.goodness(model.predict(on[0]), on[1])))

    numbers: list[int] = []

    def entered(model: Any) -> float:
        entry = test.enter(model)
        numbers.append(entry.number)
        return float(entry)

    _, models = searched(entered)
    told = test.winner()
    ours = models[numbers.index(told.entry.number)]
    other, _ = searched(lambda model: error(model, rows.test))
    if told.score is None:
        raise ValueError("the winner was not read")
    fresh = error(ours, rows.fresh)
    return fresh, error(other, rows.fresh), fresh in told.score.interval


def _pipeline(trial: Any) -> Any:
    from sklearn.linear_model import ElasticNet
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    kind = trial.suggest_categorical("kind", ["linear", "neighbours", "kernel"])
    if kind == "linear":
        model: Any = ElasticNet(
            alpha=trial.suggest_float("alpha", 1e-3, 30, log=True), l1_ratio=trial.suggest_float("l1_ratio", 0, 1)
        )
    elif kind == "neighbours":
        model = KNeighborsRegressor(trial.suggest_int("neighbours", 1, 50))
    else:
        model = SVR(C=trial.suggest_float("C", 0.1, 1e3, log=True), gamma=trial.suggest_float("gamma", 1e-4, 1, log=True))
    return make_pipeline(StandardScaler(), model)


def on_noise(seed: int, rows: int = 1_000, configurations: int = CONFIGURATIONS) -> tuple[bool, bool]:
    """Labels are coins, so every rule is right in half of all cases: does the interval miss it, and one without charge?"""
    rng = np.random.default_rng([seed, 9])
    x, reference = rng.normal(size=(rows, 10)), rng.normal(size=(200, 10))
    y, rules = rng.integers(0, 2, rows), rng.normal(size=(configurations, 10))
    test = eh.TestSet(x, y, reference=reference, classes=[0, 1], seed=seed)
    for rule in rules:
        test.enter(lambda x, rule=rule: (np.asarray(x) @ rule > 0).astype(int), folds=0)
    score = test.winner().score
    if score is None:
        raise ValueError("the winner was not read")
    best = int(np.max(np.sum((x @ rules.T > 0) == y[:, None], axis=0)))
    low, high = clopper_pearson(best, rows, DELTA)
    return 0.5 not in score.interval, not low <= 0.5 <= high


def _contest(submissions: int = 1_000) -> Line:
    """Blum and Hardt's attack on a contest: random submissions, then the vote of those that looked good."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 2, 1_000)
    vote, plain = np.zeros(1_000), np.zeros(1_000)
    with tempfile.TemporaryDirectory() as folder:
        contest = eh.Contest.create(Path(folder) / "c.everhold", labels, classes=[0, 1], seed=1)
        for _ in range(submissions - 1):
            guess = rng.integers(0, 2, 1_000)
            told = contest.submit("mallory", guess).score
            if told is None:
                raise ValueError("a submission was not scored")
            vote += (2 * guess - 1) * (told.value >= 0.5)
            plain += (2 * guess - 1) * (np.mean(guess == labels) >= 0.5)
        contest.submit("mallory", (vote > 0).astype(int))
        best = contest.board().places[0]
    fooled = float(np.mean((plain > 0) == labels))
    return Line(
        f"{submissions:,} submissions of a boosting attack on a contest of pure noise: the board's best",
        f"{best.value:.3f} in [{best.low:.3f}, {best.high:.3f}]; a plain board shows {fooled:.3f}",
        "its interval holds the truth, 0.5",
        best.low <= 0.5 <= best.high and fooled > 0.6,
    )


def run(seeds: tuple[int, ...] = (1, 2, 3), configurations: int = CONFIGURATIONS, splits: int = 30) -> list[Line]:
    """A row a table and seed, and the promises. Errors differ much between splits, so that there are more of these."""
    found = f"{'fresh':>7}{'ratio':>7}{'nats':>6}"
    print(
        f"\n  {'data':<14}{'test':>6}   {'plain: told':>11}{'fresh':>8}"
        f"   {'one batch':<19}{found}   {'five generations':<19}{found}"
    )
    runs = []
    for data in tables():
        for seed in seeds if data.limits is None else range(1, 1 + max(len(seeds), splits)):
            one = run_once(data, seed, configurations)
            runs.append(one)
            print(
                f"  {data.name:<14}{data.test:>6}   {abs(one.told):>11.3f}{abs(one.plain):>8.3f}   "
                f"{_row(one.batch)}   {_row(one.generations)}",
                flush=True,
            )
    return [*_promises(runs), *_optuna(), *_noise(), _contest()]


def _promises(runs: Sequence[Run]) -> list[Line]:
    shares, errors = ([run for run in runs if (run.data.limits is None) == share] for share in (True, False))
    found = [one for run in runs for one in (run.batch, run.generations)]
    lines = [
        _line_of_ratios(
            f"{what}: half-width over 1,000 questions fixed in advance", [pick(run).ratio for run in shares], most
        )
        for what, pick, most in (("one batch of 1,000", _batch, 1.15), ("five generations of 200", _generations, 1.4))
    ]
    lines.append(
        Line(
            "intervals that hold the winner's score in the population that the test rows were drawn from",
            f"{sum(one.holds for one in found)} of {len(found)}; on fresh rows {sum(one.holds_fresh for one in found)}",
            "all",
            all(one.holds for one in found),
        )
    )
    for some, unit, most in ((shares, "points", 0.3), (errors, "% of the error", 1.0)):
        for what, pick in (("one batch", _batch), ("five generations", _generations)):
            same, led, own = (
                float(np.mean([_by_table(how, pick, some, name) for name in {run.data.label for run in some}]))
                for how in (Run.behind_same, Run.behind_led, Run.behind)
            )
            lines.append(
                Line(
                    f"{what}: the winner behind that of the same search led by plain scores, fresh rows, mean of tables",
                    f"{led:+.2f} {unit}; of the same candidates {same:+.2f}; of a plain search step by step {own:+.2f}",
                    f"the first two at most {most:g}",
                    max(same, led) <= most,
                )
            )
    told = [100 * (run.told - run.plain) for run in shares]
    lines.append(
        Line(
            "the plain test score of the plain search's winner is too good, on average",
            f"{float(np.mean(told)):.1f} points, in {sum(one > 0 for one in told)} of {len(told)} runs",
            "above 0",
            float(np.mean(told)) > 0.0,
        )
    )
    for what, pick in (("one batch", _batch), ("five generations", _generations)):
        ratios = [pick(run).ratio for run in errors]
        print(f"       errors, {what}: {min(ratios):.2f} to {max(ratios):.2f} of the normal interval (nothing is promised)")
    return lines


def _by_table(how: Callable[[Run, Found], float], pick: Callable[[Run], Found], some: Sequence[Run], label: str) -> float:
    return float(np.mean([how(run, pick(run)) for run in some if run.data.label == label]))


def _batch(run: Run) -> Found:
    return run.batch


def _generations(run: Run) -> Found:
    return run.generations


def _line_of_ratios(what: str, ratios: Sequence[float], most: float) -> Line:
    measured = f"{min(ratios):.3f} to {max(ratios):.3f}, mean {float(np.mean(ratios)):.3f}"
    return Line(what, measured, f"at most {most:g} in every run", max(ratios) <= most)


def _optuna(seeds: Sequence[int] = tuple(range(1, 9))) -> list[Line]:
    diabetes = next(data for data in tables() if data.name == "diabetes")
    ours, others, holds = (np.array(some) for some in zip(*(with_optuna(diabetes, seed) for seed in seeds), strict=True))
    return [
        Line(
            f"Optuna, 200 trials on diabetes, {len(seeds)} seeds: error on fresh rows over that of the plain search",
            f"{ours.mean() / others.mean():.3f} on average, {(ours / others).min():.3f} to {(ours / others).max():.3f}; "
            f"{int(holds.sum())} intervals hold it",
            "at most 1.02 on average, and all hold it",
            bool(ours.mean() <= 1.02 * others.mean() and holds.all()),
        )
    ]


def _noise(sessions: int = 10) -> list[Line]:
    missed, without = np.sum([on_noise(seed) for seed in range(sessions)], axis=0)
    return [
        Line(
            f"the best of 1,000 rules for coins, {sessions} sessions: intervals that miss one half",
            f"{missed}; the plain score's interval, without a charge for the search, {without}",
            "none; nearly all",
            bool(missed == 0 and without >= 0.9 * sessions),
        )
    ]


def _row(one: Found) -> str:
    return f"{f'[{one.low:.3f}, {one.high:.3f}]':<19}{abs(one.fresh):>7.3f}{one.ratio:>7.2f}{one.nats:>6.1f}"
