"""Figures: what is drawn is where the numbers are, surprises are never left out, and texts are texts."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from everhold.ledger.reader import LoggedRound
from everhold.queries.answer import Answer
from everhold.report.figure import session_svg
from everhold.report.interval_svg import axis_svg, interval_svg

SVG = "{http://www.w3.org/2000/svg}"
TOP, HIGH = 34, 300  # of the part with answers: 1 is at TOP, 0 at TOP + HIGH


def a_round(number, value=0.5, *, surprise=False, price=10.0, question="smoker", scale="share", act="ask"):
    answer = Answer(value, value - 0.1, value + 0.1, surprise, number, price, scale, act)
    return LoggedRound(answer, question, "2026-01-01T00:00:00", "ann", None)


def drawn(svg):
    """The groups of rounds."""
    return [one for one in ElementTree.fromstring(svg).iter(f"{SVG}g") if one.find(f"{SVG}title") is not None]


def test_intervals_are_where_their_ends_are():
    (group,) = drawn(session_svg([a_round(1, 0.25)]))
    line, dot = group.find(f"{SVG}line"), group.find(f"{SVG}circle")
    assert float(dot.get("cy")) == pytest.approx(TOP + HIGH * 0.75)
    assert float(line.get("y1")) == pytest.approx(TOP + HIGH * 0.85)
    assert float(line.get("y2")) == pytest.approx(TOP + HIGH * 0.65)


def test_means_are_drawn_between_minus_one_and_one():
    (group,) = drawn(session_svg([a_round(1, 0.0, scale="mean")]))
    assert float(group.find(f"{SVG}circle").get("cy")) == pytest.approx(TOP + HIGH / 2)


def test_surprises_have_their_own_colour_and_are_counted_for_readers_who_do_not_see():
    svg = session_svg([a_round(1), a_round(2, surprise=True), a_round(3)], title="Mine")
    assert [group.get("class") for group in drawn(svg)] == ["s-quiet", "s-surprise", "s-quiet"]
    assert "3 answers" in ElementTree.fromstring(svg).get("aria-label")
    assert "1 of them surprises" in ElementTree.fromstring(svg).get("aria-label")
    assert "Mine" in svg


def test_readings_have_their_own_colour_and_may_have_no_value():
    read = a_round(2, act="read")
    empty = LoggedRound(Answer(math.nan, 0.0, 1.0, False, 3, 10.0, "share", "read"), "smoker", "", "ann", None)
    groups = drawn(session_svg([a_round(1), read, empty]))
    assert [group.get("class") for group in groups] == ["s-quiet", "s-read", "s-read"]
    assert [group.find(f"{SVG}circle") is not None for group in groups] == [True, True, False]


def test_of_many_rounds_every_surprise_is_drawn():
    rounds = [a_round(number, surprise=number % 100 == 37) for number in range(1, 1001)]
    groups = drawn(session_svg(rounds, most_drawn=50))
    assert sum(group.get("class") == "s-surprise" for group in groups) == 10
    assert 50 <= len(groups) <= 60


def test_the_end_of_a_promised_precision_is_a_line_above_the_price():
    rounds = [a_round(1, price=10.0), a_round(2, price=20.0)]
    assert "used up at" not in session_svg(rounds)
    root = ElementTree.fromstring(session_svg(rounds, budget=80.0))
    (end,) = [one for one in root.iter(f"{SVG}line") if one.get("class") == "s-end"]
    points = root.find(f"{SVG}polyline").get("points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert float(end.get("y1")) < min(heights), "smaller is higher"


def test_no_rounds_are_a_picture_too():
    assert drawn(session_svg([])) == []


def test_questions_are_texts():
    svg = session_svg([a_round(1, question="city = '</title><script>'")], title="<b>")
    root = ElementTree.fromstring(svg)
    assert not list(root.iter(f"{SVG}script"))
    assert "</title><script>" in drawn(svg)[0].find(f"{SVG}title").text


class TestInterval:
    def test_the_bar_is_cut_to_the_scale(self):
        root = ElementTree.fromstring(interval_svg(0.5, -math.inf, math.inf, bottom=0.0, top=1.0, wide=112.0))
        bar = next(one for one in root.iter("line") if one.get("class") == "bar")
        assert (float(bar.get("x1")), float(bar.get("x2"))) == (6.0, 106.0)

    def test_without_an_estimate_there_is_no_dot(self):
        svg = interval_svg(math.nan, 0.2, 0.4, bottom=0.0, top=1.0)
        assert "circle" not in svg
        assert "no estimate" in svg

    def test_round_numbers_stand_around_the_interval_and_the_ends_of_the_scale_below(self):
        root = ElementTree.fromstring(axis_svg(30.0, 20.0, 40.0, bottom=0.0, top=100.0, unit=" %"))
        words = [one.text for one in root.iter("text")]
        assert words == ["20 %", "30 %", "40 %", "0 %", "100 %"]

    def test_a_scale_without_length_is_drawn(self):
        ElementTree.fromstring(interval_svg(1.0, 1.0, 1.0, bottom=1.0, top=1.0))
