"""`everhold gate create / check / decide / finish / status`: outcomes per case in, one bit out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import everhold as eh
from everhold.cli.app import guarded, note, say
from everhold.cli.asking import AsJson, ServerAt, TokenIs
from everhold.cli.studies import privacy_promise
from everhold.gate.gate import Gate
from everhold.gate.outcome_files import read_expected, read_outcomes
from everhold.results import counted

if TYPE_CHECKING:
    from everhold.gate.outcomes import OutcomeGaps
    from everhold.gate.results import CheckResult

__all__ = ["register"]

KEPT, OLDER, WAITS, OTHER = 1, 5, 10, 11
GatePath = Annotated[Path, typer.Argument(help="The gate's study, gate.everhold by custom.")]
Scorer = Annotated[str | None, typer.Option(help="Which score to take, where a log has several.")]
RequestIs = Annotated[
    str | None,
    typer.Option("--request-id", help="A run's unique id: a job that is tried again gets the recorded verdict, uncharged."),
]
Who = Annotated[str | None, typer.Option(help="Who asks, for the record.")]
_OUTCOMES = "Outcomes per case: JSON, JSONL, CSV, JUnit XML, a log of inspect_ai, or METRIC lines."

gate = typer.Typer(
    no_args_is_help=True,
    help="A gate for programs that improve themselves: is the candidate better than the incumbent? One bit a candidate.",
)


class CertifyChoice(StrEnum):
    """What is certified."""

    each = "each"
    final = "final"


class OutcomesChoice(StrEnum):
    """What an outcome is."""

    passed = "pass"
    score = "score"


@gate.command("create")
@guarded
def create(
    study: GatePath,
    incumbent: Annotated[Path, typer.Option(help=f"{_OUTCOMES} Of the present system.")],
    by: Annotated[float, typer.Option(help="What a candidate must be better by, such as 0.01.")] = 0.0,
    certify: Annotated[
        CertifyChoice, typer.Option(help="Certify each promotion, or only the final gain: the latter promotes more often.")
    ] = CertifyChoice.each,
    generation_size: Annotated[int, typer.Option(help="How many candidates one check chooses from.")] = 1,
    outcomes: Annotated[
        OutcomesChoice | None,
        typer.Option(help="Pass or fail, or scores between 0 and 1; found from the incumbent if left out."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all claims are valid at the same time.")] = 0.95,
    show: Annotated[
        str | None,
        typer.Option("--visible", help="A share of the cases to make visible, or a file with a visible id on each line."),
    ] = None,
    expected: Annotated[
        Path | None, typer.Option(help="JSON with the expected result of each case: tells sets with equal ids apart.")
    ] = None,
    artifact: Annotated[Path | None, typer.Option(help="The incumbent's file: the same bytes are never promoted.")] = None,
    name: Annotated[str, typer.Option(help="What the incumbent is called.")] = "the first incumbent",
    scorer: Scorer = None,
    new_budget: Annotated[
        str | None, typer.Option(help="Why cases that have a gate already get a new budget. It is recorded.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Promise privacy: ε for each sealed case, over all verdicts. Needs --outcomes.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ of that promise, far below 1/cases; 1e-9 if left out.")] = None,
    promotions: Annotated[
        int | None, typer.Option(help="How many promotions the privacy budget pays for at least; 20 if left out.")
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(
            help="The smallest gain that matters, such as 0.03. A gate that cannot certify it is not made, or used up."
        ),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Count the incumbent's cases without an outcome as its failures.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a gate for a set of cases.

    Examples:

        everhold gate create gate.everhold --incumbent baseline.json

        everhold gate create gate.everhold --incumbent baseline.json --step 0.06

        everhold gate create gate.everhold --incumbent baseline.json --outcomes pass --epsilon 3 --promotions 5
    """
    created = Gate.create(
        study,
        incumbent,
        by=by,
        certify=certify.value,
        generation_size=generation_size,
        outcomes=None if outcomes is None else outcomes.value,
        confidence=confidence,
        visible=_visible(show),
        expected=None if expected is None else read_expected(expected),
        artifact=artifact,
        name=name,
        scorer=scorer,
        new_budget=new_budget,
        privacy=privacy_promise(epsilon, delta, promotions, "--promotions"),
        step=step,
        allow_missing=allow_missing,
    )
    if as_json:
        typer.echo(created.status().to_json())
        return
    say(f"Created {study}.")
    say(str(created.status()))
    spent = "" if epsilon is None else f", {study}.spent"
    say(f"Keep {incumbent}, {study}.cases, {study}.outcomes{spent} and {study}.key where candidates cannot read them.")
    say(f"Next: everhold gate check {study} --candidate new.json")


