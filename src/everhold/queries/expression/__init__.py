"""Questions as text, `age > 40 AND smoker`: parsed, checked and evaluated by everhold alone.

The language and its semantics: docs/reference/expressions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from everhold.queries.expression.canonical import canonical, text_of
from everhold.queries.expression.evaluate import kind_of, yes
from everhold.queries.expression.parser import parse
from everhold.queries.grid import VALUE_ONE, GridValues

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from everhold.queries.expression.tree import Kind, Node
    from everhold.queries.grid import Scale
    from everhold.queries.query import Rows

__all__ = ["Expression", "columns_of", "expression"]


@dataclass(frozen=True, slots=True)
class Expression:
    """A yes/no question as text. Its canonical text is its name: asked again, it returns the recorded answer."""

    tree: Node
    name: str
    repeatable: bool = field(default=True, init=False)

    def on_reference(self, rows: Rows, size: int, *, verify: bool = False) -> GridValues:
        """The rows on which it is true."""
        return GridValues("share", yes(self.tree, rows, size))

    def on_sample(self, rows: Rows, size: int, scale: Scale) -> int:
        """The exact total on private rows; never raises, whatever they hold."""
        return (2 * int(np.count_nonzero(yes(self.tree, rows, size))) - size) * VALUE_ONE


def columns_of(rows: Mapping[str, NDArray[Any]]) -> dict[str, Kind]:
    """The columns that expressions may use, with their kinds."""
    kinds = {name: kind_of(column) for name, column in rows.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def expression(text: str, columns: Mapping[str, Kind]) -> Expression:
    """Parse and check a question against the public columns.

    >>> expression("NOT (smoker AND age<=40)", {"age": "number", "smoker": "boolean"}).name
    '((40.0 < "age") OR (NOT "smoker"))'
    """
    tree = canonical(parse(text, columns))
    return Expression(tree, text_of(tree))
