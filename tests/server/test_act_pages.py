"""Every act on the page, without a browser: offered from the table, previewed first, recorded as over HTTP."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from everhold import acts
from everhold.acts import ACTS, as_body, questions_of
from everhold.ledger.reader import read_study
from everhold.server.act_forms import shown_fields
from everhold.statistics.parameters import parameters
from tests.server.serving import access_log, make_study, people, site
from tests.server.test_acts import PLAY


def step_of(page):
    """What the button below a preview sends besides the form."""
    found = dict(re.findall(r'name="(previewed|request_id)" value="([^"]*)"', page))
    return {**found, "do": "yes"} if found else {}


def as_form(act):
    """An act as somebody fills in its form."""
    given = {}
    for one in parameters(type(act)):
        value = getattr(act, one.name)
        if one.form in ("question", "questions"):
            some = [value] if one.form == "question" else value
            lines = [sent if isinstance(sent := acts.as_sent(each), str) else json.dumps(sent) for each in some]
            given[one.name] = "\r\n".join(lines)
        elif value != one.default:
            given[one.name] = ", ".join(map(str, value)) if one.form == "reals" else str(value)
    return given


class Pages:
    """The pages of a study's acts, for somebody who has signed in."""

    def __init__(self, made, who="cus", study="patients"):
        self.http, self.csrf, self.at = made.http, made.sign_in(who), f"/studies/{study}/acts"

    def send(self, name, given, **more):
        return self.http.post(f"{self.at}/{name}", data={"csrf": self.csrf, **given}, **more)

    def do(self, name, given, request_id=None):
        """Preview, then do what was previewed."""
        tried = self.send(name, given)
        assert tried.status_code == 200, tried.text
        step = step_of(tried.text)
        step |= {} if request_id is None else {"request_id": request_id}
        return self.send(name, {**given, **step, "sure": "yes"})


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """For tests that record nothing."""
    folder = tmp_path_factory.mktemp("acts")
    study = make_study(folder)
    with site(folder, study) as made:
        made.post("/v1/studies/patients/ask", {"question": "age > 50"})
        yield made


@pytest.fixture
def unchanged(here):
    """Nothing may be recorded."""
    before = here.get("/v1/studies/patients/status").json()
    yield
    assert here.get("/v1/studies/patients/status").json() == before


@pytest.mark.parametrize("name", list(ACTS))
def test_every_act_of_the_table_is_offered(here, name):
    pages = Pages(here)
    kind = ACTS[name]
    link = f'<a href="/studies/patients/acts/{name}"'
    for path in ("/studies/patients/acts", *(f"/studies/patients/acts/{other}" for other in ACTS)):
        assert link in pages.http.get(path).text, path
    if name != "read":  # which the question box has itself
        assert link in pages.http.get("/studies/patients").text
    page = unescape(pages.http.get(f"/studies/patients/acts/{name}").text)
    for text in (kind.title, kind.__doc__, kind.when):
        assert text in page
    for one in shown_fields(kind):
        assert f'<label for="{one["name"]}">{one["label"]}</label>' in page
        assert one["about"] in page
        assert f'id="{one["name"]}" name="{one["name"]}"' in page
    assert 'name="do"' not in page  # before there is a preview


@pytest.mark.parametrize("name", list(ACTS))
def test_who_may_do_what(here, unchanged, name):
    here.token("bob", "analyst", studies=["other"])
    kind = ACTS[name]
    given = as_form(acts.act_from(name, kind.example))
    for who in ("aud", "bob", *(("ann",) if kind.permission == "manage" else ())):
        pages = Pages(here, who)
        assert pages.send(name, {**given, "do": "yes", "sure": "yes"}).status_code == 403
        assert pages.http.get(f"{pages.at}/{name}").status_code == 403
        if who != "bob":
            assert f'<a href="{pages.at}/{name}"' not in pages.http.get(pages.at).text
    here.http.cookies.clear()
    told = here.http.post(f"/studies/patients/acts/{name}", data=given, follow_redirects=False)
    assert told.status_code == 303