def _visible(given: str | None) -> Any:
    if given is None:
        return None
    try:
        return float(given.removesuffix("%")) / (100.0 if given.endswith("%") else 1.0)
    except ValueError:
        return [line.strip() for line in Path(given).read_text(encoding="utf-8").splitlines() if line.strip()]


def _show(result: CheckResult, gaps: OutcomeGaps | None, as_json: bool, *, decided: bool = False) -> None:
    """The verdict; and on the error stream, which is the evaluator's, what is wrong with the file.

    `decided`: it is about all candidates that waited, and not about one of them.
    """
    if gaps and not result.repeated:
        lasting = "; if promoted, these gaps are the incumbent's failures from then on"
        note(
            f"{gaps}. They count as failures{lasting}. For the evaluator alone: do not show this line to those who make "
            "candidates. --require-all refuses such a file."
        )
    if as_json:
        typer.echo(result.to_json())
    else:
        say(str(result))
    other = result.winner is not None and not result.promoted
    if not result.promoted and not (decided and other):
        raise typer.Exit(WAITS if result.verdict == "wait" else OTHER if other else KEPT)


@contextmanager
def _told(as_json: bool) -> Iterator[None]:
    """Also a check that is refused prints one object, so that a program need not read the error stream."""
    try:
        yield
    except (eh.InvalidOutcomes, eh.GateUsedUp) as error:
        if as_json:
            verdict = "used_up" if isinstance(error, eh.GateUsedUp) else "invalid"
            typer.echo(json.dumps({"kind": "gate_check", "verdict": verdict, "promoted": False, "reason": str(error)}))
        raise


