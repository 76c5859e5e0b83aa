"""Evaluate questions over a table, in chunks that stay in the processor's cache and on several threads if that is faster.

Every question gives each row a whole number of *steps* from 0 to STEPS: a yes/no question 0 or STEPS, a bounded mean its
position between the ends of its range. Their sums, and the sums of their squares, are exact for any chunks, threads or
order of rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everhold.queries.expression.columns import EncodedColumn, encode
from everhold.queries.expression.evaluate import Chunk, Compiler
from everhold.queries.expression.tree import Logic, Node
from everhold.queries.grid import STEPS, Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.expression.question import TextQuestion

__all__ = ["Columns", "CompiledBatch", "CompiledQuestion", "TooSlow"]


# Measured (docs/benchmarks.md): chunks of 32,768 rows fit the cache. Threads have to pass Python's lock around, which pays
# off only with chunks larger than the cache, and from two million rows on.
_CHUNK, _THREADED_CHUNK = 32_768, 262_144  # multiples of 8
_THREADED = 2_000_000

T = TypeVar("T")
_workers: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _workers
    if _workers is None:
        _workers = ThreadPoolExecutor(max_workers=_threads(), thread_name_prefix="everhold")
    return _workers


def _forget() -> None:
    global _workers
    _workers = None  # threads do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _threads() -> int:
    return min(os.cpu_count() or 1, 8)


class TooSlow(Exception):
    """Evaluation on public rows passed its deadline."""


def _over_chunks(
    size: int,
    work: Callable[[Chunk], T],
    *,
    chunk: int | None = None,
    threads: int | None = None,
    until: float | None = None,
) -> list[T]:
    """Run `work` on every chunk, in row order. `until` is a deadline on the monotonic clock, for public rows only."""
    count = threads or (1 if size < _THREADED else _threads())
    chunk = chunk or (_CHUNK if count < 2 else _THREADED_CHUNK)
    starts = range(0, size, chunk)

    def at(start: int) -> T:
        if until is not None and time.monotonic() > until:
            raise TooSlow
        with np.errstate(all="ignore"):
            return work(Chunk(start, min(start + chunk, size)))

    if count < 2:
        return [at(start) for start in starts]
    return list(_pool().map(at, starts))


class CompiledQuestion:
    """One question, compiled for the columns of one table."""

    def __init__(self, question: TextQuestion, columns: Mapping[str, EncodedColumn]) -> None:
        compiler = Compiler(columns)
        self.yes_no = question.yes_no
        self._run = _rows_of(question, compiler)

    def values(self, size: int, *, chunk: int | None = None, threads: int | None = None) -> NDArray[Any]:
        """The value on every row: booleans for a yes/no question, otherwise steps."""
        parts = _over_chunks(size, self._run, chunk=chunk, threads=threads)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def sums(self, size: int, *, chunk: int | None = None, threads: int | None = None) -> Sums:
        """The exact sums of the steps and of their squares."""
        if self.yes_no:
            counts = _over_chunks(size, lambda c: int(np.count_nonzero(self._run(c))), chunk=chunk, threads=threads)
            return _of_yes(sum(counts))
        by_chunk = _over_chunks(size, lambda c: Sums.of(self._run(c)), chunk=chunk, threads=threads)
        return _over_all(by_chunk)


def _of_yes(count: int) -> Sums:
    """The sums of a yes/no question: STEPS on each of `count` rows, 0 elsewhere."""
    return Sums(STEPS * count, STEPS**2 * count)


def _over_all(parts: Sequence[tuple[int, int]]) -> Sums:
    return Sums(sum(first for first, _ in parts), sum(second for _, second in parts))


def _rows_of(question: TextQuestion, compiler: Compiler) -> Callable[[Chunk], NDArray[Any]]:
    if question.yes_no:
        return compiler.truth(question.tree)
    number = compiler.number(question.tree)
    group = None if question.given is None else compiler.truth(question.given)
    low, span = question.low, question.high - question.low
    reverse = question.reverse

    def steps(chunk: Chunk) -> NDArray[np.float64]:
        x = (number(chunk) - low) / span
        y = np.rint(np.minimum(np.maximum(x, 0.0), 1.0) * STEPS)
        if reverse:
            y = STEPS - y
        y = np.fmax(y, 0.0)  # a missing number has 0 steps
        if group is not None:
            y = y * group(chunk)
        return y if y.ndim else np.full(chunk.size, float(y))

    return steps


class CompiledBatch:
    """Many questions in one scan; parts that they share are computed once.

    Yes/no parts are packed bits, eight rows per byte, so ANDs and ORs of cached parts cost an eighth.
    """

    def __init__(self, questions: Sequence[TextQuestion], columns: Mapping[str, EncodedColumn]) -> None:
        self._compiler = Compiler(columns, share=True)
        self._slots: dict[Node, Callable[[Chunk], NDArray[np.uint8]]] = {}
        self._questions = questions
        self._runs: list[Callable[[Chunk], NDArray[Any]]] = [
            self._packed(question.tree) if question.yes_no else _rows_of(question, self._compiler) for question in questions
        ]

    def sums(self, size: int, *, chunk: int | None = None, threads: int | None = None) -> list[Sums]:
        """The exact sums of the steps of every question and of their squares."""
        yes_no = [question.yes_no for question in self._questions]

        def work(part: Chunk) -> list[tuple[int, int]]:  # of a yes/no question the count alone
            return [
                (_count(run(part)), 0) if packed else Sums.of(run(part))
                for run, packed in zip(self._runs, yes_no, strict=True)
            ]

        by_chunk = _over_chunks(size, work, chunk=chunk, threads=threads)
        sums = [_over_all(parts) for parts in zip(*by_chunk, strict=True)]
        return [_of_yes(total.first) if packed else total for total, packed in zip(sums, yes_no, strict=True)]

    def values(self, size: int, *, until: float | None = None) -> list[NDArray[Any]]:
        """The values of every question: packed bits for yes/no questions, otherwise steps.

        Raises:
            TooSlow: the deadline `until` has passed.
        """
        by_chunk = _over_chunks(size, lambda part: [run(part) for run in self._runs], until=until)
        return [np.concatenate(parts) for parts in zip(*by_chunk, strict=True)]

    def _packed(self, node: Node) -> Callable[[Chunk], NDArray[np.uint8]]:
        if node in self._slots:
            return self._slots[node]
        slot = -1 - len(self._slots)
        if isinstance(node, Logic) and node.op != "not":
            join = np.bitwise_and if node.op == "and" else np.bitwise_or
            first, second, *rest = [self._packed(part) for part in node.args]

            def run(chunk: Chunk) -> NDArray[np.uint8]:
                result: NDArray[np.uint8] = join(first(chunk), second(chunk))
                for part in rest:
                    join(result, part(chunk), out=result)
                return result

            self._slots[node] = run  # combining bits again is cheaper than storing every conjunction
            return run
        truth = self._compiler.truth(node)

        def atom(chunk: Chunk) -> NDArray[np.uint8]:
            if slot not in chunk.memo:
                chunk.memo[slot] = np.packbits(truth(chunk))
            bits: NDArray[np.uint8] = chunk.memo[slot]
            return bits

        self._slots[node] = atom
        return atom


_ONES = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.uint8)


def _count(bits: NDArray[np.uint8]) -> int:
    """How many bits are set."""
    if hasattr(np, "bitwise_count"):
        return int(np.bitwise_count(bits).sum())
    return int(_ONES[bits].sum())


class Columns(dict[str, "EncodedColumn"]):
    """The canonical columns of a `Table` or of plain arrays; each is encoded when first used."""

    def __init__(self, rows: Mapping[str, NDArray[Any]]) -> None:
        super().__init__()
        self._rows = rows
        self._column: Callable[[str], EncodedColumn] | None = getattr(rows, "column", None)

    def __missing__(self, name: str) -> EncodedColumn:
        self[name] = encode(self._rows[name]) if self._column is None else self._column(name)
        return self[name]
