"""Runs the notebooks of the built site in Chromium, with the real wheel: `python docs/try_browser.py out/site`.

Every cell has to show what the notebook shows, to the bit. Python comes from where the page says. Where that cannot be
reached, `--pyodide FOLDER` serves a copy of Pyodide's distribution in its place; cells whose packages are missing there can
be left out by what they import: `--without sklearn`. Needs playwright, and Chromium or Chrome.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Route, sync_playwright

ROOT = Path(__file__).parent.parent
CDN = "https://cdn.jsdelivr.net/pyodide/"
TYPES = {".js": "text/javascript", ".json": "application/json", ".mjs": "text/javascript", ".wasm": "application/wasm"}
ENDED = """
document.querySelector("#run-here").dataset.state
|| document.querySelector(".run-status").textContent.includes("could not be")
"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Nothing."""


def _route(folder: Path | None, route: Route) -> None:
    url = route.request.url
    if url.startswith("http://127.0.0.1") or (folder is None and url.startswith(CDN)):
        route.continue_()
    elif folder is not None and url.startswith(CDN) and (file := folder / url.rpartition("/")[2]).exists():
        kind = TYPES.get(file.suffix, "application/octet-stream")
        route.fulfill(body=file.read_bytes(), headers={"content-type": kind, "access-control-allow-origin": "*"})
    else:
        route.abort()


def _text(cell: dict[str, Any]) -> str:
    """What a cell of a notebook shows."""
    return "".join("".join(one.get("text") or one["data"]["text/plain"]) for one in cell["outputs"]).strip()


def tried(page: Page, address: str, notebook: Path, without: list[str]) -> tuple[int, int, list[str]]:
    """How many cells are equal, how many were left out, and what differs."""
    page.goto(address)
    page.click("#run-here button")
    page.wait_for_function(ENDED, timeout=0)
    print(f"{notebook.stem}: {page.text_content('.run-status')}")
    shown = [(one.get_attribute("data-text") or "").strip() for one in page.query_selector_all(".run-output")]
    cells = [one for one in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if one["cell_type"] == "code"]
    if len(shown) != len(cells):
        return 0, 0, [f"{len(shown)} cells ran of {len(cells)}"]
    equal, left_out, differing = 0, 0, []
    skipping = False  # after a cell without its package, those that use its names, up to the next section
    for k, (cell, got) in enumerate(zip(cells, shown, strict=True), 1):
        source = "".join(cell["source"])
        if any(f"from {name}" in source or f"import {name}" in source for name in without):
            skipping = True
        elif "holdout" in source:
            skipping = False
        if skipping:
            left_out += 1
        elif got == _text(cell):
            equal += 1
        else:
            differing.append(f"cell {k} shows {got!r}. Expected {_text(cell)!r}.")
    return equal, left_out, differing


def main() -> int:
    """Prints what differs; 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pyodide", type=Path)
    parser.add_argument("--without", action="append", default=[])
    given = parser.parse_args()
    handler = functools.partial(_Quiet, directory=str(given.site))
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    wrong = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for notebook in sorted((ROOT / "docs" / "tutorial").glob("*.ipynb")):
            page = browser.new_page()
            page.context.route("**/*", functools.partial(_route, given.pyodide))
            address = f"http://127.0.0.1:{server.server_port}/tutorial/{notebook.stem}.html"
            equal, left_out, differing = tried(page, address, notebook, given.without)
            print(f"  {equal} cells equal, {left_out} left out, {len(differing)} differ", *differing, sep="\n  ")
            wrong += len(differing) + (equal == 0)
            page.close()
        browser.close()
        server.shutdown()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
