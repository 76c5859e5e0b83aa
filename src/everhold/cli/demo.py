"""The demo: thousands of adaptive questions on pure noise, then on real signal, then a replay without the data.

Run it with `make demo` or `python -m everhold.cli.demo`. It writes its figure to `out/demo.png`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import everhold as eh
from everhold.cli.demo_study import make_demo_study

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ImportError as error:
    raise eh.MissingExtra("the demo (a progress bar and a figure)", "demo") from error

ROWS, FEATURES, CHECK_EVERY = 10_000, 2_000, 200
SIGNALS = (40, 130, 300, 520, 760, 1010, 1300, 1600)


@dataclass
class Trace:
    """The reported and the true accuracy at each model check of an analyst."""

    rounds: list[int] = field(default_factory=list)
    reported: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    truth: list[float] = field(default_factory=list)
    spent: list[tuple[int, float]] = field(default_factory=list)
    surprises: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Scene:
    """Private rows, the analyst's own training rows, and the truth about a voting model."""

    name: str
    x: NDArray[np.int8]
    y: NDArray[np.int8]
    train_x: NDArray[np.int8]
    leans: NDArray[np.float64]
    """How often each feature agrees with the label among the training rows, minus one half."""
    fresh: NDArray[np.int8]
    fresh_y: NDArray[np.int8]

    def accuracy(self, votes: NDArray[np.float32]) -> float:
        """Population accuracy of sign(x·votes): one half for noise, otherwise from 40,000 fresh rows."""
        if self.name == "noise":
            return 0.5
        used = np.flatnonzero(votes)
        scores = self.fresh[:, used].astype(np.float32) @ votes[used]
        return float(np.mean((scores > 0) == (self.fresh_y > 0)))


def _coins(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.int8]:
    bits = np.frombuffer(rng.bytes(rows * columns), np.int8).reshape(rows, columns)
    return (bits & np.int8(1)) * np.int8(2) - np.int8(1)


