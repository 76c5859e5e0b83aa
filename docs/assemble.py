"""Puts the sources of the site together in `out/site-source`, for Sphinx: `make docs`.

The pages in docs/ are plain Markdown, with links that work in a clone. Here each page goes to its place in the site, with
its links changed to fit: to another page, or to the file in the repository. README, changelog and others become pages too,
notebooks become Markdown with the outputs that they have, and every public name gets a place in the reference.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parent.parent
OUT = ROOT / "out" / "site-source"
REPOSITORY = "https://github.com/everhold/everhold"

MOVED = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "docs/theory/README.md": "theory/index.md",
    "docs/paper/report.md": "paper/report.md",
}
"""Pages that stand elsewhere in the site, by their path in the repository. All others are in docs/ and keep their path."""

ROOMS = {
    "session": "Holdouts and sessions",
    "statistics": "Statistics",
    "queries": "Questions and answers",
    "trial": "Questions and answers",
    "priors": "Priors",
    "data": "Tables and schemas",
    "learn": "Test sets",
    "gate": "Gates",
    "contest": "Contests",
    "plots": "Pictures",
    "client": "Clients of a server",
    "ledger": "Records and audits",
    "bounds": "Plans, prices and budgets",
    "mechanism": "Mechanisms, rules and tolerance policies",
    "oracle": "Mechanisms, rules and tolerance policies",
    "errors": "Errors and warnings",
}
"""The sections of the API reference, by the room that a name is defined in."""

START = (
    "start/analysts",
    "start/ml_teams",
    "start/contests",
    "start/custodians",
    "Tutorial <tutorial/tutorial>",
    "tutorial/overfit_me",
    "notebooks/flights",
    "glossary",
)

SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "start": ("Start", START),
    "howto": ("How to", ()),
    "reference": ("Reference", ("api/index",)),
    "theory": ("Theory", ()),
    "project": (
        "Project",
        (
            "About everhold <readme>",
            "compatibility",
            "changelog",
            "security",
            "Report a vulnerability <reporting>",
            "architecture",
            "decisions",
            "benchmarks",
            "The report <paper/report>",
            "contributing",
        ),
    ),
}
"""The chapters of the site: a title, and the pages in their order. The other pages of the folder follow.

`Title <page>` gives a page a title of its own in the list.
"""

RUNS = """```{raw} html
<div id="run-here" data-wheel="../WHEEL"></div><script type="module" src="../_static/run.js"></script>
```
"""
"""What makes the cells of a notebook's page run in the browser. `make docs` puts the wheel at the root of the site."""

PICTURES = (".jpg", ".png", ".svg", ".webp")

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*$", flags=re.M | re.S)
_LINK = re.compile(r"(?<=\])\(([^)\s]+)\)")


def sources() -> Iterator[Path]:
    """Every file that becomes a page."""
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        yield ROOT / name
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.ipynb"))


def place(path: Path) -> str | None:
    """Where a file of the repository stands in the site; None if it does not."""
    name = path.relative_to(ROOT).as_posix()
    if name in MOVED:
        return MOVED[name]
    if name.startswith("docs/") and path.suffix in (".md", ".ipynb"):
        return str(PurePosixPath(name.removeprefix("docs/")).with_suffix(".md"))
    if name.startswith("docs/") and path.suffix in PICTURES:
        return name.removeprefix("docs/")
    return None


def version() -> str:
    """Of the package."""
    (found,) = re.findall(
        r'^VERSION = "(.+)"$', (ROOT / "src" / "everhold" / "version.py").read_text(encoding="utf-8"), flags=re.M
    )
    return str(found)


def elsewhere(path: Path) -> str:
    """The address of a file that is not part of the site."""
    kind = "tree" if path.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{path.relative_to(ROOT).as_posix()}"


