"""Takes a picture of every page of a server, in both themes, wide and narrow: `make screenshots`.

It makes a study, a contest and a gate of its own in a temporary folder, starts `everhold serve` on them, and looks at them
with Chromium. `--only board` takes some pages only; `--keep` leaves the pictures of other pages where they are.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import everhold as eh
from everhold.cli.demo_study import make_demo_study
from everhold.server.tokens import Tokens

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "figures" / "pages"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
WIDTHS = (1280, 390)
TALLEST = {1280: 1500, 390: 1700}  # of a picture
MOST_BYTES = 60_000

_SETTINGS = """
grid_ms = 20
tokens = "everhold.tokens.json"
requests_per_minute = 100000
burst = 10000
anonymous_per_minute = 10000
[[study]]
path = "patients.everhold"
title = "Patients of 2026"
description = "Synthetic adults of four cities: age, smoking, body mass and blood pressure. The public table is last year's."
custodian = "Office for made-up data"
contact = "data@example.org"
[[study]]
path = "coins.everhold"
[[study]]
path = "prompts.everhold"
description = "200 sealed cases. A candidate is promoted if it is certified to be better than the present prompt."
[[study]]
path = "closed.everhold"
title = "Patients of 2025"
"""


def make_studies(folder: Path) -> None:
    """The study of the demo, a study that is closed, a contest and a gate."""
    make_demo_study(folder / "patients.everhold")
    lines = (folder / "patients.private.csv").read_text().splitlines(keepends=True)
    (folder / "rows.csv").write_text("".join(lines[:9_001]))
    prior = eh.Reference(str(folder / "patients.last_year.csv"))
    with eh.Holdout.create(folder / "closed.everhold", folder / "rows.csv", prior=prior) as held:
        held.ask("smoker AND age > 60", who="ann")
        held.close(["smoker", "bmi > 30"], who="ann")
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 400)
    eh.Contest.create(folder / "coins.everhold", labels, title="Which coins are fair", classes=[0, 1], seed=2, sealed=0)
    contest = eh.Contest(folder / "coins.everhold")
    for name, right in (("ann", 0.83), ("bo", 0.81), ("cleo", 0.7), ("dora", 0.56)):
        contest.submit(name, np.where(rng.random(400) < right, labels, 1 - labels))
    contest.release()
    first = {f"case-{k}": int(rng.random() < 0.6) for k in range(200)}
    with eh.Gate.create(folder / "prompts.everhold", first, name="prompt 1") as gate:
        gate.check({case: int(rng.random() < 0.58) for case in first}, name="prompt 2")
        gate.check({case: max(was, int(rng.random() < 0.7)) for case, was in first.items()}, name="prompt 3")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server on them; its address."""
    (folder / "everhold.toml").write_text(_SETTINGS)
    command = [sys.executable, "-m", "everhold", "serve", "--config", str(folder / "everhold.toml"), "--port", "0"]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("Serving "):
                yield line.rsplit(" ", 1)[1].strip()
                break
        else:
            raise SystemExit("the server did not start.")
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()


def _ask(page: Page, question: str, **fields: str) -> None:
    for name, value in fields.items():
        (page.select_option if name == "kind" else page.fill)(f"#{name}", value)
    page.fill("#question", question)
    page.click("button.main")
    page.wait_for_selector("#answer .answer")


def _history(study: Any) -> None:
    """Something to look at, asked by several people."""
    study.ask_many(["age > 40", "bmi > 30", "city = 'York'", "systolic > 140 AND age > 60"])
    study.ask(eh.Mean("systolic", given="smoker"))
    study.ask(eh.Median("bmi"))
    study.ask(eh.Table("city", "smoker"))
    study.compare("city = 'York'", "city = 'Leeds'")
    study.best_of(["smoker AND city = 'York'", "smoker AND city = 'Leeds'", "smoker AND city = 'Hull'"])
    study.read("smoker AND age > 60")


# what each picture shows: the page, signed in as whom, and what is done there first
def _surprise(page: Page) -> None:
    _ask(page, "smoker AND city = 'Leeds'")


def _quiet(page: Page) -> None:
    _ask(page, "age > 65")


def _mean(page: Page) -> None:
    _ask(page, "bmi", kind="mean", given="smoker")


def _difference(page: Page) -> None:
    _ask(page, "smoker", kind="difference", first_group="city = 'York'", second_group="city = 'Hull'")


def _table(page: Page) -> None:
    _ask(page, "city", kind="table", second="smoker")


def _typing(page: Page) -> None:
    page.fill("#question", "systolic > 150")
    page.wait_for_selector("#check .fine")
    page.click("#ask .help summary")


def _wrong(page: Page) -> None:
    page.fill("#question", "agge > 40 AND smoker")
    page.wait_for_selector("#check .wrong")
    page.click("button.main")
    page.wait_for_selector("#answer .error")


def _preview(page: Page) -> None:
    page.fill("#questions", "smoker\nbmi > 30\nsystolic > 140")
    page.wait_for_selector("#preview code:has-text('systolic')")


def _result(page: Page) -> None:
    _preview(page)
    page.click("#do")
    page.wait_for_selector("#answer h2:has-text('3 results')")


def _audited(page: Page) -> None:
    page.wait_for_selector("#audited .ok")


