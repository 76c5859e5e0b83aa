"""Checks the links of the built site: `python docs/check_links.py out/site`.

Every link to a page, a place on a page, a picture or a file of the site must lead somewhere. Links to other sites are
checked for their form only: they need https, a host with a dot, and no spaces.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PLAIN_HTTP = ("127.0.0.1", "localhost", "www.w3.org")
"""Hosts that need no https: one's own machine, and the names of formats."""


class Page(HTMLParser):
    """What a page links to, and the places on it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif (
                name in ("href", "src") and value is not None and not (tag == "link" and ("rel", "canonical") in attributes)
            ):
                self.links.append(value)


def pages_of(site: Path) -> list[Path]:
    """The pages of a site; its theme has templates among its own files, which are none."""
    return [path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts]


def broken(site: Path) -> Iterator[str]:
    """Every link that leads nowhere, with its page."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in pages_of(site)}
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            wrong = _wrong(link, path, site.resolve(), pages)
            if wrong:
                yield f"{path.relative_to(site.resolve())}: {link}: {wrong}"


def _wrong(link: str, path: Path, site: Path, pages: dict[Path, Page]) -> str:
    parts = urlsplit(link)
    if parts.scheme in ("data", "mailto"):
        return ""
    if parts.scheme or parts.netloc:
        if " " in link or ("." not in (parts.hostname or "") and parts.hostname != "localhost"):
            return "not the address of a site"
        return "" if parts.scheme == "https" or parts.hostname in PLAIN_HTTP else "not https"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site) or not target.exists():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "there is no such place on the page"
    return ""


def main(site: Path) -> int:
    """Prints what is broken; 1 if anything is."""
    found = list(broken(site))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(pages_of(site))} pages, {len(found)} broken links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
