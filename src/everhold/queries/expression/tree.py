"""The typed tree of a question: a few frozen kinds of node, and nothing else can be evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Call",
    "Case",
    "Column",
    "Kind",
    "Logic",
    "Node",
    "Null",
    "Number",
    "Test",
    "Text",
    "Truth",
    "operands",
    "size_of",
]

Kind = Literal["number", "boolean", "text", "date"]
"""The kind of a node's value; 'date' covers dates and times, stored as microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    name: str
    kind: Kind
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, or a date as microseconds."""

    value: float
    kind: Kind = "number"
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Text:
    """A text literal."""

    value: str
    kind: Kind = "text"
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE or FALSE."""

    value: bool
    kind: Kind = "boolean"
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Null:
    """A missing value; it takes its kind from the other operand."""

    kind: Kind = "number"
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Call:
    """An operation or function that returns a value: arithmetic, `abs`, `lower`, `year` …."""

    name: str
    args: tuple[Node, ...]
    kind: Kind
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Test:
    """A yes/no test of values: '<', '<=', '=', 'in', 'like', 'null'."""

    __test__ = False  # keeps pytest from collecting it

    op: Literal["<", "<=", "=", "in", "like", "null"]
    args: tuple[Node, ...]
    kind: Kind = "boolean"
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Logic:
    """AND, OR, NOT."""

    op: Literal["and", "or", "not"]
    args: tuple[Node, ...]
    kind: Kind = "boolean"
    at: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class Case:
    """CASE: pairs of condition and value, and a last value."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node
    kind: Kind
    at: int = field(compare=False, default=0)


Node = Column | Number | Text | Truth | Null | Call | Test | Logic | Case


def operands(node: Node) -> tuple[Node, ...]:
    """The operands of a node."""
    if isinstance(node, Case):
        return (*(part for branch in node.branches for part in branch), node.otherwise)
    return node.args if isinstance(node, Call | Test | Logic) else ()


def size_of(node: Node) -> int:
    """The number of nodes of a tree.

    >>> size_of(Test("<", (Column("x", "number"), Number(1.0))))
    3
    """
    return 1 + sum(size_of(operand) for operand in operands(node))