def rewritten(text: str, page: Path, target: Callable[[Path], str], made: Collection[str] = ()) -> str:
    """A page with other links: `target` gives the address of each file that is linked. Code stays as it is.

    `made`: pictures that are written beside the page.
    """

    def link(found: re.Match[str]) -> str:
        address, sharp, anchor = found[1].partition("#")
        if sharp and not address and f'<a id="{anchor}">' in text:
            address = page.name  # MyST finds such a place by the name of its page
        if not address or address in made or re.match(r"[a-z]+:", address):
            return found[0]
        path = (page.parent / address).resolve()
        if not path.exists():
            raise FileNotFoundError(f"{page.relative_to(ROOT)} links to {address}, which is not there. Correct the link.")
        return f"({target(path)}{sharp}{anchor})"

    def prose(part: str) -> str:
        return _LINK.sub(link, part)

    parts, last = [], 0
    for fence in _FENCE.finditer(text):
        directive = fence[0].startswith("```{")  # directives of MyST hold prose
        block = prose(fence[0]) if directive else re.sub(r"\n+(`+\s*)$", r"\n\1", fence[0])  # no empty last line
        parts += [prose(text[last : fence.start()]), block]
        last = fence.end()
    return "".join([*parts, prose(text[last:])])


def within(here: str) -> Callable[[Path], str]:
    """Addresses as seen from a page of the site."""

    def target(path: Path) -> str:
        to = place(path)
        return elsewhere(path) if to is None else os.path.relpath(to, PurePosixPath(here).parent)

    return target


def notebook(text: str, *, runs: bool = True) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown with the outputs that it has, and the pictures among them by their names."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for number, cell in enumerate(json.loads(text)["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for k, shown in enumerate(cell["outputs"]):
            data: dict[str, Any] = shown.get("data", {})
            if "image/png" in data:
                name = f"cell-{number}-{k}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![What the cell above draws.]({name})")
            elif "text/html" in data:
                parts.append("```{raw} html\n" + "".join(data["text/html"]) + "\n```")
            else:
                plain = "".join(shown.get("text") or data.get("text/plain", "")).rstrip()
                parts.append(f"```{{code-block}} text\n:class: output\n\n{plain}\n```")
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n{RUNS if runs else ''}\n{rest}\n", pictures


def reference() -> dict[str, str]:
    """Pages for every public name, in sections by room."""
    import everhold

    sections: dict[str, list[str]] = {title: [] for title in ROOMS.values()}
    for name in everhold.__all__:
        sections[ROOMS[_room(getattr(everhold, name))]].append(name)
    pages, listed = {}, []
    for title, names in sections.items():
        file = re.sub(r"\W+", "_", title.lower())
        pages[f"api/{file}.rst"] = _section(title, names)
        listed.append(f"   {file}")
    about = "Every name of ``everhold``, from its docstring. Start with :class:`everhold.Holdout`, :class:`everhold.TestSet`"
    about += " or :class:`everhold.Gate`. :doc:`What stays stable </compatibility>` says which of this you can rely on."
    head = ["API reference", "=============", "", about, "", ".. toctree::", "   :maxdepth: 1", ""]
    tables = [line for title, names in sections.items() for line in _summary(title, names)]
    pages["api/index.rst"] = "\n".join([*head, *listed, "", *tables])
    return pages


def _room(thing: Any) -> str:
    import everhold

    module = getattr(thing, "__module__", None)
    if module is None or not module.startswith("everhold."):  # an alias, such as a union of types
        (module,) = [f"everhold.{one}" for one, names in everhold._NAMES_IN.items() if _named(thing) in names]
    return str(module.split(".")[1])


def _named(thing: Any) -> str:
    import everhold

    return next(name for name in everhold.__all__ if getattr(everhold, name) is thing)


def _summary(title: str, names: list[str]) -> list[str]:
    lines = [title, "-" * len(title), "", ".. autosummary::", "   :nosignatures:", ""]
    return [*lines, *(f"   everhold.{name}" for name in names), ""]


