"""Whether two groups can have a row in common, by their conditions alone: a public fact."""

from __future__ import annotations

from everhold.queries.expression.canonical import canonical, text_of
from everhold.queries.expression.tree import Column, Logic, Node, Number, Test, Text, Truth

__all__ = ["are_disjoint"]


def are_disjoint(first: Node, second: Node) -> bool:
    """Whether no row can be in both groups. False where that is not plain to see.

    >>> from everhold.queries.expression import expression
    >>> kinds = {"city": "text", "age": "number", "smoker": "boolean"}
    >>> pairs = [("city = 'York'", "city = 'Hull' AND smoker"), ("age > 40", "age <= 40"), ("smoker", "NOT smoker"),
    ...          ("smoker", "age > 40"), ("age > 40", "age <= 41")]
    >>> [are_disjoint(*(expression(text, kinds).tree for text in pair)) for pair in pairs]
    [True, True, True, False, False]
    """
    return any(_excludes(a, b) for a in _conditions(first) for b in _conditions(second))


def _conditions(node: Node) -> tuple[Node, ...]:
    """The parts of an AND, all of which are true in the group."""
    node = canonical(node)
    return node.args if isinstance(node, Logic) and node.op == "and" else (node,)


def _excludes(condition: Node, other: Node) -> bool:
    if text_of(Logic("not", (condition,))) == text_of(other):
        return True
    first, second = _allowed(condition), _allowed(other)
    if first is None or second is None or first[0] != second[0]:
        return False
    a, b = first[1], second[1]
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return not a & b
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _apart(a, b) or _apart(b, a)
    return False


Bound = tuple[float | None, bool, float | None, bool]
"""Above a number, or at it too; below a number, or at it too."""


def _allowed(node: Node) -> tuple[str, frozenset[object] | Bound] | None:
    """What a condition says about one column: the values it may have, or between which ends."""
    if not isinstance(node, Test):
        return None
    if node.op in ("=", "in"):
        column, *values = node.args
        if not isinstance(column, Column):
            column, values = node.args[-1], list(node.args[:-1])
        if isinstance(column, Column) and all(isinstance(value, Text | Number | Truth) for value in values):
            return column.name, frozenset(getattr(value, "value", None) for value in values)
        return None
    if node.op in ("<", "<=") and len(node.args) == 2:
        left, right = node.args
        also = node.op == "<="
        if isinstance(left, Column) and isinstance(right, Number):
            return left.name, (None, False, right.value, also)
        if isinstance(right, Column) and isinstance(left, Number):
            return right.name, (left.value, also, None, False)
    return None


def _apart(low: Bound, high: Bound) -> bool:
    """Whether everything below `low`'s upper end is below `high`'s lower end."""
    top, bottom = low[2], high[0]
    if top is None or bottom is None:
        return False
    return top < bottom or (top == bottom and not (low[3] and high[1]))
