"""Statistics in the shell and by options: nothing that was typed is dropped."""

import pytest

import everhold as eh
from everhold.cli.asking import _shell_help, _shell_statistic, statistic_of
from everhold.mcp import _statistic as mcp_statistic
from everhold.statistics import STATISTICS


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("mean", "bmi 10 60 | given smoker", eh.Mean("bmi", low=10.0, high=60.0, given="smoker")),
        ("mean", "bmi | low 10 | high 60", eh.Mean("bmi", low=10.0, high=60.0)),
        ("quantile", "age 0.9", eh.Quantile("age", 0.9)),
        ("quantile", "age ; 0.5", eh.Quantile("age", 0.5)),
        ("quantile", "age 0.9 10 60", eh.Quantile("age", 0.9, low=10.0, high=60.0)),
        ("table", "city by smoker", eh.Table("city", "smoker")),
        ("table", "city ; smoker", eh.Table("city", "smoker")),
        ("difference", "bmi ; smoker ; NOT smoker", eh.Difference("bmi", "smoker", "NOT smoker")),
        ("compare", "age > 40 ; smoker", eh.Compare("age > 40", "smoker")),
        ("histogram", "age | edges 10, 20, 30", eh.Histogram("age", edges=(10.0, 20.0, 30.0))),
        (
            "median",
            "joined | low 2024-01-01 | high 2025-01-01",
            eh.Median("joined", low="2024-01-01", high="2025-01-01"),
        ),
    ],
)
def test_the_shell_reads_what_its_help_shows(name, text, wanted):
    assert _shell_statistic(name, text) == wanted
    assert name in _shell_help()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("share", "smoker ; age > 40"),
        ("mean", "bmi ; smoker"),
        ("compare", "a ; b ; c"),
        ("mean", "bmi 10 60 | low 20"),
        ("mean", "bmi | question age"),
        ("mean", "bmi | level 0.5"),
        ("mean", "bmi | low ten"),
        ("quantile", "age"),
    ],
)
def test_the_shell_drops_nothing(name, text):
    with pytest.raises(eh.QuestionError):
        _shell_statistic(name, text)


def test_the_first_parameter_is_not_given_twice():
    """Before, `first` replaced the question, and another one was charged."""
    for name in ("compare", "table", "correlation", "ratio"):
        assert "first" in STATISTICS[name].example
        with pytest.raises(eh.QuestionError, match="expression itself"):
            statistic_of("smoker", name, {"first": "age > 80", "second": "age > 30"})
        with pytest.raises(eh.QuestionError, match="given twice"):
            mcp_statistic("smoker", name, {"first": "age > 80", "second": "age > 30"})
