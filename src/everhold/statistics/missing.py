"""Whether an expression can be without a value, by its shape and the declared columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.queries.expression.tree import Call, Case, Column, Logic, Node, Null, Number, Test
from everhold.queries.expression.values import SMALLEST

if TYPE_CHECKING:
    from everhold.data.schema import Schema

__all__ = ["can_be_missing"]


def can_be_missing(node: Node, schema: Schema) -> bool:
    """Whether an expression could be missing on a row that follows the schema.

    >>> from everhold.data.schema import Schema
    >>> from everhold.queries.expression import number
    >>> schema = Schema.propose({"age": [1.0, 2.0], "bmi": [20.0, 30.0]}).revised("age", missing=False)
    >>> [can_be_missing(number(text, schema.kinds), schema) for text in ("age / 2", "2 / age", "bmi", "coalesce(bmi, 25)")]
    [False, True, True, False]
    """
    if isinstance(node, Null):
        return True
    if isinstance(node, Column):
        return schema[node.name].missing
    if isinstance(node, Case):
        return any(can_be_missing(part, schema) for part in (*(value for _, value in node.branches), node.otherwise))
    if isinstance(node, Test) and node.op == "null":
        return False
    if isinstance(node, Call):
        if node.name == "coalesce":
            return all(can_be_missing(arg, schema) for arg in node.args)
        if node.name in ("/", "%"):
            divisor = node.args[1]
            if not (isinstance(divisor, Number) and abs(divisor.value) >= SMALLEST):
                return True
        elif node.name in ("ln", "sqrt", "exp"):
            return True
    if isinstance(node, Call | Test | Logic):
        return any(can_be_missing(arg, schema) for arg in node.args)
    return False
