"""The page in a real browser: Chromium, both themes, a narrow screen, the keyboard alone.

Needs Chromium (Debian's package `chromium`); CI installs it. Screenshots of every page go to `out/screenshots`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import everhold as eh
from everhold.acts import ACTS
from tests.server.serving import Process, as_csv, make_contest, make_study, wait_for

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
SHOTS = Path(__file__).parents[2] / "out" / "screenshots"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def labels(folder):
    return make_contest(folder)[1]


@pytest.fixture(scope="module")
def process(folder, labels):
    studies = [make_study(folder), make_study(folder, "strict", half_width=0.1)]
    studies += [make_study(folder, name) for name in ("fresh", "early", "last-light", "last-dark")]
    with Process(folder, *studies, folder / "coins.everhold", grid_ms=20) as made:
        made.secret = made.tokens.create("ann", "custodian")[0]
        with eh.connect(made.url, made.secret) as server:  # some history to look at
            server.study("patients").ask_many(["age > 41", "city = 'Hull'", "bmi > 30", "city = 'York' AND age > 50"])
            server.study("early").ask_many(["age > 41", "bmi > 30"])
        yield made


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def cookies(chromium, process):
    """Of somebody who has signed in: once for all tests but that of signing out."""
    context = chromium.new_context()
    _sign_in(context.new_page(), process)
    yield context.storage_state()
    context.close()


@pytest.fixture(params=["light", "dark"])
def page(request, chromium, process, cookies):
    """Signed in; whatever the page complains of fails the test, and so does any request to elsewhere."""
    signs_out = request.function is test_signing_out
    context = chromium.new_context(
        color_scheme=request.param,
        viewport={"width": 1100, "height": 900},
        storage_state=None if signs_out else cookies,
    )
    found = context.new_page()
    found.set_default_timeout(180_000)
    found.theme = request.param
    complaints = []
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    found.on("request", lambda sent: None if sent.url.startswith((process.url, "data:")) else complaints.append(sent.url))
    if signs_out:
        _sign_in(found, process)
    else:
        found.goto(process.url)
        assert found.inner_text("h1") == "Studies"
    yield found
    context.close()
    # a refused question is logged by the browser, a check that a later one has replaced by htmx
    fine = ("status of 4", "htmx:sendAbort", "htmx:afterRequest")
    serious = [one for one in complaints if not any(word in one for word in fine)]
    assert not serious


def _sign_in(page, process):
    page.goto(process.url)
    assert page.url.endswith("/sign-in?next=/")
    page.fill("#token", process.secret)
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Studies')")


def _shot(page, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}-{page.theme}.png", full_page=True)


def _open(page, process, path):
    page.goto(process.url + path)


def test_ask_and_see_the_interval(page, process):
    _shot(page, "studies")
    page.click("a:has-text('patients')")
    page.fill("#question", "age > 40 AND smoker")
    page.wait_for_selector("#check .fine")
    before = int(page.inner_text("#facts dd >> nth=0").replace(",", ""))
    page.click("button.main")
    page.wait_for_selector("#answer .value")
    assert page.inner_text("#answer .value").endswith("%")
    assert "For the population: between" in page.inner_text("#answer")
    bar = page.locator("#answer svg .bar").bounding_box()
    dot = page.locator("#answer svg .dot").bounding_box()
    assert bar["width"] > 5
    assert bar["x"] < dot["x"] + dot["width"] / 2 < bar["x"] + bar["width"]
    after = int(page.inner_text("#facts dd >> nth=0").replace(",", ""))
    assert after == before + 1 or page.theme == "dark"  # asked before in the other theme: the same answer, for nothing
    assert page.locator("#figure svg circle").count() > 2
    assert "smoker AND age > 40" in page.inner_text("#recent")
    _shot(page, "answer")


def test_a_surprise_looks_like_one(page, process):
    _open(page, process, "/studies/fresh")
    page.fill("#question", "smoker")
    page.click("button.main")
    page.wait_for_selector("#answer .answer.surprise")
    assert "this answer uses the private data" in page.inner_text("#answer")
    _shot(page, "surprise")


def test_a_failed_question_keeps_its_text(page, process):
    _open(page, process, "/studies/patients")
    page.fill("#question", "agge > 40")
    page.wait_for_selector("#check .wrong")
    assert "Did you mean 'age'" in page.inner_text("#check")
    page.click("button.main")
    page.wait_for_selector("#answer .error")
    assert page.input_value("#question") == "agge > 40"
    assert "Nothing was charged" in page.inner_text("#answer")
    _shot(page, "error")
    page.fill("#question", "age > 40")
    page.click("button.main")
    page.wait_for_selector("#answer .value")


def test_the_keyboard_alone(page, process):
    """Completion by arrows, asking by Ctrl+Enter, and a visible focus all the way."""
    _open(page, process, "/studies/patients")
    page.focus("#question")
    page.keyboard.type("NOT smo")
    page.wait_for_selector("#words li")
    assert page.get_attribute("#words", "role") == "listbox"
    _shot(page, "completion")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#question", "aria-activedescendant") == "word-0"
    page.keyboard.press("Enter")
    assert page.input_value("#question") == "NOT smoker"
    page.keyboard.type(" AND cit")
    page.wait_for_selector("#words li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type(" = 'Yo")
    page.wait_for_selector("#words li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#question") == "NOT smoker AND city = 'York'"
    page.keyboard.type(" AND age")
    page.keyboard.press("Escape")
    assert page.is_hidden("#words")
    page.keyboard.type(" > 20")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer .value")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_other_kinds_show_their_fields(page, process):
    _open(page, process, "/studies/patients")
    assert page.is_hidden("#level")
    page.select_option("#kind", "quantile")
    assert page.is_visible("#level")
    page.fill("#question", "age")
    page.fill("#level", "0.9")
    page.click("button.main")
    page.wait_for_selector("#answer h2:has-text('0.9 quantile of age')")
    page.select_option("#kind", "table")
    page.fill("#question", "city")
    page.fill("#second", "smoker")
    page.click("button.main")
    page.wait_for_selector("#answer table")
    assert page.locator("#answer table svg").count() >= 6
    _shot(page, "table")
    page.click("[data-fill] >> nth=0")
    assert page.input_value("#kind") == "share"
    assert page.input_value("#question")


def test_history(page, process):
    _open(page, process, "/studies/patients/history")
    every = page.locator("tbody tr").count()
    page.fill("#contains", "city")
    wait_for(lambda: page.wait_for_timeout(20) or 0 < page.locator("tbody tr").count() < every)
    assert all("city" in text for text in page.locator("tbody tr").all_inner_texts())
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    with page.expect_download() as coming:
        page.click("a:has-text('CSV')")
    # leaving the field asks for nothing: an answer would replace the link under the pointer, between press and release
    assert [url for url in sent if "history?" in url] == []
    lines = Path(coming.value.path()).read_text().splitlines()
    assert lines[0].startswith("number,part_of,round,act,question,result,value")
    assert all("city" in line or line.startswith(",") for line in lines[1:])
    _shot(page, "history")


def test_the_parts_of_a_statistic_unfold(page, process):
    """The history shows what was asked; its parts come with a click, or with the keyboard."""
    _open(page, process, "/studies/patients")
    page.select_option("#kind", "mean")
    page.fill("#question", "bmi")
    page.fill("#given", "smoker")
    page.click("button.main")
    page.wait_for_selector("#answer .value")
    _open(page, process, "/studies/patients/history")
    row = page.locator("tbody tr", has_text="mean of bmi").first
    assert row.locator(".part").first.is_hidden()
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    assert row.locator(".part").first.is_visible()
    assert row.locator(".part").count() == 1
    _shot(page, "history-parts")


def test_read_and_see_what_it_costs(page, process):
    """The live check shows both widths and costs; the button says what it does; the history shows the reading."""
    _open(page, process, "/studies/patients")
    question = "bmi > 28" if page.theme == "light" else "bmi > 29"
    page.fill("#question", question)
    wait_for(lambda: page.wait_for_timeout(20) or page.locator("#check .fine").count() == 2)
    ask, read = page.locator("#check .fine").all_inner_texts()
    assert ask.startswith("Can be asked. Ask: ")
    assert "almost free" in ask
    assert read.startswith("Read: about between ")
    assert "nats" in read
    assert page.inner_text("button.main") == "Ask"
    page.check("input[name=act][value=read]")
    assert page.inner_text("button.main") == "Read"
    _shot(page, "read-check")
    before = page.inner_text("#width")
    page.click("button.main")
    page.wait_for_selector("#answer .value")
    assert "Private reading." in page.inner_text("#answer")
    assert "reading" in page.locator("#recent tbody tr >> nth=0").inner_text()
    wait_for(lambda: page.wait_for_timeout(20) or page.inner_text("#width") != before)
    assert page.inner_text("#width").startswith("The next reading of a share: ")
    _shot(page, "read")


def test_acts_in_the_history(page, process):
    with eh.connect(process.url, process.secret) as server:
        study = server.study("patients")
        study.best_of(["smoker", "age > 60"], request_id="browser-best")
        study.compare("smoker", "age > 80", request_id="browser-compare")
    _open(page, process, "/studies/patients/history")
    tags = page.locator("tbody .tag").all_inner_texts()
    assert {"choice", "verdict"} <= set(tags)
    _shot(page, "history-acts")


def test_an_act_is_previewed_while_it_is_typed(page, process):
    """The button that does it comes with the preview; the result, the price and the list below follow."""
    _open(page, process, "/studies/patients/acts/read_many")
    assert page.locator("#do").count() == 0
    limit = 33 if page.theme == "light" else 34
    page.focus("#questions")
    page.keyboard.type("smo")
    page.wait_for_selector("#questions-words li")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#questions", "aria-activedescendant") == "questions-word-0"
    page.keyboard.press("Enter")
    page.keyboard.type(f" AND age > {limit}\nbmi > {limit}")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"#preview code:has-text('bmi > {limit}')")
    assert page.locator("#preview tbody tr").count() == 2
    assert "instead of" in page.inner_text("#preview")
    _shot(page, "act-preview")
    before = page.inner_text("#width")
    page.click("#do")
    page.wait_for_selector("#answer h2:has-text('2 results')")
    assert page.locator("#answer svg .bar").count() == 2
    assert "The next reading of a share: " in page.inner_text("#answer")
    assert page.inner_text("#width") != before
    assert page.inner_text("#preview") == ""
    assert "reading" in page.locator("#recent tbody tr >> nth=0").inner_text()
    _shot(page, "act")


def test_what_is_wrong_with_an_act_is_said_beside_it(page, process):
    _open(page, process, "/studies/patients/acts/compare")
    with page.expect_response(lambda answer: answer.request.method == "POST") as checked:
        page.fill("#first", "smoker")
    checked.value.finished()
    assert page.inner_text("#preview") == ""  # half a form is not an error
    page.fill("#second", "agge > 80")
    page.wait_for_selector("#preview .wrong")
    assert "Did you mean 'age'" in page.inner_text("#preview")
    _shot(page, "act-wrong")
    page.fill("#second", "age > 80")
    page.wait_for_selector("#do")
    page.click("#do")
    page.wait_for_selector("#answer .verdict:has-text('Yes')")
    assert "Certified verdict." in page.inner_text("#answer")


def test_the_best_is_chosen_and_read_by_the_keyboard(page, process):
    _open(page, process, "/studies/patients/acts/best_of")
    page.focus("#questions")
    page.keyboard.type("bmi > 39\nage > 20")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#do")
    page.focus("#do")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer .value:has-text('age > 20')")
    page.click("text=Read it")
    assert page.input_value("#question") == "age > 20"
    page.wait_for_selector("#do")


def test_an_answer_is_certified_from_the_history(page, process):
    _open(page, process, "/studies/early/history")
    page.click("tbody tr >> nth=0 >> text=Certify")
    page.wait_for_selector("#do")
    assert "the interval is narrower" in page.inner_text("#preview")
    _shot(page, "certify")
    if page.theme == "dark":
        page.click("#do")
        page.wait_for_selector("#answer .value")
        assert "Certificate: a narrower interval" in page.inner_text("#answer")


def test_closing_is_confirmed(page, process):
    study = f"last-{page.theme}"
    _open(page, process, f"/studies/{study}/acts/close")
    page.fill("#questions", "smoker\nbmi > 30")
    page.wait_for_selector("#do")
    assert "nothing private is read again" in page.inner_text("#preview")
    page.click("#do")
    page.wait_for_selector("#unsure")
    assert page.input_value("#questions") == "smoker\nbmi > 30"
    _shot(page, "close")
    page.check("#sure")
    page.click("#do")
    page.wait_for_selector("#answer h2:has-text('2 results')")
    assert page.locator("#act").count() == 0
    _shot(page, "closed")
    _open(page, process, f"/studies/{study}")
    assert page.locator("textarea").count() == 0
    assert "Closed:" in page.inner_text("#width")


def test_acts_without_scripts(chromium, process):
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.set_default_timeout(180_000)
    _sign_in(page, process)
    for name, fields in (
        ("read_many", {"questions": "bmi > 35\nage > 70"}),
        ("best_of", {"questions": "bmi > 35\nage > 70"}),
        ("is_better", {"first": "bmi > 35", "second": "age > 70"}),
        ("compare", {"first": "bmi > 35", "second": "age > 70"}),
    ):
        _open(page, process, f"/studies/patients/acts/{name}")
        for field, text in fields.items():
            page.fill(f"#{field}", text)
        page.click("#try")
        page.click("#do")
        page.wait_for_selector("#answer .answer")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_certificate(page, process):
    _open(page, process, "/studies/patients/certificate")
    page.wait_for_selector("#audited .ok")
    _shot(page, "certificate")
    page.click("text=Open the certificate")
    page.wait_for_selector("h1:has-text('Certificate of patients')")


def test_the_board(page, process, labels, tmp_path):
    _open(page, process, "/contests/coins")
    place = tmp_path / "mine.csv"
    place.write_text(as_csv(labels))
    page.set_input_files("#predictions", place)
    page.click("button.main")
    page.wait_for_selector("#submitted .value")
    page.wait_for_selector("#board td:has-text('ann')")
    _shot(page, "board")
    place.write_text("id,prediction\n0,7\n")
    page.set_input_files("#predictions", place)
    page.click("button.main")
    page.wait_for_selector("#submitted .error")
    assert "Line 2, column prediction" in page.inner_text("#submitted")


def test_tokens_are_made_and_revoked(page, process):
    _open(page, process, "/tokens")
    page.fill("#name", f"bob {page.theme}")
    page.select_option("#studies", "patients")
    page.click("text=Make a token")
    secret = page.inner_text("#secret")
    assert process.tokens.find(secret).studies == ("patients",)
    _shot(page, "tokens")
    page.on("dialog", lambda asked: asked.accept())
    page.click(f"tr:has-text('bob {page.theme}') button.danger")
    page.wait_for_selector(f"tr:has-text('bob {page.theme}') td:has-text('revoked')")
    assert process.tokens.find(secret) is None


def test_the_api_page_works_without_internet(page, process):
    _open(page, process, "/docs")
    page.wait_for_selector(".opblock-summary-path")
    assert page.locator(".opblock").count() >= 20
    _shot(page, "docs")


def test_signing_out(page, process):
    page.click("text=Sign out")
    page.wait_for_selector("#token")
    _open(page, process, "/studies/patients")
    assert "/sign-in" in page.url


@pytest.mark.parametrize("path", ["/", "/studies/patients", "/studies/patients/history", "/contests/coins", "/tokens",
                                  "/studies/strict", "/studies/patients/certificate", "/studies/patients/acts",
                                  "/studies/patients/acts/compare", "/studies/early/acts/certify?round=1",
                                  "/studies/fresh/acts/close?questions=smoker"])  # fmt: skip
def test_narrow_screens_do_not_scroll_sideways(page, process, path):
    page.set_viewport_size({"width": 360, "height": 740})
    _open(page, process, path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    _shot(page, "narrow" + path.partition("?")[0].replace("/", "-"))


_CONTRAST = """() => {
  const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (text) => {
    probe.clearRect(0, 0, 1, 1); probe.fillStyle = text; probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const light = (c) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = c.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const seen = element.checkVisibility({visibilityProperty: true}) && !element.closest("svg, script, [disabled]");
    if (!text || !seen) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(rgba(style.color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) low.push(`${element.tagName} ${element.className}: ${ratio.toFixed(2)}`);
  }
  return low;
}"""


@pytest.mark.parametrize("path", ["/", "/studies/fresh", "/studies/patients/history", "/contests/coins", "/tokens",
                                  "/studies/patients/acts", "/studies/early/acts/certify?round=1",
                                  "/studies/fresh/acts/close?questions=smoker"])  # fmt: skip
def test_contrast_is_aa(page, process, path):
    """WCAG 2.2 AA: 4.5 to 1 for text, 3 to 1 for large text; and the check finds grey on grey."""
    _open(page, process, path)
    if path == "/studies/fresh":
        page.fill("#question", "smoker")
        page.click("button.main")
        page.wait_for_selector("#answer .surprise")
        page.fill("#question", "smokr")
        page.wait_for_selector("#check .wrong")
    assert page.evaluate(_CONTRAST) == []
    page.evaluate("document.querySelector('h1').style.color = getComputedStyle(document.body).backgroundColor")
    assert len(page.evaluate(_CONTRAST)) == 1


@pytest.mark.parametrize("path", ["/", "/studies/patients", "/studies/patients/history", "/contests/coins", "/tokens",
                                  "/studies/patients/acts", *(f"/studies/fresh/acts/{name}" for name in ACTS),
                                  "/studies/fresh/acts/close?questions=smoker"])  # fmt: skip
def test_everything_has_a_name_for_those_who_hear_the_page(page, process, path):
    _open(page, process, path)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a, img, svg")]
        .filter((one) => one.checkVisibility())
        .filter((one) => !(one.labels && one.labels.length) && !one.getAttribute("aria-label") && !one.hasAttribute("alt")
          && !one.textContent.trim())
        .map((one) => one.outerHTML.slice(0, 100))"""
    )
    assert unnamed == []
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("main").count() == 1
