"""The demo: an analyst overfits a plain holdout and not everhold; then the best of 1,000 models, found and read.

Run it with `everhold demo`. It writes its figure to `out/demo.png`, where matplotlib is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import everhold as eh
from everhold.bounds.binomial import binomial_interval
from everhold.bounds.elementary import ln
from everhold.cli.demo_study import make_demo_study

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ImportError as error:
    raise eh.MissingExtra("the demo", "demo") from error

ROWS, FEATURES, CHECK_EVERY = 10_000, 2_000, 200
TEST_ROWS, MODELS = 1_000, 1_000
_PLAIN, _TRUTH, _OURS = "#c2410c", "#111827", "#15803d"


# the first scene: labels are noise, and an analyst collects what looks useful -------------------------------------------


@dataclass
class Trace:
    """What an analyst is shown at each check of the model, whose true accuracy is one half."""

    rounds: list[int] = field(default_factory=list)
    answers: list[eh.Answer] = field(default_factory=list)


@dataclass(frozen=True)
class NoisyRows:
    """Private rows of coin flips, and the analyst's own training rows."""

    x: NDArray[np.int8]
    y: NDArray[np.int8]
    train_x: NDArray[np.int8]
    leans: NDArray[np.float64]
    """How often each feature agrees with the label among the training rows, minus one half."""


def make_noise(seed: int) -> NoisyRows:
    """Features and labels without any connection."""
    rng = np.random.default_rng(seed)

    def coins(rows: int, columns: int) -> NDArray[np.int8]:
        bits = np.frombuffer(rng.bytes(rows * columns), np.int8).reshape(rows, columns)
        return (bits & np.int8(1)) * np.int8(2) - np.int8(1)

    x, y, train_x, train_y = coins(ROWS, FEATURES), coins(ROWS, 1)[:, 0], coins(ROWS, FEATURES), coins(ROWS, 1)[:, 0]
    leans = 0.5 * (train_x.T.astype(np.float32) @ train_y.astype(np.float32)) / ROWS
    return NoisyRows(x, y, train_x, leans.astype(np.float64))


def analyst(noise: NoisyRows) -> Generator[Any, eh.Answer, None]:
    """Asks how often every feature agrees with the label, and every so often how accurate the vote of the features is.

    Every feature joins the vote unless its answer contradicts the training rows, as in Freedman's paradox.
    """
    votes = np.zeros(FEATURES, dtype=np.float32)
    for j in range(FEATURES):
        answer = yield lambda rows, j=j: rows["x"][:, j] == rows["y"]
        lean = answer.value - 0.5
        if lean * noise.leans[j] >= 0.0:
            votes[j] = lean + noise.leans[j]
        if (j + 1) % CHECK_EVERY == 0 and votes.any():
            now, used = votes.copy(), np.flatnonzero(votes)
            yield lambda rows, now=now, used=used: (rows["x"][:, used] @ now[used] > 0) == (rows["y"] > 0)


def run(noise: NoisyRows, ask: Callable[[object], eh.Answer], tick: Callable[[], None]) -> Trace:
    """Run the analyst and record every model check."""
    trace, program = Trace(), analyst(noise)
    question = next(program)
    number = 0
    try:
        while True:
            answer = ask(question)
            number += 1
            tick()
            if question.__defaults__ and isinstance(question.__defaults__[0], np.ndarray):
                trace.rounds.append(number)
                trace.answers.append(answer)
            question = program.send(answer)
    except StopIteration:
        return trace


def last_check(noise: NoisyRows, answers: list[eh.Answer]) -> Any:
    """The last model check of a session: the analyst's program, run again on recorded answers."""
    program = analyst(noise)
    question = next(program)
    for answer in answers[:-1]:
        question = program.send(answer)
    return question


def plain_holdout(noise: NoisyRows) -> Callable[[object], eh.Answer]:
    """The common practice: the mean over the holdout rows with the usual 95 % interval, for every question."""
    rows = {"x": noise.x, "y": noise.y}

    def ask(question: Any) -> eh.Answer:
        share = float(np.mean(question(rows)))
        half = 1.96 * (share * (1.0 - share) / ROWS) ** 0.5
        return eh.Answer(share, share - half, share + half, False, 0, 0.0, "share")

    return ask