def make_scene(name: str, seed: int) -> Scene:
    """Coin-flip features; labels are coin flips too ("noise"), or depend on eight of the features ("signal")."""
    rng = np.random.default_rng(seed)

    def rows(size: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        x = _coins(rng, size, FEATURES)
        if name == "noise":
            return x, _coins(rng, size, 1)[:, 0]
        score = x[:, list(SIGNALS)].sum(axis=1) + 2.0 * rng.standard_normal(size)
        return x, np.where(score > 0, 1, -1).astype(np.int8)

    (x, y), (train_x, train_y) = rows(ROWS), rows(ROWS)
    fresh, fresh_y = rows(40_000 if name == "signal" else 1)
    leans = 0.5 * (train_x.T.astype(np.float32) @ train_y.astype(np.float32)) / ROWS
    return Scene(name, x, y, train_x, leans.astype(np.float64), fresh, fresh_y)


def analyst(scene: Scene) -> Generator[Any, eh.Answer, None]:
    """Asks how often every feature agrees with the label, and every hundred questions how accurate the vote is.

    On noise, every feature joins the vote unless its answer contradicts the training rows, as in Freedman's paradox; on
    signal, only features whose interval excludes one half.
    """
    votes = np.zeros(FEATURES, dtype=np.float32)
    for j in range(FEATURES):
        answer = yield lambda rows, j=j: rows["x"][:, j] == rows["y"]
        lean = answer.value - 0.5
        believed = 0.5 not in answer.interval if scene.name == "signal" else lean * scene.leans[j] >= 0.0
        if believed:
            votes[j] = lean + scene.leans[j]
        if (j + 1) % CHECK_EVERY == 0 and votes.any():
            now, used = votes.copy(), np.flatnonzero(votes)
            yield lambda rows, now=now, used=used: (rows["x"][:, used] @ now[used] > 0) == (rows["y"] > 0)


def run(scene: Scene, ask: Callable[[object], eh.Answer], tick: Callable[[], None]) -> Trace:
    """Run the analyst and record every model check."""
    trace, program = Trace(), analyst(scene)
    question = next(program)
    number = 0
    try:
        while True:
            answer = ask(question)
            number += 1
            tick()
            trace.spent.append((number, answer.spent))
            now = question.__defaults__[0] if question.__defaults__ else None
            if answer.surprise:
                trace.surprises.append((number, answer.value))
            if isinstance(now, np.ndarray):
                trace.rounds.append(number)
                trace.reported.append(answer.value)
                trace.low.append(answer.low)
                trace.high.append(answer.high)
                trace.truth.append(scene.accuracy(now))
            question = program.send(answer)
    except StopIteration:
        return trace


def last_check(scene: Scene, answers: list[eh.Answer]) -> Any:
    """The last model check of a session: the analyst's program, run again on recorded answers."""
    program = analyst(scene)
    question = next(program)
    for answer in answers[:-1]:
        question = program.send(answer)
    return question


def plain_holdout(scene: Scene) -> Callable[[object], eh.Answer]:
    """The common practice: the mean over the holdout rows with the usual 95 % interval, for every question."""
    rows = {"x": scene.x, "y": scene.y}

    def ask(question: Any) -> eh.Answer:
        share = float(np.mean(question(rows)))
        half = 1.96 * (share * (1.0 - share) / ROWS) ** 0.5
        return eh.Answer(share, share - half, share + half, False, 0, 0.0, "share")

    return ask


def draw(traces: dict[str, tuple[Trace, Trace]], readings: dict[str, eh.Answer], path: Path) -> None:
    """The figure: model checks against the truth, the last model read, and the price, for noise and for signal."""
    figure = Figure(figsize=(11, 6.2), layout="constrained", facecolor="white")
    axes: Any = figure.subplots(2, 2, sharex="col", sharey="row", height_ratios=[3, 1])
    dearest = 1.05 * max(price for _, held in traces.values() for _, price in held.spent)
    for column, (name, (plain, held)) in enumerate(traces.items()):
        top, bottom = axes[0][column], axes[1][column]
        top.plot(plain.rounds, plain.reported, color="#b45309", lw=2, label="plain holdout: reported")
        top.plot(plain.rounds, plain.truth, color="#b45309", ls="--", lw=1.4, label="plain holdout: truth of that model")
        middle = np.array(held.reported)
        top.errorbar(
            held.rounds,
            middle,
            yerr=[middle - np.array(held.low), np.array(held.high) - middle],
            color="#1d4ed8",
            fmt="o",
            ms=4,
            lw=1.2,
            capsize=2,
            label="everhold: answer and interval",
        )
        top.plot(held.rounds, held.truth, color="black", lw=1.4, label="everhold: truth of that model")
        read, at = readings[name], 1.03 * held.rounds[-1]
        top.errorbar(
            [at],
            [read.value],
            yerr=[[read.value - read.low], [read.high - read.value]],
            color="#15803d",
            fmt="D",
            ms=5,
            lw=2.2,
            capsize=4,
            label="everhold: the last model, read",
        )
        marks = np.array(held.surprises)
        if len(marks):
            top.plot(marks[:, 0], marks[:, 1], "x", color="#dc2626", ms=6, mew=1.8, label="surprises, at the answer")
        top.set_ylim(0.35, 1.0)
        titles = {
            "noise": "Labels are pure noise: the truth is 50 %",
            "signal": f"{len(SIGNALS)} of {FEATURES:,} features matter",
        }
        top.set_title(titles[name], fontsize=11)
        top.grid(alpha=0.25)
        price = np.array(held.spent)
        bottom.step(price[:, 0], price[:, 1], color="#1d4ed8", lw=1.6, where="post")
        bottom.set_ylim(0, dearest)
        bottom.set_xlabel("questions asked")
        bottom.grid(alpha=0.25)
    axes[0][0].set_ylabel("accuracy of the model so far\n(crosses: single features)")
    axes[1][0].set_ylabel("price paid (nats)")
    axes[0][0].legend(fontsize=8, loc="upper left")
    axes[0][1].legend(fontsize=8, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> None:
    """Run both scenes, print and draw the results, and replay them."""
    parser = argparse.ArgumentParser(prog="everhold demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="file for the figure")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args(argv)
    console = Console(highlight=False)
    console.print(
        f"[bold]everhold demo[/bold]: {ROWS:,} private rows, {FEATURES:,} features, an analyst who asks about each of them "
        "and builds a model from the answers. On noise it keeps every feature that the answers do not contradict, as people "
        "do; on signal only those whose interval excludes one half.\n"
    )
    started = time.perf_counter()
    traces: dict[str, tuple[Trace, Trace]] = {}
    scenes: dict[str, Scene] = {}
    holdouts: dict[str, tuple[eh.Holdout, list[eh.Answer]]] = {}
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for name in ("noise", "signal"):
            scene = make_scene(name, given.seed)
            scenes[name] = scene
            total = FEATURES + FEATURES // CHECK_EVERY
            task = progress.add_task(f"{name}: plain holdout", total=total)
            plain = run(scene, plain_holdout(scene), lambda task=task: progress.advance(task))  # type: ignore[misc]
            progress.update(task, completed=total)
            holdout = eh.Holdout(
                {"x": scene.x, "y": scene.y},
                prior=eh.Labels({"x": scene.train_x}, classes=np.array([-1, 1], dtype=np.int8)),
                seed=given.seed,
            )
            task = progress.add_task(f"{name}: everhold", total=total)
            answers: list[eh.Answer] = []

            def ask(question: object, holdout: eh.Holdout = holdout, answers: list[eh.Answer] = answers) -> eh.Answer:
                answers.append(holdout.ask(question))
                return answers[-1]

            held = run(scene, ask, lambda task=task: progress.advance(task))  # type: ignore[misc]
            progress.update(task, completed=total)
            traces[name] = plain, held
            holdouts[name] = holdout, answers

    table = Table(title="The last model check of each session", title_justify="left")
    for heading in ("labels", "asked through", "reported", "interval", "truth", ""):
        table.add_column(heading, justify="right" if heading in ("reported", "truth") else "left")
    for name, (plain, held) in traces.items():
        for who, trace in (("plain holdout", plain), ("everhold", held)):
            inside = trace.low[-1] <= trace.truth[-1] <= trace.high[-1]
            verdict = "[green]covers the truth[/green]" if inside else "[red]misses the truth[/red]"
            table.add_row(
                name,
                who,
                f"{100 * trace.reported[-1]:.1f} %",
                f"{100 * trace.low[-1]:.1f} to {100 * trace.high[-1]:.1f} %",
                f"{100 * trace.truth[-1]:.1f} %",
                verdict,
            )
    console.print(table)

    console.print("\nReplaying both sessions without the private rows …")
    for name, (holdout, answers) in holdouts.items():
        again = holdout.replay(lambda name=name: analyst(scenes[name]))  # type: ignore[misc]
        differing = sum(a != b for a, b in zip(answers, again, strict=True))
        console.print(
            f"Replay of {name}, from {holdout.surprises} recorded surprises and without the private rows: {len(again):,} "
            f"answers, {differing} differ."
        )
        if differing:
            raise SystemExit(1)

    console.print("\nReading the last model of each session: the private rows' own value, with a narrow interval.")
    readings: dict[str, eh.Answer] = {}
    for name, (holdout, answers) in holdouts.items():
        read, truth = holdout.read(last_check(scenes[name], answers)), traces[name][1].truth[-1]
        readings[name] = read
        verdict = "[green]covers the truth[/green]" if truth in read.interval else "[red]misses the truth[/red]"
        console.print(
            f"  {name}: {100 * read.value:.1f} % in {100 * read.low:.1f} to {100 * read.high:.1f} % (asked: "
            f"{100 * answers[-1].low:.1f} to {100 * answers[-1].high:.1f} %), truth {100 * truth:.1f} %, {verdict}"
        )
    draw(traces, readings, given.out)
    console.print(f"\nFigure: [bold]{given.out}[/bold]")
    study = given.out.with_name("demo.everhold")
    made = "Created" if make_demo_study(study) else "Found"
    console.print(
        f"{made} a study to ask: [bold]{study}[/bold], 20,000 synthetic patients. `make serve` shows it on a page."
    )
    console.print(f"\nDone in {time.perf_counter() - started:.0f} s. Next: the README's examples, and docs/howto/acts.md.")


if __name__ == "__main__":
    main()