def _section(title: str, names: list[str]) -> str:
    import everhold

    lines = [title, "=" * len(title), ""]
    for name in names:
        thing = getattr(everhold, name)
        if isinstance(thing, type):
            kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
        else:
            kind = "autofunction" if callable(thing) and hasattr(thing, "__code__") else "autodata"
        lines += [name, "-" * len(name), "", f".. {kind}:: everhold.{name}"]
        if kind == "autoclass":
            lines += ["   :members:", "   :inherited-members: object, tuple, Exception, Protocol"]
        lines.append("")
    return "\n".join(lines)


def chapters(pages: dict[str, str]) -> dict[str, str]:
    """The first page of every chapter: what its pages are about, and the list that Sphinx makes the sidebar of."""
    found = {}
    for folder, (title, first) in SECTIONS.items():
        given = [_named_page(one) for one in first]
        rest = sorted(name.removesuffix(".md") for name in pages if name.startswith(f"{folder}/"))
        rest = [name for name in rest if name not in dict(given) and not name.endswith("/index")]
        names: list[tuple[str, str | None]] = [*given, *((name, None) for name in rest)]
        here = f"{folder}/index.md"
        text = pages.get(here) or f"# {title}\n\n" + "\n".join(_line(*one, pages, folder) for one in names) + "\n"
        listed = "\n".join(f"{title} </{name}>" if title else f"/{name}" for name, title in names)
        found[here] = f"{text}\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{listed}\n```\n"
    return found


def _named_page(text: str) -> tuple[str, str | None]:
    """A page and its title, of `Title <page>` or of the page alone."""
    title, _, name = text.rpartition(" <")
    return name.removesuffix(">"), title or None


def _line(name: str, title: str | None, pages: dict[str, str], folder: str) -> str:
    """A page in a list: its title, and the first sentence of its first paragraph."""
    if f"{name}.md" not in pages:
        return f"* [API reference](../{name}.rst): every public name, from its docstring."
    text = _FENCE.sub("", pages[f"{name}.md"])
    heading = re.search(r"^# (.+)$", text, flags=re.M)
    if heading is None:
        raise ValueError(f"{name}.md has no title. Expected a line that begins with '# '.")
    paragraphs = (part.strip() for part in re.split(r"\n\s*\n", text[heading.end() :]))
    first = next((part for part in paragraphs if re.match(r"[\w*\[`(]", part) and not part.startswith(("* ", "*Func"))), "")
    about = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first.partition("\n")[0])
    link = f"* [{title or heading[1]}]({os.path.relpath(name + '.md', folder)})"
    return f"{link}: {about}" if about else link


def llms(text: str) -> str:
    """`llms.txt` for the root of the site: its links lead to the pages' sources there."""

    def link(found: re.Match[str]) -> str:
        to = place(ROOT / found[1])
        return found[0] if to is None else f"(_sources/{to}.txt)"

    return _LINK.sub(link, text)


def written() -> dict[str, str | bytes]:
    """Every file of the sources of the site, with its content."""
    pages: dict[str, str] = {}
    files: dict[str, str | bytes] = {}
    for path in sources():
        here = place(path)
        if here is None:
            raise ValueError(f"{path} has no place in the site. Expected a page in docs/, or a line in MOVED.")
        text = path.read_text(encoding="utf-8")
        pictures: dict[str, bytes] = {}
        if path.suffix == ".ipynb":
            text, pictures = notebook(text, runs=path.parent.name == "tutorial")
            text = text.replace("WHEEL", f"everhold-{version()}-py3-none-any.whl")
            files |= {str(PurePosixPath(here).parent / name): content for name, content in pictures.items()}
        pages[here] = rewritten(text, path, within(here), pictures)
    for path in sorted((ROOT / "docs").rglob("*.*")):
        here = place(path)
        if here is not None and path.suffix in PICTURES:
            files[here] = path.read_bytes()
    files |= pages | chapters(pages) | reference()
    files["_extra/llms.txt"] = llms((ROOT / "llms.txt").read_text(encoding="utf-8"))
    return files


def main(out: Path = OUT) -> None:
    """Writes everything; what was there before is removed."""
    shutil.rmtree(out, ignore_errors=True)
    for name, content in written().items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