# the second scene: 1,000 models on one test set ------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """Models on one test set: the plain score and the truth of the best so far, and everhold's winner.

    Attributes:
        scores, truths: of all models, in the order in which they were tried.
        winner: its place.
        score: its accuracy, read.
        fixed: the interval of the winner if all models had been fixed in advance.
    """

    scores: NDArray[np.float64]
    truths: NDArray[np.float64]
    winner: int
    score: eh.Answer
    fixed: tuple[float, float]


def search_models(seed: int) -> Search:
    """Linear models on random features, trained on a few rows; 40 of 200 features matter."""
    rng = np.random.default_rng(seed)
    weights = np.zeros(200)
    weights[:40] = 1.0

    def rows(size: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        x = rng.standard_normal((size, 200), dtype=np.float32)
        return x, x @ weights + 6.0 * rng.standard_normal(size) > 0

    (train_x, train_y), (x, y), (fresh_x, fresh_y) = rows(600), rows(TEST_ROWS), rows(40_000)
    models = np.zeros((200, MODELS), dtype=np.float32)
    for index in range(MODELS):
        used, seen = rng.random(200) < 0.7, rng.random(600) < 0.7
        models[used, index] = (train_x[seen][:, used].T @ (2.0 * train_y[seen] - 1.0)) / seen.sum()
    right, public, fresh = (
        (features @ models > 0) == label[:, None] for features, label in ((x, y), (train_x, train_y), (fresh_x, fresh_y))
    )
    test = eh.Holdout(TEST_ROWS, prior=eh.Reference(600), seed=seed)
    asked = [eh.Values(sample=right[:, index], reference=public[:, index]) for index in range(MODELS)]
    winner = test.best_of(asked).index
    count = int(right[:, winner].sum())
    fixed = binomial_interval(count, count, TEST_ROWS, ln(2.0 * MODELS / 0.05))
    return Search(right.mean(axis=0), fresh.mean(axis=0), winner, test.read(asked[winner]), fixed)


# what is shown --------------------------------------------------------------------------------------------------------


def draw(plain: Trace, read: eh.Answer, search: Search, path: Path) -> None:
    """The figure: what is reported against the truth."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MultipleLocator

    figure = Figure(figsize=(11, 4.6), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    _draw_noise(left, plain, read)
    _draw_search(right, search)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_locator(MultipleLocator(0.02))
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.grid(axis="y", alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _interval(axes: Any, at: float, answer: eh.Answer, text: str, *, above: bool) -> None:
    ends = [[answer.value - answer.low], [answer.high - answer.value]]
    axes.errorbar([at], [answer.value], yerr=ends, color=_OURS, fmt="D", ms=6, lw=3, capsize=6, zorder=5)
    axes.annotate(
        text,
        (at, answer.high if above else answer.low),
        (0, 8 if above else -8),
        textcoords="offset points",
        ha="right",
        va="bottom" if above else "top",
        color=_OURS,
        fontsize=11,
        fontweight="bold",
    )


def _draw_noise(axes: Any, plain: Trace, read: eh.Answer) -> None:
    values = [answer.value for answer in plain.answers]
    end = plain.rounds[-1]
    axes.set_title(f"{FEATURES:,} questions about pure noise", fontsize=12, loc="left")
    axes.axhline(0.5, color=_TRUTH, ls="--", lw=1.4)
    axes.text(plain.rounds[0], 0.503, "truth: 50 %", color=_TRUTH, fontsize=11, va="bottom")
    axes.plot([0, *plain.rounds], [0.5, *values], color=_PLAIN, lw=3)
    axes.annotate(
        f"a plain holdout says {100 * values[-1]:.0f} %",
        (end, values[-1]),
        (0, 8),
        textcoords="offset points",
        ha="right",
        color=_PLAIN,
        fontsize=11,
        fontweight="bold",
    )
    half = 50 * (read.high - read.low)
    _interval(axes, end * 1.02, read, f"everhold says {100 * read.value:.1f} % ± {half:.1f}", above=False)
    axes.set_ylim(0.44, max(values) + 0.03)
    axes.set_xlabel("questions asked, each chosen after the last answer")
    axes.set_ylabel("accuracy of the model")


def _draw_search(axes: Any, search: Search) -> None:
    best = np.maximum.accumulate(search.scores)
    indices = np.array([int(np.argmax(search.scores[: index + 1])) for index in range(len(best))])
    tried = np.arange(1, len(best) + 1)
    axes.set_title(f"the best of {len(best):,} models on {TEST_ROWS:,} test rows", fontsize=12, loc="left")
    axes.plot(tried, best, color=_PLAIN, lw=3)
    axes.plot(tried, search.truths[indices], color=_TRUTH, ls="--", lw=1.4)
    axes.annotate(
        f"its plain test score: {100 * best[-1]:.1f} %",
        (tried[-1] * 0.5, best[-1]),
        (0, 8),
        textcoords="offset points",
        ha="right",
        color=_PLAIN,
        fontsize=11,
        fontweight="bold",
    )
    axes.annotate(
        f"truth: {100 * search.truths[indices[-1]]:.1f} %",
        (tried[-1] * 0.5, search.truths[indices[-1]]),
        (0, -6),
        textcoords="offset points",
        ha="right",
        va="top",
        color=_TRUTH,
        fontsize=11,
    )
    text = f"everhold: {100 * search.score.low:.1f} to {100 * search.score.high:.1f} %"
    _interval(axes, tried[-1] * 1.25, search.score, text, above=False)
    axes.plot([tried[-1] * 1.7] * 2, search.fixed, color="#9ca3af", lw=3, solid_capstyle="butt")
    axes.annotate(
        "if all models had been\nfixed in advance",
        (tried[-1] * 1.7, max(search.fixed[1], search.score.high)),
        (0, 8),
        textcoords="offset points",
        ha="right",
        color="#6b7280",
        fontsize=9,
    )
    axes.set_xscale("log")
    axes.set_ylim(min(search.score.low, search.fixed[0]) - 0.03, max(search.score.high, search.fixed[1]) + 0.03)
    axes.set_xlabel("models tried")
    axes.set_ylabel("accuracy of the best so far")


def main(argv: list[str] | None = None) -> None:
    """Run both scenes, print and draw the results, and replay the first."""
    parser = argparse.ArgumentParser(prog="everhold demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="file for the figure")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args(argv)
    console = Console(highlight=False)
    console.print(
        f"[bold]everhold demo[/bold]. First, {ROWS:,} private rows whose labels are coin flips. An analyst asks about "
        f"{FEATURES:,} features and builds a model from those that look useful. Its accuracy is 50 %, whatever is in it.\n"
    )
    started = time.perf_counter()
    noise = make_noise(given.seed)
    total = FEATURES + FEATURES // CHECK_EVERY
    columns = (TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    holdout = eh.Holdout(
        {"x": noise.x, "y": noise.y},
        prior=eh.Labels({"x": noise.train_x}, classes=np.array([-1, 1], dtype=np.int8)),
        seed=given.seed,
    )
    answers: list[eh.Answer] = []

    def ask(question: object) -> eh.Answer:
        answers.append(holdout.ask(question))
        return answers[-1]

    with Progress(*columns, console=console) as progress:
        traces = []
        for name, way in (("plain holdout", plain_holdout(noise)), ("everhold", ask)):
            task = progress.add_task(name, total=total)
            traces.append(run(noise, way, lambda task=task: progress.advance(task)))  # type: ignore[misc]
            progress.update(task, completed=total)
    again = holdout.replay(lambda: analyst(noise))
    differing = sum(a != b for a, b in zip(answers, again, strict=True))
    read = holdout.read(last_check(noise, answers))

    console.print(f"\nThen the best of {MODELS:,} models on {TEST_ROWS:,} test rows: chosen, and read.")
    search = search_models(given.seed)
    first = int(np.argmax(search.scores))

    table = Table(title="What is said of the last model, and what is true", title_justify="left")
    for heading in ("", "by", "reported", "interval", "truth", ""):
        table.add_column(heading, justify="right" if heading in ("reported", "truth") else "left")
    plain = traces[0].answers[-1]
    half = 1.96 * float(search.scores[first] * (1 - search.scores[first]) / TEST_ROWS) ** 0.5
    score = float(search.scores[first])
    lines = [
        ("noise", "a plain holdout", plain.value, plain.low, plain.high, 0.5),
        ("noise", "everhold, asked", answers[-1].value, answers[-1].low, answers[-1].high, 0.5),
        ("noise", "everhold, read", read.value, read.low, read.high, 0.5),
        (f"best of {MODELS:,}", "a plain holdout", score, score - half, score + half, float(search.truths[first])),
        (
            f"best of {MODELS:,}",
            "everhold, read",
            search.score.value,
            search.score.low,
            search.score.high,
            float(search.truths[search.winner]),
        ),
    ]
    for scene, who, value, low, high, truth in lines:
        verdict = "[green]covers the truth[/green]" if low <= truth <= high else "[red]misses the truth[/red]"
        ends = f"{100 * low:.1f} to {100 * high:.1f} %"
        table.add_row(scene, who, f"{100 * value:.1f} %", ends, f"{100 * truth:.1f} %", verdict)
    console.print(table)
    console.print(
        f"\nReplay from {holdout.surprises} recorded surprises, without the private rows: {len(again):,} answers, "
        f"{differing} differ."
    )
    if differing:
        raise SystemExit(1)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    if find_spec("matplotlib") is None:
        console.print("\nNo figure: matplotlib is not installed. `pip install 'everhold[plot]'` installs it.", markup=False)
    else:
        draw(traces[0], read, search, given.out)
        console.print(f"\nFigure: [bold]{given.out}[/bold]")
    study = given.out.with_name("demo.everhold")
    verb = "Created" if make_demo_study(study) else "Found"
    console.print(f"{verb} a study with 20,000 synthetic patients: [bold]{study}[/bold]. Ask it:")
    console.print(f'  everhold ask {study} "smoker AND age > 60"', markup=False)
    console.print(f"\nDone in {time.perf_counter() - started:.0f} s. Documentation: https://everhold.github.io/everhold/")


if __name__ == "__main__":
    main()
