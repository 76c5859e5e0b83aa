"""How the page reads, in a real browser: axes, units, grids, help, pauses in typing, narrow screens."""

from __future__ import annotations

import json

import pytest

import everhold as eh
from everhold.ledger.reader import read_study
from everhold.server.glossary import TEXTS
from tests.server.serving import Process, as_csv, make_contest, make_study
from tests.server.test_browser import CHROMIUM, FLAGS

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

_TOML = """
tokens = "tokens.json"
log = "access.jsonl"
grid_ms = 20
[[study]]
path = "patients.everhold"
title = "Patients of 2026"
description = "Adults of <three> cities."
custodian = "Data office"
contact = "data@example.org"
[[study]]
path = "coins.everhold"
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("look")
    make_study(folder)
    labels = make_contest(folder)[1]
    settings = folder / "everhold.toml"
    settings.write_text(_TOML)
    with Process(folder, config=settings) as made:
        made.secrets = {name: made.tokens.create(name, scope)[0]
                        for name, scope in (("ann", "custodian"), ("bo", "analyst"), ("cleo", "analyst"))}  # fmt: skip
        made.labels, made.cookies = labels, {}
        with eh.connect(made.url, made.secrets["bo"]) as server:
            study = server.study("patients")
            study.ask_many(["age > 41", "smoker"])
            study.ask(eh.Quantile("bmi", 0.5))
            study.ask(eh.Table("city", "smoker"))
        yield made


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, process):
    found = signed_in(chromium, process, "ann")
    yield found
    found.context.close()


def signed_in(chromium, process, who, **options):
    """A page of somebody, who signs in the first time only."""
    options = {"viewport": {"width": 1280, "height": 900}, **options, "storage_state": process.cookies.get(who)}
    page = chromium.new_context(**options).new_page()
    page.set_default_timeout(180_000)
    page.goto(process.url)
    if who not in process.cookies:
        page.fill("#token", process.secrets[who])
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Studies')")
        process.cookies[who] = page.context.storage_state()
    assert page.inner_text("h1") == "Studies"
    return page


def ask(page, process, question, **fields):
    page.goto(f"{process.url}/studies/patients")
    for name, value in fields.items():
        (page.select_option if name == "kind" else page.fill)(f"#{name}", value)
    page.fill("#question", question)
    page.click("button.main")
    page.wait_for_selector("#answer .answer")


def test_title_description_custodian_and_contact(page, process):
    assert page.inner_text("li.card >> nth=0").startswith("Patients of 2026")
    page.goto(f"{process.url}/studies/patients")
    assert page.inner_text("h1") == "Patients of 2026"
    said = page.inner_text(".about")
    assert "Adults of <three> cities." in said
    assert "Custodian: Data office" in said
    assert page.get_attribute(".about a", "href") == "mailto:data@example.org"
    page.goto(f"{process.url}/studies/patients/certificate/page")
    said = page.inner_text("body")
    assert "Certificate of Patients of 2026" in said
    assert "Adults of <three> cities." in said
    assert "Data office" in said


def test_the_axis_is_around_the_interval_and_the_whole_scale_below(page, process):
    """As drawn: the bar takes a good part of the axis, the dot is in it, and the marked part of the scale is where it is."""
    ask(page, process, "age > 41")
    svg = page.locator("#answer svg.interval")
    assert "whole scale, from 0 % to 100 %" in svg.get_attribute("aria-label")
    ticks = svg.locator(".tick").all_text_contents()
    assert ticks[-2:] == ["0 %", "100 %"]
    assert len(ticks) >= 5
    assert all(one.endswith(" %") for one in ticks)
    around, bar, part = (svg.locator(one).first.bounding_box() for one in (".axis", ".bar", ".part-of-scale"))
    assert 0.4 < bar["width"] / around["width"] < 0.8
    value = float(page.inner_text("#answer .value").removesuffix(" %"))
    middle = (part["x"] + part["width"] / 2 - around["x"]) / around["width"]
    assert abs(100 * middle - value) < 3.0


def test_units(page, process):
    """Shares in per cent, differences of shares in points, numbers in their own units with their declared range."""
    ask(page, process, "bmi", kind="mean")
    assert "%" not in page.inner_text("#answer .value")
    declared = read_study(process.folder / "patients.everhold").first_record.schema["bmi"]
    ends = page.locator("#answer .whole .tick").all_text_contents()
    assert [float(one) for one in ends] == [declared.low, declared.high]
    ask(page, process, "smoker", kind="difference", first_group="city = 'York'", second_group="city = 'Hull'")
    assert page.inner_text("#answer .value").endswith(" points")
    assert page.locator("#answer svg .zero").count() == 1
    page.goto(f"{process.url}/studies/patients/history")
    row = page.locator("tbody tr", has_text="age").last.inner_text()
    assert row.count("%") == 2


def test_the_median_is_called_median_everywhere(page, process):
    ask(page, process, "bmi", kind="quantile", level="0.5")
    assert page.inner_text("#answer h2").startswith("median of bmi")
    for path in ("/studies/patients", "/studies/patients/history", "/studies/patients/certificate/page"):
        page.goto(process.url + path)
        said = page.inner_text("body").lower() + " ".join(page.locator(".part").all_text_contents()).lower()
        assert "median of bmi" in said
        assert "0.5 quantile" not in said
        assert "quantile 0.5" not in said


def test_the_live_check_waits_for_a_pause(page, process):
    """By the browser's own clock, which the test moves: nothing is asked while somebody types."""
    page.clock.install()
    page.goto(f"{process.url}/studies/patients")
    sent = []
    page.on("request", lambda request: sent.append(request.url) if "/check" in request.url else None)
    page.focus("#question")
    for letter in "age > 41":
        page.keyboard.type(letter)
        page.clock.run_for(200)
    assert sent == []
    with page.expect_response(lambda answer: "/check" in answer.url):
        page.clock.run_for(400)
    assert len(sent) == 1
    assert "question=age+%3E+41" in sent[0].replace("%20", "+")


