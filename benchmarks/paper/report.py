"""The report: Markdown, HTML, a figure and the raw rows of every section."""

from __future__ import annotations

import csv
import html
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.paper.run import Row
from benchmarks.paper.section import Claim, Section

__all__ = ["write"]


def write(sections: list[Section], rows: dict[str, list[Row]], folder: Path, *, quick: bool, code: str) -> list[Claim]:
    """Write report.md, report.html, a CSV and a figure for each section, and claims.json; return the claims."""
    folder.mkdir(parents=True, exist_ok=True)
    parts, claims = [], []
    for section in sections:
        found = rows.get(section.name, [])
        if not found:
            continue
        _csv(found, folder / f"{section.name}.csv")
        made = section.claims(found)
        claims += made
        drawn = _draw(section, found, folder)
        lines = [f"## {section.title}", section.text(found)]
        if drawn is not None:
            lines.append(f"![{section.title}]({drawn})")
        lines.append(f"Raw rows: [{section.name}.csv]({section.name}.csv)")
        parts.append("\n\n".join(lines))
    head = _head(claims, quick, code)
    text = "\n\n".join([head, *parts]) + "\n"
    (folder / "report.md").write_text(text)
    (folder / "report.html").write_text(as_html(text))
    (folder / "claims.json").write_text(json.dumps([vars(claim) for claim in claims], indent=1) + "\n")
    return claims


def _head(claims: list[Claim], quick: bool, code: str) -> str:
    body = "\n".join(
        f'| <a id="{claim.name}"></a>{claim.name} | {claim.says} | {claim.measured} | {"yes" if claim.kept else "**no**"} |'
        for claim in claims
    )
    size = "a quick run: few seeds, short sessions" if quick else "the full run"
    return (
        "# Every mechanism, every attack, the same questions\n\n"
        f"Written by `make bench-paper`{' QUICK=1' if quick else ''}, {size}. Every number is regenerated from a seed. "
        f"The digest of the code that made them begins with {code[:12]}. Errors and half-widths are on the share scale.\n\n"
        f"| claim | what must hold | measured | holds |\n|---|---|---|---|\n{body}"
    )


def _csv(rows: list[Row], place: Path) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with place.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: json.dumps(v) if isinstance(v, dict) else v for k, v in row.items()})


def _draw(section: Section, rows: list[Row], folder: Path) -> str | None:
    if section.draw is None:
        return None
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "everhold"
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    section.draw(rows, axes)
    axes.grid(alpha=0.25)
    name = f"{section.name}.svg"
    figure.savefig(folder / name, metadata={"Date": None})
    plt.close(figure)
    return name


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}"
    "table{border-collapse:collapse;display:block;overflow-x:auto;font-size:13px}td,th{border:1px solid "
    "#bbb;padding:.2rem .5rem;"
    "text-align:left;vertical-align:top}img{max-width:100%;background:#fff}code{background:#eee;padding:0 .2rem}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}td,th{border-color:#555}code{background:#333}"
    "a{color:#8ab4ff}}"
)


def as_html(text: str) -> str:
    """The few forms of Markdown that the report uses."""
    blocks: list[str] = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if block.startswith("#"):
            level = len(block) - len(block.lstrip("#"))
            blocks.append(f"<h{level}>{_inline(block.lstrip('# '))}</h{level}>")
        elif lines[0].startswith("|"):
            blocks.append(_table(lines))
        else:
            blocks.append(f"<p>{_inline(' '.join(lines))}</p>")
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>everhold against the baselines</title><style>{_STYLE}</style><body>{''.join(blocks)}</body></html>\n"
    )


def _table(lines: list[str]) -> str:
    def cells(line: str, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_inline(c.strip())}</{tag}>" for c in line.strip("|").split("|")) + "</tr>"

    body = "".join(cells(line, "td") for line in lines[2:])
    return f"<table><thead>{cells(lines[0], 'th')}</thead><tbody>{body}</tbody></table>"


def _inline(text: str) -> str:
    anchors = re.findall(r'<a id="([a-z0-9-]+)"></a>', text)
    shown: Any = html.escape(re.sub(r'<a id="[a-z0-9-]+"></a>', "", text), quote=False)
    shown = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", r"<img alt='\1' src='\2'>", shown)
    shown = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"<a href='\2'>\1</a>", shown)
    shown = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", shown)
    shown = re.sub(r"(?<!\w)\*([^*]+)\*(?!\w)", r"<i>\1</i>", shown)
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)
    return "".join(f"<a id='{name}'></a>" for name in anchors) + str(shown)