def test_the_same_record_as_over_http(tmp_path):
    """A session with every act and every parameter, on the page and over HTTP, under the same ids."""
    studies = [make_study(tmp_path, name) for name in ("patients", "twin")]
    with site(tmp_path, *studies) as made:
        for name in ("patients", "twin"):
            made.post(f"/v1/studies/{name}/ask", {"question": "age > 50", "expect": 0.55}, "cus")
        pages = Pages(made)
        for number, one in enumerate(PLAY):
            done = pages.do(one.name, as_form(one), f"r{number}")
            assert done.status_code == 200, (one, done.text)
            body = {**as_body(one), "request_id": f"r{number}"}
            sent = made.post(f"/v1/studies/twin/{one.name}", body, "cus")
            assert sent.status_code == 200, sent.text
            assert _shows(done.text, sent.json()), one
        logs = [made.get(f"/v1/studies/{name}/log").json()["questions"] for name in ("patients", "twin")]
        mine, theirs = ([_without_time(line) for line in log] for log in logs)
        assert mine == theirs
        assert len(mine) > len(PLAY)
        facts = [made.get(f"/v1/studies/{name}/status").json() for name in ("patients", "twin")]
        own = ("name", "head", "created")
        assert len({json.dumps({**one, **dict.fromkeys(own)}) for one in facts}) == 1
        assert made.get("/v1/studies/patients/audit", "aud").json()["ok"]
        noted = [line for line in access_log(tmp_path) if "act" in line]
        for page, program in zip(noted[::2], noted[1::2], strict=True):
            same = ("act", "question", "questions", "first", "second", "round", "spend", "status", "who")
            assert {key: page.get(key) for key in same} == {key: program.get(key) for key in same}


def _without_time(line):
    return {**line, "time": "", "parts": [{**part, "time": ""} for part in line["parts"]]}


def _shows(page, sent):
    """Whether a page shows what HTTP returned."""
    page = unescape(page)
    if "results" in sent:
        return f"{len(sent['results'])} results" in page
    if sent["kind"] == "verdict":
        return {"yes": "Yes", "no": "No", "cannot tell": "Cannot tell"}[sent["verdict"]] in page
    if sent["kind"] == "decision":
        return f"{'Yes' if sent['yes'] else 'No'}, on the private rows." in page
    if sent["kind"] == "choice":
        return f"Line {sent['index'] + 1} of {sent['candidates']}." in page
    return 'class="value"' in page and "For the population: between" in page


@pytest.mark.parametrize("act", PLAY, ids=lambda one: one.name)
def test_a_preview_comes_first_and_reads_nothing(tmp_path, monkeypatch, act):
    """Also when the second step is sent at once."""
    from everhold.session.scan import Scanner

    study = make_study(tmp_path)
    with site(tmp_path, study) as made:
        made.post("/v1/studies/patients/ask", {"question": "age > 50", "expect": 0.55})
        before = read_study(study).head

        def never(*_, **__):
            raise AssertionError("a private row was read")

        monkeypatch.setattr(Scanner, "sums", never)
        pages, given = Pages(made), as_form(act)
        for step in ({}, {"do": "yes", "sure": "yes"}, {"do": "yes", "sure": "yes", "previewed": "x"}):
            tried = pages.send(act.name, {**given, **step})
            assert tried.status_code == 200, tried.text
            text = unescape(tried.text)
            assert "<h3>Preview</h3>" in text
            assert 'name="do" value="yes"' in text
            assert ("nothing was done" in text) == bool(step)
            if act.name in ("read", "read_many", "close"):
                assert "Interval to expect" in text
            if act.name != "close":
                assert "times a plain 95 % interval, instead of" in text
        assert read_study(study).head == before


def test_the_preview_foresees_the_price(tmp_path):
    """If the private rows agree with the forecasts, the interval and the price are as foreseen."""
    with site(tmp_path, make_study(tmp_path)) as made:
        pages = Pages(made)
        share = float((people(4_000, 0.3, 1)["bmi"] > 27).mean())
        for name, given in (
            ("read", {"question": "bmi > 27", "spend": "0.25", "expect": str(share)}),
            ("best_of", {"questions": "age > 40\nage > 50"}),
            ("compare", {"first": "age > 40", "second": "age > 80"}),
        ):
            tried = unescape(pages.send(name, given).text)
            low, high = re.search(
                r"[Rr]eadings of shares from here on: ([0-9.]+)(?: to ([0-9.]+))? times", tried.split("Preview<")[-1]
            ).groups()
            assert pages.do(name, given).status_code == 200
            width = made.get("/v1/studies/patients/status").json()["width"]
            assert float(low) - 0.051 <= width <= float(high or low) + 0.051


