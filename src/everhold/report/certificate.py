"""A study's certificate: what a reader needs to trust its answers, as a page and as JSON."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from html import escape
from shlex import quote
from typing import TYPE_CHECKING, Any

from everhold.ledger.reader import LoggedQuestion
from everhold.ledger.table_blob import table_to_bytes
from everhold.report.facts import budget_facts
from everhold.report.figure import session_svg
from everhold.report.gate_words import gate_assumptions, gate_guarantee, gate_work, is_gate
from everhold.report.percent import shown_cells, value_and_interval
from everhold.results import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.ledger.audit import Audit
    from everhold.ledger.first_record import FirstRecord
    from everhold.ledger.reader import LoggedAct, StudyFile

__all__ = ["AboutStudy", "assumptions", "certificate_html", "certificate_json", "cite", "digests", "guarantee"]

_SHOWN = 500  # rounds listed in the page; JSON has all
_SLIM = 360  # pixels of a narrow screen's picture


def _labels_only(first: FirstRecord) -> bool:
    """Whether features are public and only labels are hidden: a contest, or a test set without a reference."""
    return first.kind == "labels"


def guarantee(first: FirstRecord) -> str:
    """The guarantee of a study, in a sentence."""
    if is_gate(first):
        return gate_guarantee(first) + _privacy_promise(first)
    draws = "rows" if first.unit is None else f"units ({first.unit})"
    sure = f"With probability {first.settings['confidence']:g} over"
    valid = "all intervals of this study are simultaneously valid, however the questions were chosen."
    if _labels_only(first):
        sentence = (
            f"{sure} a fresh draw of labels for these same {first.rows:,} {draws}, {valid} Features are public here: "
            "nothing follows for other rows."
        )
    else:
        sentence = f"{sure} the {first.rows:,} private {draws}, drawn independently from the population, {valid}"
    if first.settings.get("overlap") == "allow":
        sentence += (
            " The owner allowed public rows that are also private rows: this is true only if they are still independent."
        )
    return sentence + _privacy_promise(first)


def _privacy_promise(first: FirstRecord) -> str:
    """What is promised about single rows, in a sentence; empty where nothing is."""
    if (terms := first.privacy) is None:
        return ""
    unit, promise = "row" if first.unit is None else f"unit ({first.unit})", terms.promise
    unit = "sealed case" if is_gate(first) else unit
    return (
        f" Everything that it ever discloses is differentially private for every {unit}, with ε = {promise.epsilon:g} and "
        f"δ = {promise.delta:g}. That noise was drawn, and that nothing public was made from the private rows, is the "
        "custodian's word."
    )


def cite(file: StudyFile) -> str:
    """A citation of a study, with its ledger head."""
    work = (
        f"Answers from an everhold study of {counted(len(file.rounds), 'round')} with {counted(file.surprises, 'surprise')}"
    )
    if is_gate(file.first_record):
        work = f"Verdicts of an everhold gate of {gate_work(file)}"
    return (
        f"{work}, created "
        f"{file.first_record.created[:10]}, ledger head {file.head}; "
        f"everhold {file.first_record.version}, after Huh, Efficient Adaptive "
        "Data Analysis over Dense Distributions."
    )


@dataclass(frozen=True, slots=True)
class AboutStudy:
    """What the custodian says of a study: title, who they are, how to reach them, when, what it is about; or nothing."""

    title: str = ""
    custodian: str = ""
    contact: str = ""
    date: str = ""
    description: str = ""


def assumptions(first: FirstRecord) -> list[str]:
    """What the guarantee rests on, in plain words."""
    if is_gate(first):
        return gate_assumptions(first)
    draws = "rows" if first.unit is None else f"units ({first.unit})"
    statements = [
        f"The hidden labels of the {first.rows:,} {draws} are independent of each other, given the public features. Answers "
        "are about labels drawn anew for these same rows."
        if _labels_only(first)
        else f"The {first.rows:,} private {draws} were drawn independently from the population that the answers are about.",
        "The prior and every question depend on public facts and on earlier answers alone, never on the private rows.",
        "Nobody who chose a question, a model or a guess had seen these rows, or a result computed from them elsewhere.",
        "What other studies of these rows disclosed, if there are any, is not counted here: no question follows from it.",
        "The private rows and the program that read them were not tampered with. Nobody can see that in a certificate.",
    ]
    if first.settings.get("known_rows"):
        statements.append(f"At most {first.settings['known_rows']:,} private {draws} were known to people who asked.")
    return statements


def digests(first: FirstRecord) -> dict[str, str]:
    """SHA-256 of the schema and of the public rows, and the keyed fingerprint of the private ones."""
    schema = hashlib.sha256(first.schema.to_toml().encode()).hexdigest()
    reference = hashlib.sha256(table_to_bytes(first.reference, first.weights)).hexdigest()
    return {"schema_sha256": schema, "reference_sha256": reference, "rows_fingerprint": first.fingerprint}


def certificate_json(file: StudyFile, audit: Audit, about: AboutStudy | None = None) -> dict[str, Any]:
    """The content of the page and every round, as JSON values."""
    about = about or AboutStudy()
    return {
        "certificate": 1,
        "title": about.title or file.path.stem,
        "custodian": about.custodian,
        "contact": about.contact,
        "date": about.date,
        "description": about.description,
        "assumptions": assumptions(file.first_record),
        **digests(file.first_record),
        "audit": {"ok": audit.ok, "found": str(audit), "unchecked_readings": audit.unchecked},
        "guarantee": guarantee(file.first_record),
        "cite": cite(file),
        "head": str(file.head),
        "created": file.first_record.created,
        "everhold": file.first_record.version,
        "rows": file.first_record.rows,
        "unit": file.first_record.unit,
        "prior": file.first_record.prior,
        "settings": file.first_record.settings,
        "schema": file.first_record.schema.to_toml(),
        "questions": len(file.questions),
        "surprises": file.surprises,
        "price": file.price,
        **budget_facts(file.budget, file.first_record.rows, acts=len(file.acts), closed=file.closed),
        "weight_floor": file.weight_floor().to_dict(),
        "asked": [entry.to_dict() for entry in file.log],
        "rounds": [past.to_dict() for past in file.rounds],
    }


def _table(log: Sequence[LoggedQuestion | LoggedAct], *, gate: bool) -> str:
    """What was asked, line by line. Columns without content are left out."""
    names = ("Check" if gate else "Round", "Question", "Verdict" if gate else "Answer", "Interval", "Kind", "Asked by")
    lines = [(entry.surprise, _cells(entry)) for entry in log]
    used = [place for place in range(len(names)) if place < 3 or any(cells[place] for _, cells in lines)]
    head = "".join(f"<th>{names[place]}</th>" for place in used)
    body = "".join(
        f"<tr{' class=s' if surprise else ''}>"
        + "".join(f'<td data-label="{names[place]}">{cells[place]}</td>' for place in used)
        + "</tr>"
        for surprise, cells in lines
    )
    return f'<table class="stack"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'


def _cells(entry: LoggedQuestion | LoggedAct) -> tuple[str, ...]:
    """A question or an act as it was asked; the parts of a statistic unfold."""
    question = f"<code>{escape(entry.question)}</code>"
    if isinstance(entry, LoggedQuestion) and entry.finding is not None:
        question = escape(entry.question)
        lines = [f"<li>{escape(label)}: {value}, {escape(interval)}</li>" for label, value, interval in shown_cells(entry)]
        if len(entry.parts) > 1:  # a single part is the same number on another scale
            lines += [
                f"<li><code>{escape(part.question)}</code>: {escape(', '.join(value_and_interval(part)))} (round "
                f"{part.round:,}{', surprise' if part.answer.surprise else ''})</li>"
                for part in entry.parts
            ]
        if lines:
            question = f"<details><summary>{question}</summary><ul>{''.join(lines)}</ul></details>"
    value, interval = (escape(text) for text in value_and_interval(entry))
    return entry.place, question, value, interval, escape(entry.kind_text), escape(entry.who or "")


def _counts(file: StudyFile, budget: dict[str, Any]) -> list[tuple[str, str]]:
    """What was done, and with how many rows."""
    first = file.first_record
    if is_gate(first):
        return [("Checks", gate_work(file)), ("Sealed cases", f"{first.rows:,}")]
    return [
        ("Rounds", f"{len(file.rounds):,}"),
        ("Surprises", f"{file.surprises:,}"),
        ("Private " + ("rows" if first.unit is None else "units"), f"{first.rows:,}"),
        ("Other acts", f"{len(file.acts):,}"),
        ("Price so far", f"{file.price:.1f} nats; {budget['width_text']}"),
    ]


def certificate_html(file: StudyFile, audit: Audit, about: AboutStudy | None = None) -> str:
    """The certificate as one self-contained page, without scripts or other files."""
    about = about or AboutStudy()
    title = about.title or file.path.stem
    gate = is_gate(file.first_record)
    verdict = f"Every {'verdict' if gate else 'round'} replays bit for bit" if audit.ok else "The audit failed"
    budget = budget_facts(file.budget, file.first_record.rows, acts=len(file.acts), closed=file.closed)
    facts = [
        *([("Date", about.date[:10])] if about.date else []),
        *([("Custodian", about.custodian)] if about.custodian else []),
        *([("Contact", about.contact)] if about.contact else []),
        *_counts(file, budget),
        ("Confidence", f"{file.confidence:g}"),
        *([] if file.budget.privacy is None else [("Privacy", file.budget.privacy.text)]),
        *([] if gate else [("Singling out", file.weight_floor().text)]),
        ("Contract" if gate else "Prior", file.first_record.prior),
        ("Created", file.first_record.created),
        ("Ledger head", str(file.head)),
        *(
            (name.capitalize().replace("_", " ").replace("sha256", "(SHA-256)"), digest)
            for name, digest in digests(file.first_record).items()
        ),
    ]
    description = f"\n<p>{escape(about.description)}</p>" if about.description else ""
    rests_on = "".join(f"<li>{escape(assumption)}</li>" for assumption in assumptions(file.first_record))
    asked = file.log
    done = "checks" if gate else "questions"
    left = f"<p>The last {_SHOWN:,} of {len(asked):,} {done}.</p>" if len(asked) > _SHOWN else ""
    table = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>everhold certificate: {escape(title)}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
body {{ color: #1f2937; background: #fff; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; margin-bottom: .2rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.ok {{ color: #047857; }} .bad {{ color: #b91c1c; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; }} dt {{ color: #4b5563; }}
dd {{ margin: 0; overflow-wrap: anywhere; }} code {{ overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; }}
th, td {{ text-align: left; padding: .25rem .5rem; border-bottom: 1px solid #e5e7eb; vertical-align: top; }}
th, td {{ overflow-wrap: normal; }} td:nth-child(2) {{ overflow-wrap: anywhere; }}
td:nth-child(1), td:nth-child(3), td:nth-child(4), th {{ white-space: nowrap; }}
tr.s td {{ color: #9a3412; }}
svg {{ width: 100%; height: auto; }} .slim {{ display: none; }}
@media screen and (max-width: 40rem) {{ .wide {{ display: none; }} .slim {{ display: block; }}
dl {{ grid-template-columns: minmax(0, 1fr); }} dt {{ margin-top: .4rem; }}
.stack thead {{ display: none; }} .stack, .stack tbody, .stack tr, .stack td {{ display: block; border: 0; padding: 0; }}
.stack tr {{ padding: .5rem 0; border-bottom: 1px solid #9ca3af; }} .stack td:empty {{ display: none; }}
.stack td {{ white-space: normal; }}
.stack td {{ padding-left: 6rem; }}
.stack td::before {{ content: attr(data-label); color: #6b7280; display: inline-block; width: 6rem; margin-left: -6rem; }} }}
@media print {{ html {{ font-size: 10.5px; }} body {{ margin: 0; padding: 0; max-width: none; font-size: 1rem; }}
h2 {{ break-after: avoid; }} tr, svg, dd, li {{ break-inside: avoid; }}
tr:has(details) {{ break-inside: auto; }} .wide {{ max-width: 42rem; }}
details::details-content {{ content-visibility: visible; }} summary {{ list-style: none; }} }}
@media screen and (prefers-color-scheme: dark) {{ body {{ color: #e5e7eb; background: #111827; }} dt {{ color: #9ca3af; }}
th, td {{ border-color: #374151; }} .ok {{ color: #34d399; }} .bad {{ color: #f87171; }} tr.s td {{ color: #fdba74; }} }}
</style></head><body>
<h1>Certificate of {escape(title)}</h1>
<p class="{"ok" if audit.ok else "bad"}"><strong>{verdict}.</strong> {escape(str(audit))}.</p>{description}
<p>{escape(guarantee(file.first_record))}</p>
<h2>{"Checks and verdicts" if gate else "Questions and answers"}</h2>{left}
{_table(asked[-_SHOWN:], gate=gate)}
<h2>What this rests on</h2><ul>{rests_on}</ul>
<h2>The study</h2><dl>{table}</dl>
<h2>How to cite it</h2><p>{escape(cite(file))}</p>
<h2>How to check it</h2><p>With the study's file and no private rows:
<code>everhold audit {escape(quote(file.path.name))} --expect-head {escape(str(file.head))}</code></p>{_picture(file)}
</body></html>
"""


def _picture(file: StudyFile) -> str:
    """The session, where it has rounds."""
    if not file.rounds:
        return ""
    title = "Answers with their intervals"
    wide, slim = session_svg(file.rounds, title=title), session_svg(file.rounds, title=title, wide=_SLIM)
    return f'\n<h2>The session, round by round</h2>\n<div class="wide">{wide}</div>\n<div class="slim">{slim}</div>'