@gate.command("check")
@guarded
def check(
    study: GatePath,
    candidate: Annotated[Path, typer.Option(help=f"{_OUTCOMES} Of the candidate.")],
    incumbent: Annotated[
        Path | None, typer.Option(help="Make the gate first, where there is none yet: the incumbent's outcomes.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the candidate is called; its file's name if left out.")] = None,
    artifact: Annotated[Path | None, typer.Option(help="The candidate's file: the incumbent's bytes are refused.")] = None,
    scorer: Scorer = None,
    who: Who = None,
    request_id: RequestIs = None,
    require_all: Annotated[
        bool, typer.Option("--require-all", help="Refuse a file in which a case has no outcome, or one that is no score.")
    ] = False,
    as_json: AsJson = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """Is the candidate better than the incumbent? If it is, it becomes the incumbent.

    Exit codes: 0 promote, 1 keep the incumbent, 3 the outcomes are invalid (nothing is charged), 6 the gate is used up, 10
    the candidate waits for its generation, 11 another candidate of its generation was promoted, which the output names.

    A job that may be tried again gives --request-id and --name: the id of a run, not of a branch or a pull request. What was
    counted as a failure because it has no outcome stands on the error stream, for the evaluator alone.

    Examples:

        everhold gate check gate.everhold --candidate new.json --json

        everhold gate check gate.everhold --candidate new.json --name "$COMMIT" --request-id "$RUN_ID"

        everhold gate check gate.everhold --incumbent old.json --candidate new.json

        everhold gate check prompts --candidate new.json --server https://data.example.org
    """
    if request_id is not None and name is None and artifact is None:
        raise eh.SettingError(
            "--request-id needs the candidate's --name, such as the commit, or its --artifact: a repeated request gets the "
            "recorded verdict, and without them another file would get it as well. Nothing was charged."
        )
    called = candidate.stem if name is None else name
    with _told(as_json):
        outcomes = read_outcomes(candidate, scorer=scorer, strict=False)
        if server is not None:
            with eh.connect(server, token) as connected:
                remote = connected.gate(str(study))
                gaps = remote.gaps(outcomes)
                if require_all:
                    gaps.require_none()
                result = remote.check(outcomes, name=called, artifact=artifact, request_id=request_id)
        else:
            if incumbent is not None and not study.exists():
                Gate.create(study, incumbent)
            with Gate(study) as opened:
                result = opened.check(
                    outcomes, name=called, artifact=artifact, request_id=request_id, who=who, require_all=require_all
                )
                gaps = opened.gaps(outcomes)
    _show(result, gaps, as_json)


@gate.command("decide")
@guarded
def decide(
    study: GatePath,
    who: Who = None,
    request_id: RequestIs = None,
    as_json: AsJson = False,
    server: ServerAt = None,
    token: TokenIs = None,
) -> None:
    """Check the candidates that wait, although their generation is not full.

    Exit codes: 0 one of them was promoted, which the output names; 1 none was.

    Examples:

        everhold gate decide gate.everhold

        everhold gate decide prompts --server https://data.example.org
    """
    with _told(as_json):
        if server is not None:
            if who is not None:
                raise eh.SettingError("--who is for gates on this machine; a token says who asks. Leave it out.")
            with eh.connect(server, token) as connected:
                result = connected.gate(str(study)).decide(request_id=request_id)
        else:
            with Gate(study) as opened:
                result = opened.decide(request_id=request_id, who=who)
    _show(result, None, as_json, decided=True)


@gate.command("finish")
@guarded
def finish(
    study: GatePath, who: Who = None, as_json: AsJson = False, server: ServerAt = None, token: TokenIs = None
) -> None:
    """The last act: how much better the incumbent is than the first one, certified. Nothing can be checked afterwards.

    Behind a server it needs a custodian's token.

    Examples:

        everhold gate finish gate.everhold

        everhold gate finish prompts --server https://data.example.org
    """
    if server is not None:
        if who is not None:
            raise eh.SettingError("--who is for gates on this machine; a token says who asks. Leave it out.")
        with eh.connect(server, token) as connected:
            result = connected.gate(str(study)).finish()
    else:
        with Gate(study) as opened:
            result = opened.finish(who=who)
    if as_json:
        typer.echo(result.to_json())
    else:
        say(str(result))


@gate.command("status")
@guarded
def status(study: GatePath, as_json: AsJson = False, server: ServerAt = None, token: TokenIs = None) -> None:
    """Where the gate stands: what was checked, what is left. Works beside a process that checks.

    Exit code 5 says that this is an older copy: another one has gone on.

    Example:

        everhold gate status gate.everhold
    """
    if server is None:
        gate_status = Gate(study).status()
    else:
        with eh.connect(server, token) as connected:
            gate_status = connected.gate(str(study)).status()
    if as_json:
        typer.echo(json.dumps(gate_status.to_dict()))
    else:
        say(str(gate_status))
    if gate_status.older:
        raise typer.Exit(OLDER)


@gate.command("visible")
@guarded
def visible(study: GatePath) -> None:
    """The visible cases, an id on each line: their outcomes may be shown to anybody.

    Example:

        everhold gate visible gate.everhold
    """
    for case in Gate(study).visible:
        typer.echo(case)


@gate.command("registry")
@guarded
def registry(as_json: AsJson = False) -> None:
    """The studies that this user has made, and why some of them have a new budget.

    Example:

        everhold gate registry
    """
    studies = eh.Registry().studies()
    if as_json:
        typer.echo(
            json.dumps(
                [
                    {
                        "kind": study.kind,
                        "path": study.path,
                        "created": study.created,
                        "rows": study.rows,
                        "new_budget": study.reason,
                    }
                    for study in studies
                ]
            )
        )
        return
    for study in studies:
        reason = f"; new budget: {study.reason}" if study.reason else ""
        kind, size = ("gate", "case") if study.kind == "gate" else (study.kind.replace("holdout", "study"), "row")
        say(f"{study.created[:10]}  {kind:<7}  {counted(study.rows, size)}  {study.path}{reason}")
    if not studies:
        say("No study is registered.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(gate, name="gate")