def test_a_changed_form_is_previewed_again(here, unchanged):
    pages = Pages(here)
    step = step_of(pages.send("best_of", {"questions": "smoker\nage > 40"}).text)
    told = pages.send("best_of", {"questions": "smoker\nage > 41", **step})
    assert told.status_code == 200
    assert "The form has changed since the last preview, so nothing was done" in told.text
    assert step_of(told.text)["previewed"] != step["previewed"]


def test_sent_twice_it_is_done_once(tmp_path):
    """As when somebody reloads the page."""
    with site(tmp_path, make_study(tmp_path)) as made:
        pages, given = Pages(made), {"questions": "smoker\nage > 40\nbmi > 30"}
        given |= step_of(pages.send("best_of", given).text)
        first = pages.send("best_of", given)
        stood = made.get("/v1/studies/patients/status").json()
        again = pages.send("best_of", given)
        assert first.status_code == again.status_code == 200
        assert "age &gt; 40" in again.text.split('class="value"')[1][:60]
        assert made.get("/v1/studies/patients/status").json() == stood
        assert stood["acts"] == 1


def test_closing_is_confirmed_and_leaves_a_page_to_read(tmp_path):
    study = make_study(tmp_path)
    with site(tmp_path, study) as made:
        made.post("/v1/studies/patients/ask", {"question": "age > 50"})
        pages, given = Pages(made), {"questions": "smoker\nbmi > 30"}
        before = read_study(study).head
        tried = pages.send("close", given)
        assert "2 questions are read, then the study is closed: nothing private is read again." in tried.text
        assert 'type="checkbox" name="sure"' in tried.text
        step = step_of(tried.text)
        unsure = pages.send("close", {**given, **step})
        assert unsure.status_code == 422
        assert "the box is not ticked" in unsure.text
        assert "smoker\nbmi &gt; 30</textarea>" in unsure.text.replace("\r", "")
        assert read_study(study).head == before
        assert "Certify" in pages.http.get("/studies/patients/history").text
        done = pages.send("close", {**given, **step_of(unsure.text), "sure": "yes"})
        assert done.status_code == 200, done.text
        assert "2 results" in done.text
        assert "Nothing private is read again" in done.text
        assert "<form id=" not in done.text
        for path in ("", "/acts", *(f"/acts/{name}" for name in ACTS), "/history"):
            page = pages.http.get(f"/studies/patients{path}")
            assert page.status_code == 200
            assert "<textarea" not in page.text
            assert 'name="do"' not in page.text
            assert "/acts/" not in page.text  # no act is linked
            if path != "/history":
                assert "Closed:" in page.text
        for name, kind in ACTS.items():
            told = pages.send(name, as_form(acts.act_from(name, kind.example)))
            assert told.status_code == 409, name
        again = pages.send("close", {**given, **step_of(unsure.text), "sure": "yes"})  # a response that was lost
        assert again.status_code == 200
        assert "2 results" in again.text


