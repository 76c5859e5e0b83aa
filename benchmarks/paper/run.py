"""Tasks, kept results, and a bar: what lets a run of an hour be stopped and gone on with."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from everhold.games import load

Row = dict[str, Any]

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Task:
    """A piece of work that gives rows: a function of its arguments alone.

    Attributes:
        section: whose table the rows belong to.
        work: a top-level function.
        arguments: what it is called with; they make the task what it is.
        alone: it measures time, so nothing else may run beside it.
    """

    section: str
    work: Callable[..., list[Row]]
    arguments: tuple[Any, ...]
    alone: bool = False

    def key(self, code: str) -> str:
        """A name for its result: changes with the arguments and with the code."""
        words = json.dumps([code, self.section, self.work.__name__, self.arguments], default=str)
        return f"{self.section}-{hashlib.sha256(words.encode()).hexdigest()[:20]}"


def code_digest(also: Sequence[Path] = ()) -> str:
    """SHA-256 over the code and libraries that results depend on: a changed line makes every kept result a stranger."""
    digest = hashlib.sha256(f"{sys.version} numpy {np.__version__} scipy {scipy.__version__}".encode())
    files = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py")), *also]
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _begin(also: tuple[str, ...]) -> None:
    threadpool_limits(1)  # threads of two processes on two cores would wait for each other: six times slower
    for path in also:
        load(path)


def _work(task: Task) -> list[Row]:
    return task.work(*task.arguments)


def run(
    tasks: list[Task], folder: Path, *, jobs: int, also: Sequence[Path] = (), code: str | None = None
) -> dict[str, list[Row]]:
    """Rows by section. Results are kept as they come; what is kept from the same code is not done again."""
    folder.mkdir(parents=True, exist_ok=True)
    code, done = code or code_digest(also), {}
    waiting: list[tuple[Task, Path]] = []
    failed: list[tuple[Task, Exception]] = []
    for task in tasks:
        place = folder / f"{task.key(code)}.json"
        if place.exists():
            done[task] = json.loads(place.read_text())
        else:
            waiting.append((task, place))
    if done:
        print(f"{len(done)} of {len(tasks)} tasks are there from a run of the same code")
    with _bar(len(waiting)) as advance:
        for task, rows, place in _all(waiting, jobs, tuple(str(path) for path in also)):
            if isinstance(rows, Exception):
                failed.append((task, rows))
                continue
            partial = place.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(rows))
            partial.replace(place)
            done[task] = rows
            advance(f"{task.section}: {' '.join(str(a) for a in task.arguments)}"[:70])
    if failed:
        task, error = failed[0]
        raise RuntimeError(
            f"{len(failed)} of {len(tasks)} tasks failed; the others are kept. The first was {task.section}, "
            f"{task.arguments}: "
            f"{type(error).__name__}: {error}"
        ) from error
    sections: dict[str, list[Row]] = {}
    for task in tasks:
        sections.setdefault(task.section, []).extend(done[task])
    return sections


def _result(work: Callable[[], list[Row]]) -> list[Row] | Exception:
    try:
        return work()
    except Exception as error:
        return error


def _all(
    waiting: list[tuple[Task, Path]], jobs: int, also: tuple[str, ...]
) -> Iterator[tuple[Task, list[Row] | Exception, Path]]:
    together = [one for one in waiting if not one[0].alone]
    if jobs > 1 and len(together) > 1:
        with ProcessPoolExecutor(jobs, initializer=_begin, initargs=(also,)) as pool:
            futures: dict[Future[list[Row]], tuple[Task, Path]] = {
                pool.submit(_work, task): (task, place) for task, place in together
            }
            try:
                for future in as_completed(futures):
                    task, place = futures[future]
                    yield task, _result(future.result), place
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        waiting = [one for one in waiting if one[0].alone]
    _begin(also)
    for task, place in waiting:
        yield task, _result(lambda task=task: _work(task)), place  # type: ignore[misc]


@contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar where somebody looks, a line a task elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task("", total=total)
            yield lambda what: progress.update(bar, advance=1, description=what)
    else:
        count, started = 0, time.perf_counter()

        def advance(what: str) -> None:
            nonlocal count
            count += 1
            print(f"  {count}/{total}  {time.perf_counter() - started:5.0f} s  {what}", flush=True)

        yield advance