def _malformed(page: Page) -> None:
    page.set_input_files("#predictions", {"name": "mine.csv", "mimeType": "text/csv", "buffer": b"id,prediction\n0,7\n"})
    page.click("button.main")
    page.wait_for_selector("#submitted .error")
    page.reload()
    page.click(".refused summary")


def _unfold(page: Page) -> None:
    page.click("tbody summary >> nth=0")


def _nothing(page: Page) -> None:
    """As it comes."""


PAGES: dict[str, tuple[str, str, Callable[[Page], None]]] = {
    "sign-in": ("", "/sign-in", _nothing),
    "studies": ("ann", "/", _nothing),
    "study": ("ann", "/studies/patients", _nothing),
    "typing": ("ann", "/studies/patients", _typing),
    "answer": ("ann", "/studies/patients", _quiet),
    "surprise": ("ann", "/studies/patients", _surprise),
    "mean": ("ann", "/studies/patients", _mean),
    "difference": ("ann", "/studies/patients", _difference),
    "table": ("ann", "/studies/patients", _table),
    "wrong": ("ann", "/studies/patients", _wrong),
    "acts": ("ann", "/studies/patients/acts", _nothing),
    "act-preview": ("ann", "/studies/patients/acts/read_many", _preview),
    "act-result": ("ann", "/studies/patients/acts/read_many", _result),
    "history": ("ann", "/studies/patients/history", _unfold),
    "certificate": ("ann", "/studies/patients/certificate", _audited),
    "certificate-page": ("ann", "/studies/patients/certificate/page", _nothing),
    "closed": ("ann", "/studies/closed", _nothing),
    "tokens": ("ann", "/tokens", _nothing),
    "board": ("bo", "/contests/coins", _nothing),
    "entry-malformed": ("bo", "/contests/coins", _malformed),
    "finish": ("ann", "/contests/coins/finish", _nothing),
    "gate": ("ann", "/gates/prompts", _nothing),
    "not-found": ("ann", "/studies/nowhere", _nothing),
    "not-allowed": ("bo", "/tokens", _nothing),
    "api": ("ann", "/docs", lambda page: page.wait_for_selector(".opblock") and None),
}


def _save(shot: bytes, place: Path, width: int) -> int:
    """As a small WebP: the height is bounded, and so are the colours."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image = image.crop((0, 0, image.width, min(image.height, TALLEST[width])))
    for colours in (128, 64, 32):
        few = image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.convert("RGB").save(place, "WEBP", lossless=True, quality=80, method=4)
        if place.stat().st_size <= MOST_BYTES:
            break
    return place.stat().st_size


def _take(browser: Browser, url: str, secrets: dict[str, str], theme: str, width: int, only: list[str]) -> int:
    total = 0
    for who in ("", "ann", "bo"):
        wanted = {name: one for name, one in PAGES.items() if one[0] == who and (not only or name in only)}
        if not wanted:
            continue
        context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 800})  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(60_000)
        if who:
            page.goto(f"{url}/sign-in")
            page.fill("#token", secrets[who])
            page.keyboard.press("Enter")
            page.wait_for_selector("h1:has-text('Studies')")
        for name, (_, path, do) in wanted.items():
            page.goto(url + path)
            do(page)
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width and name != "api":
                raise SystemExit(f"{name} is {wide} pixels wide on a screen of {width}.")
            page.evaluate("document.activeElement.blur()")
            page.mouse.move(0, 0)
            shot = page.screenshot(full_page=True, animations="disabled")
            total += _save(shot, FOLDER / f"{name}-{theme}-{width}.webp", width)
        context.close()
    return total


def main() -> int:
    """Takes them; prints how large they are."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", nargs="*", default=[], choices=list(PAGES), help="these pages")
    asked.add_argument("--pdf", type=Path, help="also write the certificate as a PDF, as a browser prints it")
    given = asked.parse_args()
    if CHROMIUM is None:
        raise SystemExit("Chromium is missing (Debian: apt-get install chromium), or set CHROMIUM.")
    if not given.only:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["EVERHOLD_HOME"] = str(folder / "home")  # a registry of its own
        make_studies(folder)
        tokens = Tokens(folder / "everhold.tokens.json")
        secrets = {"ann": tokens.create("ann", "custodian")[0], "bo": tokens.create("bo", "analyst")[0]}
        tokens.create("agent", "analyst", studies=["patients"], days=90)
        tokens.create("reviewer", "auditor", days=365)
        with served(folder) as url, sync_playwright() as play:
            with eh.connect(url, secrets["bo"]) as server:
                _history(server.study("patients"))
            browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            total = 0
            for theme in ("light", "dark"):
                for width in WIDTHS:
                    total += _take(browser, url, secrets, theme, width, given.only)
            if given.pdf is not None:
                context = browser.new_context()
                page = context.new_page()
                page.goto(f"{url}/sign-in")
                page.fill("#token", secrets["ann"])
                page.keyboard.press("Enter")
                page.wait_for_selector("h1:has-text('Studies')")
                page.goto(f"{url}/studies/patients/certificate/page")
                page.pdf(path=given.pdf, format="A4", margin=dict.fromkeys(("top", "right", "bottom", "left"), "15mm"))
            browser.close()
    print(f"{total / 1e6:.2f} MB in {FOLDER.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