def test_closing_without_a_question(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        pages = Pages(made)
        assert "Nothing is read, then the study is closed" in pages.send("close", {}).text
        done = pages.do("close", {})
        assert done.status_code == 200
        assert "This study is closed" in done.text
        assert made.get("/v1/studies/patients/status").json()["closed"]


def test_an_answer_of_the_history_is_certified(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        made.post("/v1/studies/patients/ask_many", {"questions": [f"age > {n}" for n in range(30, 60)]})
        made.post("/v1/studies/patients/mean", {"question": "bmi"})
        pages = Pages(made, "ann")
        for path in ("", "/history"):
            page = pages.http.get(f"/studies/patients{path}").text
            assert 'href="/studies/patients/acts/certify?round=30"' in page
            assert "round=31" not in page  # a number, which cannot be certified
        tried = pages.http.get("/studies/patients/acts/certify?round=30")
        assert "Round 30, " in tried.text
        assert "the interval is narrower" in tried.text
        done = pages.send("certify", {"round": "30", **step_of(tried.text)})
        assert "Certificate: a narrower interval of an earlier answer." in done.text
        assert "certify?round=" not in Pages(made, "aud").http.get("/studies/patients/history").text


WRONG = [
    ("read", {"question": ""}),
    ("read", {"question": "smokr"}),
    ("read", {"question": "bmi"}),
    ("read", {"question": "smoker", "spend": "2"}),
    ("read", {"question": "smoker", "spend": "x"}),
    ("read", {"question": "smoker", "spend": "nan"}),
    ("read", {"question": "smoker", "what": "nonsense"}),
    ("read", {"question": "x" * 4_001}),
    ("read_many", {"questions": " \n "}),
    ("read_many", {"questions": "smoker\nsmokr"}),
    ("read_many", {"questions": "{"}),
    ("read_many", {"questions": '{"statistic": "mean"}'}),
    ("read_many", {"questions": "[" * 100 + "{"}),
    ("best_of", {"questions": "smoker\nage > 40", "weights": "1"}),
    ("is_better", {"first": "smoker"}),
    ("is_better", {"first": "smoker", "second": "age > 40", "by": "inf"}),
    ("compare", {"first": "smoker", "second": "city"}),
    ("certify", {"round": "0"}),
    ("certify", {"round": "99"}),
    ("certify", {"round": "one"}),
    ("certify", {"round": "9" * 30}),
    ("close", {"questions": "smokr"}),
]


@pytest.mark.parametrize(("name", "given"), WRONG)
def test_what_is_wrong_is_said_beside_the_form(here, unchanged, name, given):
    pages = Pages(here)
    for step in ({}, {"do": "yes", "sure": "yes"}):
        for part in ({}, {"HX-Request": "true"}):
            told = pages.send(name, {**given, **step}, headers=part)
            assert told.status_code == 422, told.text
            assert 'role="alert"' in told.text
            assert ("<!doctype html>" in told.text) == (not part)
            for text in given.values():
                if not part and text.strip() and name != "certify":
                    assert text.split("\n")[0] in unescape(told.text)


def test_too_many_questions(tmp_path):
    with site(tmp_path, make_study(tmp_path), most_questions=3) as made:
        given = {"questions": "\n".join(f"age > {n}" for n in range(30, 34))}
        assert Pages(made).send("best_of", given).status_code == 413


def test_with_scripts_a_part_of_the_page_comes(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        pages, given = Pages(made), {"first": "smoker", "second": "age > 80"}
        typing = {"HX-Request": "true", "HX-Trigger": "fields"}
        empty = pages.send("compare", {"first": "smoker"}, headers=typing)
        assert (empty.status_code, empty.text.strip()) == (200, "")
        tried = pages.send("compare", given, headers=typing)
        assert tried.headers["hx-retarget"] == "#preview"
        assert "<!doctype html>" not in tried.text
        done = pages.send("compare", {**given, **step_of(tried.text)}, headers={"HX-Request": "true"})
        assert "hx-retarget" not in done.headers
        for part in ("preview", "width", "recent"):
            assert f'id="{part}"' in done.text
        assert "Is smoker larger than age &gt; 80?" in done.text
        assert "The next reading of a share: " in done.text


def test_statistics_by_their_fields(tmp_path):
    with site(tmp_path, make_study(tmp_path)) as made:
        pages = Pages(made)
        done = pages.do("read_many", {"questions": "bmi\nage", "what": "mean", "of_given": "smoker"})
        assert "mean of bmi cut to" in done.text
        assert "given smoker" in done.text
        done = pages.do("read", {"question": "city", "what": "table", "of_second": "smoker"})
        assert "York × yes" in done.text
        done = pages.do("compare", {"first": "bmi", "second": "age", "what": "median"})
        assert "Is median(bmi) larger than median(age)?" in done.text


def test_what_is_typed_is_never_markup(here, unchanged):
    nasty, pages = """<script>alert(1)</script>"'&""", Pages(here)
    for name, kind in ACTS.items():
        given = {one.name: nasty for one in parameters(kind)}
        assert "<script>alert" not in pages.send(name, given).text
        assert "<script>alert" not in pages.http.get(f"{pages.at}/{name}", params=given).text
    told = pages.send("best_of", {"questions": "city LIKE '%<script>alert(1)</script>%'\nsmoker"})
    assert told.status_code == 200
    assert "<script>alert" not in told.text


def test_the_examples_of_the_table_can_be_previewed(here, unchanged):
    pages = Pages(here)
    for name, kind in ACTS.items():
        made = acts.act_from(name, kind.example)
        told = pages.send(name, as_form(made))
        assert told.status_code == 200, told.text
        assert all(str(acts.as_sent(one)) in unescape(told.text) for one in questions_of(made) if isinstance(one, str))
