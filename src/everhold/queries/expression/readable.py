"""Canonical text as people write it: `age > 65` for `(65.0 < "age")`. It parses to the same question."""

from __future__ import annotations

import re
from typing import NamedTuple

from everhold.queries.expression.lexer import KEYWORDS

__all__ = ["readable"]

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\W\d]\w*|-?\d+\.?\d*(?:[eE][+-]?\d+)?|<=|[^\s\w]""")
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_WHOLE = re.compile(r"-?\d+\.0")
_MIRRORED = {"<": ">", "<=": ">=", "=": "="}


class _Group(NamedTuple):
    """What stands between a pair of parentheses."""

    items: tuple[str | _Group, ...]
    called: bool

    @property
    def joins(self) -> str:
        """AND or OR, where it is a chain of them."""
        words = {item for item in self.items if item in ("AND", "OR")}
        return words.pop() if len(words) == 1 and "CASE" not in self.items else ""

    @property
    def tests(self) -> bool:
        """Whether it is one comparison, or an IN or IS NULL."""
        return not self.called and not self.joins and any(item in ("<", "<=", "=", "IN", "IS") for item in self.items)


def readable(text: str) -> str:
    """The same question with fewer quotes and parentheses, whole numbers as such, and the column first.

    >>> readable('((65.0 < "age") AND ("city" = \\'York\\'))')
    "age > 65 AND city = 'York'"
    >>> readable('(("smoker" AND (1.5 <= "bmi")) OR (NOT "first name"))')
    '(smoker AND bmi >= 1.5) OR NOT "first name"'
    >>> readable('DIFFERENCE OF "smoker" GIVEN ("city" = \\'York\\') AND ("city" = \\'Hull\\')')
    "DIFFERENCE OF smoker GIVEN (city = 'York') AND (city = 'Hull')"
    """
    read = _read(text)
    if read is None:
        return text
    if len(read) == 1 and isinstance(read[0], _Group):
        return _inside(read[0])
    return _spaced([_shown(item) for item in read])


def _read(text: str) -> tuple[str | _Group, ...] | None:
    """Tokens in groups; None where parentheses do not match, which is not canonical text."""
    groups: list[list[str | _Group]] = [[]]
    calls: list[bool] = []
    for token in _TOKEN.findall(text):
        if token == "(":
            before = groups[-1][-1] if groups[-1] else ""
            calls.append(isinstance(before, str) and bool(_PLAIN_NAME.fullmatch(before)) and before not in _NO_CALL)
            groups.append([])
        elif token == ")":
            if len(groups) == 1:
                return None
            inner = _Group(tuple(groups.pop()), calls.pop())
            groups[-1].append(inner)
        else:
            groups[-1].append(token)
    return tuple(groups[0]) if len(groups) == 1 else None


_NO_CALL = KEYWORDS | {"OF", "GIVEN"}


def _shown(item: str | _Group) -> str:
    """A token, or a group with its parentheses."""
    if isinstance(item, _Group):
        return f"({_inside(item)})"
    if item.startswith('"') and _PLAIN_NAME.fullmatch(name := item[1:-1]) and name.upper() not in KEYWORDS:
        return name
    return item.removesuffix(".0") if _WHOLE.fullmatch(item) else item


def _inside(group: _Group) -> str:
    """A group without its parentheses."""
    items = group.items
    if group.joins:
        return _spaced([_operand(item) for item in items])
    if items and items[0] == "NOT":
        return _spaced(["NOT", *(_shown(item) for item in items[1:])])
    if len(items) == 1 and group.called and isinstance(items[0], _Group):
        return _inside(items[0])
    if len(items) in (3, 4) and items[1] in _MIRRORED and _is_literal(items[0]) and not _is_literal(items[2]):
        return _spaced([*(_shown(item) for item in items[2:]), _MIRRORED[str(items[1])], _shown(items[0])])
    return _spaced([_shown(item) for item in items])


def _operand(item: str | _Group) -> str:
    """A part of a chain of ANDs or ORs: a comparison, or a NOT, needs no parentheses there."""
    bare = isinstance(item, _Group) and (item.tests or item.items[:1] == ("NOT",))
    return _inside(item) if bare and isinstance(item, _Group) else _shown(item)


def _is_literal(item: str | _Group) -> bool:
    return isinstance(item, str) and item[0] in "'-0123456789" and item != "-"


def _spaced(pieces: list[str]) -> str:
    """Pieces with spaces between them, none before a comma or after the name of a function."""
    text = ""
    for piece in pieces:
        called = piece.startswith("(") and _PLAIN_NAME.search(text[-1:] or " ") and _last_word(text) not in _NO_CALL
        text += piece if not text or piece == "," or called else f" {piece}"
    return text


def _last_word(text: str) -> str:
    found = re.search(r"\w+$", text)
    return found[0] if found else ""
