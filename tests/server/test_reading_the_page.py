"""What the page says, without a browser: words, examples, units, who sees what was wrong with a submission."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import everhold as eh
from everhold.acts import Read
from everhold.contest.board_html import board_html
from everhold.data.table import RowTable
from everhold.ledger.reader import read_study
from everhold.report.interval_svg import axis_svg, nice_ticks
from everhold.report.percent import value_and_interval
from everhold.server.act_forms import act_cards
from everhold.server.config import Config, StudyAt
from everhold.server.examples import examples
from everhold.server.forms import AnswerCard
from everhold.server.glossary import GLOSSARY, TEXTS
from tests.server.serving import make_contest, make_study, people, save, site

ROOT = Path(__file__).parents[2]


def test_the_words_are_the_glossarys():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    entries = {
        one.group(1): one.group(2) for one in re.finditer(r"^\*\*([A-Z][^*]*)\.\*\* (.*?)(?=\n\n|\Z)", text, re.S | re.M)
    }
    for word, said in TEXTS.items():
        assert said == " ".join(entries[word].split()), word
    assert "<em>sketch</em>" in GLOSSARY["Forecast"]
    assert "<code>expect=</code>" in GLOSSARY["Forecast"]


# examples ----------------------------------------------------------------------------------------------------------------


def public(**more):
    return RowTable({"age": [20, 30, 30, 40, 90], "city": ["York", "Leeds", "York", "York", "Hull"],
                     "bmi": [21.0, 22.5, 24.25, 27.0, 31.0], "ill": [True, False, False, True, False],
                     "seen": np.array(["2024-01-01", "2024-03-05", "2024-05-09", "2024-06-01", "2024-09-09"], "M8[D]"),
                     **more})  # fmt: skip


def test_examples_are_usual_values_of_the_public_rows():
    rows = public()
    found = examples(eh.Schema.propose(rows), rows)
    assert found == {
        "age": "age > 30",
        "city": "city = 'York'",
        "bmi": "bmi > 24",
        "ill": "ill",
        "seen": "seen >= '2024-05-09'",
    }


def test_weights_and_missing_values_count():
    rows = public(dose=[1.0, np.nan, np.nan, 5.0, 9.0])
    found = examples(eh.Schema.propose(rows), rows, np.array([1.0, 1.0, 1.0, 1.0, 96.0]))
    assert found["age"] == "age > 90" or found["age"].startswith("age > ")
    assert found["city"] == "city = 'Hull'"
    assert found["dose"].startswith("dose > ")


def test_odd_names_words_and_ranges():
    rows = RowTable({"body mass": [20.0, 25.0, 26.0], "town": ["O'Hull"] * 3, "free": [f"text {k}" for k in range(3)]})
    schema = eh.Schema.propose(rows, warn=False).revised("body mass", low=40, high=60)
    found = examples(schema, rows)
    assert found["body mass"] == '"body mass" > 50'  # the usual public value is outside the declared range
    assert found["town"] == "town = 'O''Hull'"
    for text in found.values():
        eh.Holdout(rows, prior=eh.Reference(rows), schema=schema, seed=1, overlap="allow").try_out(text)


def test_private_rows_have_no_part_in_examples(tmp_path):
    """Two studies with the same public rows and other private ones show the same page of columns."""
    shown = []
    for name, smokers, seed in (("one", 0.3, 1), ("other", 0.9, 77)):
        folder = tmp_path / name
        folder.mkdir()
        rows = people(2_000, smokers, seed)
        rows["age"] = np.minimum(rows["age"] + (20 if name == "other" else 0), 89)
        place = folder / "study.everhold"
        eh.Holdout.create(
            place, save(folder / "rows.csv", rows), prior=eh.Reference(people(1_500, 0.2, 2)), seed=7
        ).release()
        with site(folder, place) as here:
            here.sign_in("ann")
            page = here.http.get("/studies/study").text
            shown.append(re.findall(r'data-fill="([^"]*)"', page))
    assert shown[0] == shown[1]
    assert len(shown[0]) == 4


# units -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "ticks"),
    [
        ((0.0, 1.0), ["0", "0.5", "1"]),
        ((99.2, 100.0), ["99.2", "99.4", "99.6", "99.8", "100"]),
        ((-3e-7, 4e-7), ["-0.0000002", "0", "0.0000002", "0.0000004"]),
        ((1.5e9, 2.6e9), ["1,500,000,000", "2,000,000,000", "2,500,000,000"]),
        ((1.0, 1.0), []),
        ((0.0, float("inf")), []),
    ],
)
def test_ticks_are_round_and_inside(ends, ticks):
    found = nice_ticks(*ends)
    assert found == ticks
    assert all(ends[0] <= float(one.replace(",", "")) <= ends[1] for one in found)


def test_ticks_of_random_axes_are_round_and_enough():
    rng = np.random.default_rng(1)
    for _ in range(300):
        left = rng.normal() * 10.0 ** rng.integers(-6, 7)
        right = left + 10.0 ** rng.uniform(-6, 7)
        found = [float(one.replace(",", "")) for one in nice_ticks(left, right)]
        room = (right - left) * 1e-6
        assert 3 <= len(found) <= 9
        assert left - room <= found[0] < found[-1] <= right + room
        gaps = np.diff(found)
        assert np.allclose(gaps, gaps[0], rtol=1e-6)


@pytest.mark.parametrize("numbers", [(0.5, 0.4, 0.6), (0.5, 0.5, 0.5), (float("nan"), 0.2, 0.4), (1.0, -float("inf"), 2.0)])
def test_an_axis_is_drawn_for_any_interval(numbers):
    assert axis_svg(*numbers, bottom=0.0, top=1.0).count("<svg") == 1
    assert "nan" not in axis_svg(*numbers, bottom=0.0, top=1.0, zero=True)


def answer(scale="share", **more):
    return eh.Answer(**{"value": 0.1196, "low": 0.09, "high": 0.1518, "surprise": False, "round": 3, "price": 5.0,
                        "scale": scale, **more})  # fmt: skip


def test_shares_are_in_per_cent_and_differences_in_points():
    schema = eh.Schema.propose(public())
    card = AnswerCard.of(answer(), eh.Share("ill"), "ill", schema=schema)
    assert (card.value, card.ends) == ("11.96 %", "9 to 15.18 %")
    both = eh.Difference("ill", "city = 'York'", "city = 'Hull'"), eh.Compare("ill", "age > 30")
    found = eh.Comparison("what", 0.003, -0.14, 0.142, (answer(),))
    for asked in both:
        assert AnswerCard.of(found, asked, "", schema=schema).value == "0.3 points"
    numbers = eh.Difference("bmi", "city = 'York'", "city = 'Hull'"), eh.Compare("bmi", "age")
    for asked in numbers:
        assert AnswerCard.of(found, asked, "", schema=schema).value == "0.003"


def test_certified_answers_are_in_per_cent_too():
    (card,) = act_cards(Read("ill"), answer(act="read"), schema=eh.Schema.propose(public()))
    assert card.value == "11.96 %"


def test_the_record_is_in_per_cent_where_it_is_about_shares(tmp_path):
    place = make_study(tmp_path)
    with eh.Holdout.open(place) as holdout:
        share = holdout.ask("age > 41")
        mean = holdout.mean("bmi")
        given = holdout.share("smoker", given="age > 41")
    lines = [value_and_interval(one) for one in read_study(place).log]
    assert [value.endswith("%") for value, _ in lines] == [True, False, True]
    for found, (value, interval), times in ((share, lines[0], 100.0), (mean, lines[1], 1.0), (given, lines[2], 100.0)):
        low, high = (float(one) for one in interval.removesuffix(" %").split(" to "))
        assert low <= times * found.low <= times * found.high <= high
        assert abs(float(value.removesuffix(" %")) - times * found.value) <= 0.01 * max(
            1.0, times * (found.high - found.low)
        )


# a contest, titles ------------------------------------------------------------------------------------------------------


def test_what_was_malformed_is_its_entrants_alone(tmp_path):
    place, _ = make_contest(tmp_path)
    with site(tmp_path, place) as here:
        here.token("bo", "analyst")
        for _ in range(2):
            sent = here.http.post("/v1/contests/coins/submissions", content="id,prediction\n0,7\n", headers=here.as_("ann"))
            assert sent.status_code == 422
        mine, theirs, keepers = (here.get("/v1/contests/coins/board", who=who).json() for who in ("ann", "bo", "cus"))
        assert [one["entrant"] for one in mine["unranked"]] == ["ann"]
        assert theirs["unranked"] == keepers["unranked"] == []
        pages = {}
        for who in ("ann", "bo", "cus"):
            here.sign_in(who)
            pages[who] = here.http.get("/contests/coins").text
        assert "2 of your submissions were not scored" in pages["ann"]
        assert pages["ann"].count("column prediction") == 2
        for who in ("bo", "cus"):
            assert "column prediction" not in pages[who]
            assert "refused" not in pages[who]
    contest = eh.Contest(place)
    assert contest.board().unranked  # the custodian's own shell sees it
    assert "column prediction" not in board_html(contest.board())


def test_titles_are_text_and_reach_every_interface(tmp_path):
    place = make_study(tmp_path)
    at = StudyAt(place, title="<b>Patients</b>", description="Who & what", custodian="Office", contact="javascript:alert(1)")
    with site(tmp_path, studies=(at,)) as here:
        status = here.get("/v1/studies/patients/status").json()
        assert (status["title"], status["contact"]) == ("<b>Patients</b>", "javascript:alert(1)")
        here.sign_in("cus")
        for path in ("/", "/studies/patients", "/studies/patients/history", "/studies/patients/certificate/page"):
            page = here.http.get(path).text
            assert "&lt;b&gt;Patients&lt;/b&gt;" in page
            assert "<b>Patients" not in page
            assert 'href="javascript' not in page
        signed = here.http.get("/studies/patients/certificate.json").json()
        assert (signed["title"], signed["custodian"], signed["description"]) == ("<b>Patients</b>", "Office", "Who & what")


def test_titles_come_from_the_settings(tmp_path):
    place = tmp_path / "everhold.toml"
    place.write_text('[[study]]\npath = "a.everhold"\ntitle = "A"\ncontact = "a@example.org"\n')
    assert Config.load(place).studies[0].title == "A"
    for wrong in ("title = 5", f'description = "{"x" * 3000}"', 'titel = "A"'):
        place.write_text(f'[[study]]\npath = "a.everhold"\n{wrong}\n')
        with pytest.raises(eh.SettingError, match=r"title|description"):
            Config.load(place)


def test_every_page_has_its_pictures():
    """In both themes, wide and narrow; small; each of them shown in the docs, and no other."""
    text = (ROOT / "docs" / "howto" / "pages.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\.\./figures/pages/([a-z0-9-]+\.webp)", text))
    kept = {one.name: one.stat().st_size for one in (ROOT / "docs" / "figures" / "pages").glob("*")}
    assert shown == set(kept)
    names = {re.sub(r"-(light|dark)-(1280|390)\.webp", "", one) for one in shown}
    assert len(shown) == 4 * len(names)
    assert max(kept.values()) <= 60_000
    assert sum(kept.values()) < 3_000_000
    script = (ROOT / "docs" / "screenshots.py").read_text(encoding="utf-8")
    assert names == set(re.findall(r'^    "([a-z-]+)": \(', script, re.M))
