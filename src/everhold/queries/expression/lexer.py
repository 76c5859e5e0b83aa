"""Split text into tokens with positions, so that every error can point at its cause."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from everhold.errors import QuestionError
from everhold.queries.expression.hints import CHARACTERS

__all__ = ["KEYWORDS", "Lexeme", "complain", "tokens"]

KEYWORDS = frozenset(
    "AND OR NOT IN BETWEEN IS NULL LIKE TRUE FALSE CASE WHEN THEN ELSE END".split()  # noqa: SIM905
)

_PATTERN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | "(?P<quoted>(?:[^"]|"")*)"
    | '(?P<text>(?:[^']|'')*)'
    | (?P<op><=|>=|<>|!=|==|[=<>+\-*/%(),])
    )""",
    re.VERBOSE,
)


class Lexeme(NamedTuple):
    """A piece of the text: its kind, value and position."""

    kind: str
    value: str
    at: int


def complain(text: str, at: int, message: str) -> NoReturn:
    """Raise a QuestionError that shows the text with a caret under the position."""
    start = max(0, at - 50)
    shown = text[start : at + 40].replace("\n", " ").replace("\t", " ")
    raise QuestionError(f"{message}\n  {shown}\n  {' ' * (at - start)}^")


def tokens(text: str, most: int) -> list[Lexeme]:
    """All tokens of a question of at most `most` characters; the last one marks the end.

    >>> [token.value for token in tokens("age >= 40 AND city = 'it''s'", 100)]
    ['age', '>=', '40', 'AND', 'city', '=', "it's", '']
    """
    if len(text) > most:
        raise QuestionError(f"the question has {len(text):,} characters. Expected at most {most:,}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        complain(text, error.start, "this is a lone surrogate. Expected text that can be encoded as UTF-8.")
    result, at = [], 0
    for match in _PATTERN.finditer(text):
        if match.start() != at:
            break  # the text in between is not a token
        kind = str(match.lastgroup)
        value, start = match[kind], match.start(kind)
        if kind == "word":
            if value.upper() in KEYWORDS:
                kind, value = "keyword", value.upper()
        elif kind == "quoted":
            kind, value, start = "word", value.replace('""', '"'), start - 1
        elif kind == "text":
            value, start = value.replace("''", "'"), start - 1
        result.append(Lexeme(kind, value, start))
        at = match.end()
    if text[at:].strip():
        start = at + len(text[at:]) - len(text[at:].lstrip())
        fault = "the closing quote is missing." if text[start] in "'\"" else f"unexpected character {text[start]!r}."
        complain(text, start, f"{fault}{CHARACTERS.get(text[start], '')}")
    result.append(Lexeme("end", "", len(text)))
    return result
