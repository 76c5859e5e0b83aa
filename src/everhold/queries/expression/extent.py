"""How large and how small a number can become on any row, by the shape of its expression alone.

A product of many columns could exceed the largest double, or fall below the smallest normal one, where some engines round,
some give 0 and some fail. Such an expression is rejected before it is asked, so that all engines agree on every row.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from everhold.queries.expression.tree import Call, Case, Node, Number
from everhold.queries.expression.values import LARGEST, SMALLEST

__all__ = ["LEAST", "MOST", "Extent", "extent", "out_of_range"]

MOST, LEAST = 1e280, 1e-280
"""Within these limits, the operations that everhold adds (a shift by an end of the range, a division by its length) stay
within the normal doubles, 2.3e-308 to 1.7e308."""
_ULP = 2.0**-53


class Extent(NamedTuple):
    """The absolute values that a number can have.

    Attributes:
        least: the smallest one other than 0; inf if the number is always 0.
        grid: every value is a multiple of some power of two that is at least this; a sum can cancel down to it.
        most: the largest one.
    """

    least: float
    grid: float
    most: float


def _rounded(least: float, most: float) -> Extent:
    """The extent of a result between `least` and `most`, as a double: a multiple of its last place."""
    return Extent(least, least * _ULP, most)


def extent(node: Node) -> Extent:
    """The absolute values that a node's number can have.

    >>> from everhold.queries.expression.tree import Column
    >>> x = Column("x", "number")
    >>> found = extent(Call("*", (x, x), "number"))
    >>> f"{found.least:.0e} {found.most:.0e}"
    '1e-60 1e+30'
    """
    if isinstance(node, Number):
        return Extent(inf, inf, 0.0) if node.value == 0.0 else _rounded(abs(node.value), abs(node.value))
    if isinstance(node, Case):
        return _any_of([extent(value) for _, value in node.branches] + [extent(node.otherwise)])
    if not isinstance(node, Call) or not node.args or node.args[0].kind != "number":
        return _rounded(SMALLEST, LARGEST)  # columns; parts of dates and lengths of texts are well within these limits
    sizes = [extent(arg) for arg in node.args]
    x, y = sizes[0], sizes[-1]
    if node.name in ("+", "-"):
        grid = min(x.grid, y.grid)
        return Extent(grid, grid, x.most + y.most)
    if node.name == "*":
        return _rounded(inf if inf in (x.least, y.least) else x.least * y.least, x.most * y.most)
    if node.name in ("/", "%"):  # a divisor smaller than SMALLEST gives a missing value
        most = x.most / max(SMALLEST, min(y.least, LARGEST))
        quotient = _rounded(inf if x.least == inf or y.most == 0.0 else x.least / y.most, most)
        if node.name == "/":
            return quotient
        grid = min(x.grid, y.grid * _ULP, quotient.least)  # x - y * trunc(x / y)
        return Extent(grid, grid, 2.0 * max(quotient.most * max(y.most, 1.0), x.most))
    if node.name == "exp":
        return _rounded(1e-38, 1e35)
    if node.name == "ln":
        return _rounded(1e-17, 1e3)
    if node.name == "sqrt":
        return _rounded(x.least**0.5, x.most**0.5)
    if node.name in ("floor", "ceil", "round"):
        return _rounded(1.0, x.most + 1.0)
    return _any_of(sizes)  # neg, abs, least, greatest, coalesce


def out_of_range(node: Node) -> str | None:
    """A message if a number could become too large or too small, otherwise None.

    >>> from everhold.queries.expression.tree import Column
    >>> node = Column("x", "number")
    >>> for _ in range(9):
    ...     node = Call("*", (node, Column("x", "number")), "number")
    >>> out_of_range(node)
    'this could become smaller than 1e-280 without being 0 on some row. Expected larger numbers or fewer products.'
    """
    least, _, most = extent(node)
    if not most <= MOST:
        return f"this could become larger than {MOST:g} on some row. Expected smaller numbers or fewer products."
    if not least >= LEAST:
        return (
            f"this could become smaller than {LEAST:g} without being 0 on some row. "
            "Expected larger numbers or fewer products."
        )
    return None


def _any_of(sizes: list[Extent]) -> Extent:
    return Extent(min(size.least for size in sizes), min(size.grid for size in sizes), max(size.most for size in sizes))
