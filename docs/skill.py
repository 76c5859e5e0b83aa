"""Writes `llms.txt` and the agent skill `skills/everhold` from the documentation: `make skill`.

A page's title and its first paragraph describe it; the skill's references are the pages themselves. A test compares what is
committed with what this file would write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
REFERENCES = ("howto/gate", "howto/acts", "howto/agent", "howto/adapters", "howto/tune", "reference/expressions", "glossary")
SECTIONS = {"Start": "start", "How to": "howto", "Reference": "reference", "Theory": "theory"}
DESCRIPTION = (
    "Evaluate candidates on sealed cases or private rows without overfitting them, using everhold (gates that promote or "
    "keep with the command everhold gate, holdouts that answer adaptive questions with valid intervals by ask, read, "
    "best_of and close, test sets). Use it when a model, prompt or program is improved against the same evaluation again "
    "and again, when a score may be luck after many looks, or when a tool named everhold is offered."
)


def written() -> dict[str, str]:
    """Every file with its content."""
    files = {"llms.txt": _llms(), "skills/everhold/SKILL.md": _skill()}
    for name in REFERENCES:
        files[f"skills/everhold/references/{_reference(name)}"] = _standing_alone(_page(name), name)
    return files


def _page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def _reference(name: str) -> str:
    return f"{name.rpartition('/')[2]}.md"


def _plain(text: str) -> str:
    """Without links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _about(text: str) -> tuple[str, str]:
    """A page's title, and the first sentence of its first paragraph."""
    title = re.search(r"^# (.+)$", text, flags=re.M)
    after = text[title.end() :] if title else text
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", after)]
    first = next((part for part in paragraphs if re.match(r"[\w*\[`(]", part)), "")
    return title[1] if title else "", _plain(first.partition("\n")[0])


def _part(text: str, heading: str) -> str:
    """A section of a page, by its heading."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |^<a id=|\Z)", text, flags=re.M | re.S)
    if found is None:
        raise ValueError(f"there is no section {heading!r}. Expected it in README.md.")
    return found[1].strip()


def _llms() -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (summary,) = re.findall(r"^[*][*](.+)[*][*]$", readme, flags=re.M)[:1]
    lines = ["# everhold", "", f"> {summary}", ""]
    lines += [_plain(_part(readme, "Which act to use")), ""]
    for section, folder in SECTIONS.items():
        lines += [f"## {section}", ""]
        for path in sorted((ROOT / "docs" / folder).glob("*.md")):
            title, first = _about(path.read_text(encoding="utf-8"))
            lines.append(f"- [{title}](docs/{folder}/{path.name})" + (f": {first}" if first else ""))
        lines.append("")
    lines += ["## Optional", ""]
    for path in sorted((ROOT / "docs").glob("*.md")):
        if path.stem == "index":  # the first page of the site, made of the others
            continue
        title, first = _about(path.read_text(encoding="utf-8"))
        lines.append(f"- [{title}](docs/{path.name})" + (f": {first}" if first else ""))
    return "\n".join(lines) + "\n"


def _skill() -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    parts = [
        f"---\nname: everhold\ndescription: {DESCRIPTION}\n---",
        "# everhold",
        "## A gate: is a candidate better?",
        _plain(_part(_page("howto/gate"), "Two files, one command").partition("`--json` prints")[0]).strip(),
        "`--json` prints one object.",
        "## A holdout or a test set: which act to use",
        _plain(_part(readme, "Which act to use")),
        "## When to use it",
        _plain(_part(readme, "When to use it")),
        "## When not to use it",
        _plain(_part(readme, "When not to use it")),
        "## References",
        "\n".join(f"- [{_about(_page(name))[0]}](references/{_reference(name)})" for name in REFERENCES),
    ]
    return "\n\n".join(parts) + "\n"


def _standing_alone(text: str, name: str) -> str:
    """A page whose links lead to pages of the skill, or are left out: the folder is copied without the repository."""
    here = (ROOT / "docs" / name).parent
    known = {(ROOT / "docs" / f"{one}.md").resolve(): _reference(one) for one in REFERENCES}

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if target.startswith(("http://", "https://", "#")):
            return found[0]
        place, _, anchor = target.partition("#")
        inside = known.get((here / place).resolve())
        return words if inside is None else f"[{words}]({inside}{'#' + anchor if anchor else ''})"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def differing() -> Iterator[str]:
    """Files that are not what this would write, and references that it would not."""
    files = written()
    for name, text in files.items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield name
    for path in (ROOT / "skills" / "everhold" / "references").glob("*"):
        if path.relative_to(ROOT).as_posix() not in files:
            yield path.relative_to(ROOT).as_posix()


def main() -> None:
    """Write them."""
    for path in (ROOT / "skills" / "everhold" / "references").glob("*"):
        path.unlink()
    for name, text in written().items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
