"""`everhold status`, `log`, `audit`, `certificate` and `plot`: what can be done without the private rows."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from math import sqrt
from pathlib import Path
from typing import Annotated, Any

import typer

import everhold as eh
from everhold.cli.app import AUDIT_FAILED, console, guarded, say, warn
from everhold.cli.asking import AsJson, ExpectHead, ServerAt, Study, TokenIs, remote
from everhold.client.sync import RemoteStudy
from everhold.clock import timestamp
from everhold.gate.audit import GateAudit
from everhold.gate.files import beside
from everhold.ledger.reader import LoggedAct, LoggedQuestion, LoggedRound, read_study
from everhold.plots import Point, draw_session
from everhold.report import signature
from everhold.report.certificate import AboutStudy, certificate_html, certificate_json, cite, guarantee
from everhold.report.facts import budget_facts, study_facts
from everhold.report.figure import session_svg
from everhold.results import counted
from everhold.session.registered import newer_state

__all__ = ["register"]

_PLAIN = 0.98  # half-width of a plain 95 % interval for a share of one half, times the root of the rows
_WIDEST, _LINES = 100, 2  # of the log: letters in a line, lines of a question


@guarded
def status(study: Study, as_json: AsJson = False, server: ServerAt = None, token: TokenIs = None) -> None:
    """Where a study stands. Works beside a process that asks.

    Examples:

        everhold status study.everhold

        everhold status patients --server https://data.example.org
    """
    if server is not None:
        with remote(study, server, token) as connected:
            _server_status(connected, server, as_json)
        return
    file = read_study(study)
    _warn_of_newer(study)
    facts = study_facts(
        file.first_record, rounds=len(file.rounds), surprises=file.surprises, price=file.price, head=str(file.head)
    ) | budget_facts(file.budget, file.first_record.rows, acts=len(file.acts), closed=file.closed)
    facts["questions"] = len(file.questions)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    if file.first_record.kind == "gate":
        say(f"{file.path} is a gate.\n{eh.Gate(study).status()}")
        return
    _say_facts(str(file.path), facts)
    if file.first_record.kind == "study":
        say(repr(file.first_record.schema))


def _server_status(study: RemoteStudy, server: str, as_json: bool) -> None:
    facts = study.status()
    if as_json:
        typer.echo(json.dumps(facts))
        return
    _say_facts(f"{facts['name']} at {server}", facts)
    if facts["kind"] == "study":
        say(repr(study.schema))


def _say_facts(name: str, facts: dict[str, Any]) -> None:
    draws = "rows" if facts["unit"] is None else "units"
    say(
        f"{name}: {counted(facts['rounds'], 'round')}{_for_questions(facts)}, {counted(facts['surprises'], 'surprise')}, "
        f"{counted(facts['acts'], 'other act')}\n"
        f"{_next_reading(facts)}\n"
        f"{_privacy_line(facts)}"
        f"{facts['rows']:,} private {draws}, confidence {facts['confidence']:g}, {facts['prior']}\n"
        f"created {facts['created']}\n"
        f"head {facts['head']}",
    )


def _for_questions(facts: dict[str, Any]) -> str:
    """A statistic may take several rounds: the log counts questions."""
    asked = facts.get("questions")
    return "" if asked is None else f" for {asked:,} question{'' if asked == 1 else 's'}"


def _privacy_line(facts: dict[str, Any]) -> str:
    privacy = facts.get("privacy")
    return "" if privacy is None else f"{privacy['text']}\n"


def _next_reading(facts: dict[str, Any]) -> str:
    """How wide the next interval is; --json has the nats behind it."""
    if facts["width"] is None:
        return str(facts["width_text"])
    privacy = facts.get("privacy")
    if privacy is not None and privacy["readings_left"] == 0:
        return str(facts["width_text"])
    noise = 0.0 if privacy is None else privacy["reading_noise_rows"] / facts["rows"]
    half = min(facts["width"] * _PLAIN / sqrt(facts["rows"]) + noise, 1.0)
    return f"{facts['width_text']}; near one half that is about ±{half:.3f}"


@guarded
def log(
    study: Study,
    last: Annotated[int, typer.Option(help="How many questions, the latest; 0 for all.")] = 20,
    as_json: AsJson = False,
    parts: Annotated[bool, typer.Option("--parts", help="Also the rounds that statistics were made of.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Whole questions, and every candidate of a choice.")] = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """What was asked and answered, as it was asked.

    Example:

        everhold log study.everhold --last 50 --parts
    """
    if server is not None:
        with remote(study, server, token) as connected:
            _show_log(list(connected.log()), last, as_json, parts, full)
        return
    _show_log(read_study(study).log, last, as_json, parts, full)


def _show_log(asked: Sequence[LoggedQuestion | LoggedAct], last: int, as_json: bool, parts: bool, full: bool) -> None:
    shown = asked[-last:] if last > 0 else asked
    if as_json:
        for entry in shown:
            typer.echo(entry.to_json())
        return
    for one in shown:
        _say_entry(one, one.question if full else one.short, full=full)
        for part in one.parts if parts and one.finding is not None else ():
            _say_entry(part, part.question, full=full, indent=4)
    if any(_cut(one) for one in shown) and not full:
        console.print("long questions and lists are cut; --full shows them", highlight=False)
    if len(shown) < len(asked):
        console.print(f"the last {len(shown):,} of {len(asked):,} questions; --last 0 shows all", highlight=False)


def _say_entry(one: LoggedQuestion | LoggedAct | LoggedRound, question: str, *, full: bool = False, indent: int = 0) -> None:
    """One entry on two or three lines: what it was and when; what was asked; what was returned."""
    width, space = min(console.width, _WIDEST), " " * indent
    head = f"{space}{one.place:>5}  {one.kind_word}"
    when = one.time[:16].replace("T", " ") + (f"  {one.who}" if one.who else "")
    say(f"{head}{when:>{max(width - len(head), len(when) + 2)}}", style="bold")
    inner = f"{space}       "
    lines = textwrap.wrap(question, max(width - len(inner), 20), max_lines=None if full else _LINES, placeholder=" …")
    for line in lines:
        say(inner + line)
    said = f"{one.value_text} in {one.interval_text}" if one.interval_text else one.value_text
    if said:
        for line in textwrap.wrap(f"= {said}", max(width - len(inner), 20)):
            say(inner + line)


def _cut(one: LoggedQuestion | LoggedAct) -> bool:
    """Whether what was asked does not fit."""
    return one.short != one.question or len(one.question) > _LINES * (min(console.width, _WIDEST) - 8)


def _audited(study: Path, expect_head: str | None) -> eh.Audit:
    if beside(study, "gate.json").exists():
        return eh.Gate(study).audit(expect_head=expect_head)
    return eh.Holdout.audit_file(study, expect_head=expect_head)


def _warn_of_newer(study: Path) -> None:
    """Say on the error stream that this machine knows a newer state of the study."""
    with suppress(eh.LedgerError):
        if (said := newer_state(study)) is not None:
            warn(said)


@guarded
def audit(study: Study, expect_head: ExpectHead = None, as_json: AsJson = False) -> None:
    """Check a study without the private rows: every byte, every hash, every answer again.

    Example:

        everhold audit study.everhold --expect-head 120:9f2c…
    """
    if not study.is_file():
        raise eh.LedgerError(f"there is no study {study}. Check the name.")
    checked = _audited(study, expect_head)
    _warn_of_newer(study)
    gate = {"checks": checked.checks, "promotions": checked.promotions} if isinstance(checked, GateAudit) else {}
    if as_json:
        typer.echo(
            json.dumps(
                {"ok": checked.ok, "rounds": checked.rounds, "surprises": checked.surprises, "found": str(checked)} | gate
            )
        )
    else:
        say(str(checked), style=None if checked.ok else "red")
        if checked.ok:
            file = read_study(study)
            say(f"\n{guarantee(file.first_record)}\n\nTo cite: {cite(file)}")
    if not checked.ok:
        raise typer.Exit(AUDIT_FAILED)


@guarded
def certificate(
    study: Study,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; the JSON is written beside it. <study>.html if left out.")
    ] = None,
    expect_head: ExpectHead = None,
    title: Annotated[str, typer.Option(help="What the study is called; its file's name if left out.")] = "",
    custodian: Annotated[str, typer.Option(help="Who holds the private rows.")] = "",
    contact: Annotated[str, typer.Option(help="How to reach them.")] = "",
    sign: Annotated[Path | None, typer.Option(help="Sign the JSON with this key, from `everhold signing-key`.")] = None,
) -> None:
    """Audit a study and write its certificate: a page for readers, and JSON for programs.

    Example:

        everhold certificate study.everhold --out certificate.html --sign custodian.key
    """
    about = AboutStudy(title, custodian, contact, timestamp())
    checked = _audited(study, expect_head)
    file = read_study(study)
    _warn_of_newer(study)
    page = out or study.with_suffix(".html")
    data = page.with_suffix(".json")
    if data == page:
        raise eh.SettingError(f"{page} ends in .json, where the data goes. Expected a page, such as certificate.html.")
    for path in (page, data):
        _require_free(path, study)
    _require_certificate(data)
    if page.suffix.lower() not in (".html", ".htm"):
        raise eh.SettingError(f"--out is {page}. Expected a page, such as certificate.html: print that for a PDF.")
    content = certificate_json(file, checked, about)
    if sign is not None:
        content = signature.sign(content, sign)
    page.write_text(certificate_html(file, checked, about), encoding="utf-8")
    data.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    say(
        f"{checked}\nWrote {page} and {data}"
        + ("" if sign is None else f", signed by {content['signatures'][0]['keyid'][:16]}…")
    )
    if not checked.ok:
        raise typer.Exit(AUDIT_FAILED)


@guarded
def signing_key(path: Annotated[Path, typer.Argument(help="The new key; its public half is <path>.pub.")]) -> None:
    """Make a key that signs certificates.

    Publish the .pub file, and keep the other one to yourself.

    Example:

        everhold signing-key custodian.key
    """
    key_id = signature.create_key(path)
    say(f"Wrote {path}, for you alone, and {path}.pub, for your readers.\nKey id: {key_id}")


@guarded
def verify(
    file: Annotated[Path, typer.Argument(help="The signed JSON of a certificate.", metavar="CERTIFICATE")],
    key: Annotated[Path | None, typer.Option(help="The custodian's public key, a .pub file.")] = None,
    study: Annotated[Path | None, typer.Option(help="The study's file: audit it, and compare its head.")] = None,
) -> None:
    """Check a signed certificate, without the private rows and without a server.

    Example:

        everhold verify certificate.json --key custodian.key.pub
    """
    try:
        envelope = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise eh.LedgerError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise eh.LedgerError(f"{file} is not JSON. Expected what `everhold certificate --sign KEY` writes.") from None
    verified = signature.verify(envelope, key)
    certificate = verified.certificate
    say(f"The signature is right: nothing was changed since {certificate['date'][:10]}. Key id: {verified.key}")
    if not verified.known:
        say("Whose key that is, is not shown: compare the id with the custodian's, or give --key custodian.key.pub.")
    by = f", by {certificate['custodian']}" if certificate["custodian"] else ""
    say(f"\n{certificate['title']}{by}. {certificate['guarantee']}\n\nTo cite: {certificate['cite']}")
    if not certificate["audit"]["ok"]:
        say(f"But its own audit failed: {certificate['audit']['found']}", style="red")
        raise typer.Exit(AUDIT_FAILED)
    if study is not None:
        if (other := _of_another_study(certificate, study)) is not None:
            say(other, style="red")
            raise typer.Exit(AUDIT_FAILED)
        checked = _audited(study, certificate["head"])
        say(str(checked), style=None if checked.ok else "red")
        if not checked.ok:
            raise typer.Exit(AUDIT_FAILED)


def _of_another_study(certificate: dict[str, Any], study: Path) -> str | None:
    """That a certificate and a file are of two studies, by what their first records say."""
    try:
        first = read_study(study).first_record
    except eh.LedgerError:
        return None  # the audit says what is wrong
    if (certificate["created"], certificate["rows_fingerprint"]) == (first.created, first.fingerprint):
        return None
    return (
        f"{study} is another study: it was created at {first.created}, and the certificate is of one that was created at "
        f"{certificate['created']}. Expected the file of that study."
    )


@guarded
def plot(
    study: Study,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file: .svg, .png or .pdf; <study>.svg if left out.")
    ] = None,
) -> None:
    """Draw the session: answers with intervals over rounds, surprises, the price.

    Example:

        everhold plot study.everhold --out session.svg
    """
    file = read_study(study)
    path = out or study.with_suffix(".svg")
    _require_free(path, study)
    title = f"{study.stem}: {counted(len(file.rounds), 'round')}"
    if path.suffix.lower() == ".svg":
        path.write_text(session_svg(file.rounds, title=title), encoding="utf-8")
    else:
        draw_session([Point.of(past.answer.as_share()) for past in file.rounds], path, title=title)
    say(f"Wrote {path}")


def _require_certificate(path: Path) -> None:
    """Write the data over an earlier certificate, and over nothing else: the page's name alone was chosen."""
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not {"certificate", "payload"} & set(found):
        raise eh.SettingError(
            f"{path} exists and is no certificate, and the certificate's data would be written over it. Nothing was "
            "written. Expected another name for the page: --out FILE.html."
        )


def _require_free(path: Path, study: Path) -> None:
    """Never write over a study or the files beside it."""
    taken = {study.resolve(), *(Path(f"{study}.{what}").resolve() for what in ("key", "lock", "spent"))}
    is_study = path.is_file() and path.read_bytes()[:16] == b"SQLite format 3\0"
    if path.resolve() in taken or is_study:
        raise eh.SettingError(f"{path} is a study or belongs to one. Expected another name: --out FILE.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, log, audit, certificate, verify, plot):
        app.command()(command)
    app.command("signing-key")(signing_key)