def test_a_two_way_table_is_a_grid(page, process):
    ask(page, process, "city", kind="table", second="smoker")
    table = page.locator("#answer table.grid")
    assert table.locator("thead th").all_inner_texts() == ["city", "smoker: yes", "smoker: no"]
    assert table.locator("tbody th").all_inner_texts() == ["Hull", "Leeds", "York"]
    assert table.locator("tbody td").count() == 6
    cell = table.locator("tbody tr", has_text="York").locator("td").first.inner_text()
    assert cell.count("%") == 2
    assert table.locator("tbody td svg").count() == 6


def test_how_to_read_this_has_the_glossarys_words(page, process):
    ask(page, process, "smoker")
    for place, words in (("#answer", ("Surprise", "Price")), ("#ask", ("Ask", "Forecast", "Reading")),
                         ("#figure", ("Forecast", "Surprise", "Price"))):  # fmt: skip
        box = page.locator(f"{place} .help").last
        assert not box.locator("dl").is_visible()
        box.locator("summary").focus()
        page.keyboard.press("Enter")
        for word in words:
            said = box.locator("dt", has_text=word).locator("xpath=following-sibling::dd[1]").inner_text()
            assert said == TEXTS[word].replace("*", "").replace("`", "")


def test_examples_fill_the_box_with_what_is_usual(page, process):
    page.goto(f"{process.url}/studies/patients")
    examples = page.locator("[data-fill]").all_inner_texts()
    assert examples[1] == "smoker"
    assert examples[0] in ("age > 53", "age > 54", "age > 52")
    assert examples[2] == "bmi > 27"
    assert examples[3] == "city = 'York'"
    page.locator("[data-fill]").nth(2).click()
    page.wait_for_selector("#check .fine")
    assert page.locator("#check .wrong").count() == 0


