"""Canonical text as people write it: it must parse to the same question."""

import pytest

from everhold.queries.expression import BoundedMean, expression
from everhold.queries.expression.canonical import text_of
from everhold.queries.expression.readable import readable
from tests.engines.rows import KINDS, questions

COLUMNS = {"age": "number", "bmi": "number", "smoker": "boolean", "city": "text", "first name": "text", "in": "boolean"}


@pytest.mark.parametrize(
    ("canonical", "expected"),
    [
        ('(65.0 < "age")', "age > 65"),
        ('("age" <= -5.0)', "age <= -5"),
        ('((3.0 <= "age") AND ("age" <= 5.0) AND (NOT "smoker"))', "age >= 3 AND age <= 5 AND NOT smoker"),
        ('(("in" AND "smoker") OR ("first name" = \'o\'\'(b\'))', "(\"in\" AND smoker) OR \"first name\" = 'o''(b'"),
        ('(2.0 = round(("age" / 3.0)))', "round(age / 3) = 2"),
        ('((- "age") < 3.0)', "(- age) < 3"),
        ("MEAN OF \"bmi\" GIVEN (\"city\" IN ('Leeds', 'York'))", "MEAN OF bmi GIVEN (city IN ('Leeds', 'York'))"),
        ("not ) canonical", "not ) canonical"),
    ],
)
def test_what_people_read(canonical, expected):
    assert readable(canonical) == expected


def test_it_parses_to_the_same_question():
    changed = 0
    for question in questions(600, seed=11):
        if isinstance(question, BoundedMean):
            continue
        text = text_of(question.tree)
        shown = readable(text)
        assert expression(shown, KINDS).name == text, shown
        changed += shown != text
        assert len(shown) <= len(text)
    assert changed > 400


def test_a_wrong_text_would_be_found():
    assert expression(readable('("age" < 65.0)').replace("<", ">"), COLUMNS).name != '("age" < 65.0)'
