"""Rows in memory, evaluated by numpy in chunks on several threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from everhold.queries.expression.program import Columns, CompiledBatch, CompiledQuestion
from everhold.queries.grid import STEPS, Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.data.table import RowTable
    from everhold.queries.expression.question import TextQuestion

__all__ = ["MemoryEngine"]


class MemoryEngine:
    """The default engine, over rows in memory.

    Args:
        table: the rows, grouped by unit or not.
        chunk: rows at a time; None: as many as fit the processor's cache.
        threads: the number of threads; None: one for each processor. Neither changes a bit of any answer.
    """

    def __init__(self, table: RowTable, *, chunk: int | None = None, threads: int | None = None) -> None:
        self._table = table
        self.size = table.size
        self._how = {"chunk": chunk, "threads": threads}

    def sums(self, questions: Sequence[TextQuestion]) -> list[Sums]:
        """The sums of the steps of each question and of their squares; a batch computes shared parts once."""
        table, units = self._table, self._table.units
        if units is not None:
            return [Sums.of(units.average(self._row_steps(question))) for question in questions]
        columns = Columns(table)
        if len(questions) == 1:
            return [CompiledQuestion(questions[0], columns).sums(table.row_count, **self._how)]
        return CompiledBatch(questions, columns).sums(table.row_count, **self._how)

    def steps(self, question: TextQuestion) -> NDArray[np.float64]:
        """The steps of each row, or of each unit."""
        steps = self._row_steps(question)
        return steps if self._table.units is None else self._table.units.average(steps)

    def _row_steps(self, question: TextQuestion) -> NDArray[np.float64]:
        program = CompiledQuestion(question, Columns(self._table))
        values = program.values(self._table.row_count, **self._how)
        return values * float(STEPS) if question.yes_no else values