def test_malformed_submissions_are_folded_and_for_their_entrant_alone(chromium, process):
    pages = {who: signed_in(chromium, process, who) for who in ("bo", "cleo")}
    bo = pages["bo"]
    bo.goto(f"{process.url}/contests/coins")
    for name, content in (("bad.csv", "id,prediction\n0,7\n"), ("good.csv", as_csv(process.labels))):
        bo.set_input_files("#predictions", {"name": name, "mimeType": "text/csv", "buffer": content.encode()})
        with bo.expect_response(lambda answer: answer.request.method == "POST") as sent:
            bo.click("button.main")
        sent.value.finished()
    bo.wait_for_selector("#board td:has-text('bo')")
    bo.reload()
    assert bo.inner_text(".refused summary") == "One of your submissions was not scored"
    assert not bo.locator(".refused li").is_visible()
    bo.click(".refused summary")
    assert "column prediction" in bo.inner_text(".refused li")
    cleo = pages["cleo"]
    cleo.goto(f"{process.url}/contests/coins")
    assert cleo.locator(".refused").count() == 0
    assert "column prediction" not in cleo.content()
    for one in pages.values():
        one.context.close()
    with eh.connect(process.url, process.secrets["cleo"]) as server:
        assert "column prediction" not in json.dumps(server.contest("coins").board().to_dict())


_CUT = """() => {
  const wrong = [];
  const wide = document.documentElement.clientWidth;
  for (const one of document.querySelectorAll("main *")) {
    if (!one.checkVisibility() || one.closest("svg, .hidden, thead, pre, legend, [hidden]")) continue;
    const box = one.getBoundingClientRect();
    if (box.right > wide + 0.5 || box.left < -0.5) wrong.push(`${one.tagName} ${one.className} to ${Math.round(box.right)}`);
    if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible"
        && !["SELECT", "TEXTAREA", "INPUT"].includes(one.tagName)) wrong.push(`${one.tagName} ${one.className} scrolls`);
  }
  for (const svg of document.querySelectorAll("main svg")) {
    if (!svg.checkVisibility()) continue;
    const box = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const inside = text.getBoundingClientRect();
      if (inside.right > box.right + 1 || inside.left < box.left - 1) wrong.push(`text ${text.textContent} is cut`);
    }
  }
  return wrong;
}"""


@pytest.mark.parametrize("wide", [1280, 390])
@pytest.mark.parametrize("path", ["/", "/studies/patients", "/studies/patients?kind=table", "/studies/patients/history",
                                  "/studies/patients/acts", "/studies/patients/acts/compare?first=smoker&second=age%3E60",
                                  "/studies/patients/certificate", "/contests/coins", "/contests/coins/finish", "/tokens",
                                  "/nowhere"])  # fmt: skip
def test_no_column_is_cut(chromium, process, path, wide):
    """Nothing beyond the screen, and no table that has to be pushed aside; and the check finds one that has."""
    page = signed_in(chromium, process, "ann", viewport={"width": wide, "height": 844})
    page.goto(process.url + path)
    if path.endswith("kind=table"):
        page.fill("#question", "city")
        page.fill("#second", "smoker")
        page.click("button.main")
        page.wait_for_selector("#answer .grid")
    if path.endswith("certificate"):
        page.wait_for_selector("#audited .ok")
    assert page.evaluate(_CUT) == []
    page.evaluate("document.querySelector('main p').style.minWidth = '3000px'")
    assert page.evaluate(_CUT) != []
    page.context.close()


def test_a_printed_certificate_shows_everything(page, process, tmp_path):
    """What is folded on the screen is on paper; numbers are not broken; a heading is not alone at the end of a page."""
    page.goto(f"{process.url}/studies/patients/certificate/page")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 900})
    unfolded = page.locator("details li").first
    assert unfolded.evaluate("one => one.getBoundingClientRect().height") > 5
    tall = page.locator("td:nth-child(3)").evaluate_all("all => Math.max(...all.map((one) => one.getClientRects().length))")
    assert tall == 1
    words = page.locator("td:nth-child(4)").evaluate_all(
        "all => all.every((one) => getComputedStyle(one).whiteSpace === 'nowrap')"
    )
    assert words
    assert page.locator("h2").first.evaluate("one => getComputedStyle(one).breakAfter") == "avoid"
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert len(page.pdf(format="A4")) > 10_000
