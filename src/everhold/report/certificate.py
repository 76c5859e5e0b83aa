"""A study's certificate: what a reader needs to trust its answers, as a page and as JSON."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from everhold.report.facts import budget_facts
from everhold.report.figure import session_svg

if TYPE_CHECKING:
    from everhold.ledger.audit import Audit
    from everhold.ledger.reader import LoggedAct, LoggedQuestion, StudyFile
    from everhold.ledger.study import Study

__all__ = ["certificate_html", "certificate_json", "cite", "guarantee"]

_SHOWN = 500  # rounds listed in the page; JSON has all


def guarantee(study: Study) -> str:
    """The guarantee of a study, in a sentence."""
    draws = "rows" if study.unit is None else f"units ({study.unit})"
    said = (
        f"With probability {study.settings['confidence']:g} over the {study.rows:,} private {draws}, drawn independently "
        "from the population, all intervals of this study are simultaneously valid, however the questions were chosen."
    )
    if study.settings.get("overlap") == "allow":
        said += " The owner allowed public rows that are also private rows: this is true only if they are still independent."
    return said + _privacy_promise(study)


def _privacy_promise(study: Study) -> str:
    """What is promised about single rows, in a sentence; empty where nothing is."""
    if (terms := study.privacy) is None:
        return ""
    one, promise = "row" if study.unit is None else f"unit ({study.unit})", terms.promise
    return (
        f" Everything that it ever discloses is differentially private for every {one}, with ε = {promise.epsilon:g} and "
        f"δ = {promise.delta:g}. That noise was drawn, and that nothing public was made from the private rows, is the "
        "custodian's word."
    )


def cite(file: StudyFile) -> str:
    """A citation of a study, with its ledger head."""
    return (
        f"Answers from an everhold study of {len(file.rounds):,} round{'' if len(file.rounds) == 1 else 's'} with "
        f"{file.surprises:,} surprise{'' if file.surprises == 1 else 's'}, created "
        f"{file.study.created[:10]}, ledger head {file.head}; everhold {file.study.version}, after Huh, Efficient Adaptive "
        "Data Analysis over Dense Distributions."
    )


def certificate_json(file: StudyFile, audit: Audit) -> dict[str, Any]:
    """The content of the page and every round, as JSON values."""
    return {
        "certificate": 1,
        "audit": {"ok": audit.ok, "found": str(audit), "unchecked_readings": audit.unchecked},
        "guarantee": guarantee(file.study),
        "cite": cite(file),
        "head": str(file.head),
        "created": file.study.created,
        "everhold": file.study.version,
        "rows": file.study.rows,
        "unit": file.study.unit,
        "prior": file.study.prior,
        "settings": file.study.settings,
        "schema": file.study.schema.to_toml(),
        "questions": len(file.questions),
        "surprises": file.surprises,
        "spent": file.spent,
        **budget_facts(file.budget, acts=len(file.acts), closed=file.closed),
        "weight_floor": file.weight_floor().to_dict(),
        "asked": [one.to_dict() for one in file.log],
        "rounds": [one.to_dict() for one in file.rounds],
    }


def _row(one: LoggedQuestion | LoggedAct) -> str:
    """A question or an act as it was asked; the parts of a statistic unfold."""
    said = f"<code>{escape(one.question)}</code>"
    if one.finding is not None:
        lines = [
            f"<li>{escape(label)}: {value} in {escape(interval)}</li>" for label, value, interval in one.finding.cell_texts
        ]
        lines += [
            f"<li><code>{escape(part.question)}</code>: {part.value_text} in {escape(part.interval_text)} (round "
            f"{part.round:,}{', surprise' if part.answer.surprise else ''})</li>"
            for part in one.parts
        ]
        said = f"<details><summary>{escape(one.question)}</summary><ul>{''.join(lines)}</ul></details>"
    return (
        f"<tr{' class=s' if one.surprise else ''}><td>{one.round:,}</td><td>{said}</td><td>{escape(one.value_text)}</td>"
        f"<td>{escape(one.interval_text)}</td><td>{escape(one.kind_text)}</td>"
        f"<td>{escape(one.who or '')}</td></tr>"
    )


def certificate_html(file: StudyFile, audit: Audit) -> str:
    """The certificate as one self-contained page, without scripts or other files."""
    verdict = "Every round replays bit for bit" if audit.ok else "The audit failed"
    said = budget_facts(file.budget, acts=len(file.acts), closed=file.closed)
    facts = [
        ("Rounds", f"{len(file.rounds):,}"),
        ("Surprises", f"{file.surprises:,}"),
        ("Private " + ("rows" if file.study.unit is None else "units"), f"{file.study.rows:,}"),
        ("Confidence", f"{file.confidence:g}"),
        ("Other acts", f"{len(file.acts):,}"),
        ("Price so far", f"{file.spent:.1f} nats; {said['width_text']}"),
        *([] if file.budget.privacy is None else [("Privacy", file.budget.privacy.text)]),
        ("Singling out", file.weight_floor().text),
        ("Prior", file.study.prior),
        ("Created", file.study.created),
        ("Ledger head", str(file.head)),
    ]
    asked = file.log
    rows = "".join(_row(one) for one in asked[-_SHOWN:])
    left = f"<p>The last {_SHOWN:,} of {len(asked):,} questions.</p>" if len(asked) > _SHOWN else ""
    table = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>everhold certificate: {escape(file.path.stem)}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
body {{ color: #1f2937; background: #fff; }}
h1 {{ font-size: 1.6rem; margin-bottom: .2rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.ok {{ color: #047857; }} .bad {{ color: #b91c1c; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; }} dt {{ color: #4b5563; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; }}
th, td {{ text-align: left; padding: .25rem .5rem; border-bottom: 1px solid #e5e7eb; vertical-align: top; }}
td {{ overflow-wrap: anywhere; }}
tr.s td {{ color: #9a3412; }}
svg {{ width: 100%; height: auto; }}
@media (prefers-color-scheme: dark) {{ body {{ color: #e5e7eb; background: #111827; }} dt {{ color: #9ca3af; }}
th, td {{ border-color: #374151; }} .ok {{ color: #34d399; }} .bad {{ color: #f87171; }} tr.s td {{ color: #fdba74; }} }}
</style></head><body>
<h1>Certificate of {escape(file.path.stem)}</h1>
<p class="{"ok" if audit.ok else "bad"}"><strong>{verdict}.</strong> {escape(str(audit))}.</p>
<p>{escape(guarantee(file.study))}</p>
{session_svg(file.rounds, title="Answers with their intervals")}
<h2>The study</h2><dl>{table}</dl>
<h2>How to cite it</h2><p>{escape(cite(file))}</p>
<h2>How to check it</h2><p>With the study's file and no private rows:
<code>everhold audit {escape(file.path.name)} --expect-head {escape(str(file.head))}</code></p>
<h2>Questions and answers</h2>{left}
<table><thead><tr><th>Round</th><th>Question</th><th>Answer</th><th>Interval</th><th>Kind</th><th>Asked by</th></tr></thead>
<tbody>{rows}</tbody></table>
</body></html>
"""
