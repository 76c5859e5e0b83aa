"""A new gate's files: all of them, or none."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.bounds.privacy import Privacy
from everhold.errors import InvalidOutcomes, LedgerError, RowsInUse, SettingError
from everhold.gate.cases import in_use, visible_cases
from everhold.gate.files import (
    SCHEMA,
    Cases,
    artifact_digest,
    beside,
    blinded,
    nothing_known,
    outcomes_digest,
    private_table,
)
from everhold.ledger.kept_arrays import KeptArrays
from everhold.ledger.key_file import KeyFile
from everhold.ledger.reader import read_study
from everhold.ledger.safe_files import exclusive
from everhold.priors.fixed import FixedPrior
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.gate.outcomes import Outcomes
    from everhold.gate.rules import GateRules, OutcomeKind
    from everhold.ledger.registry import Registry

__all__ = ["create_gate", "divided_cases", "first_outcomes", "require_private_gate"]


def require_private_gate(privacy: object, outcomes: object) -> None:
    """Refuse what a private gate cannot keep, before an outcome is read."""
    if not isinstance(privacy, Privacy):
        raise SettingError(f"privacy is {privacy!r}. Expected eh.Privacy(epsilon=..., delta=..., surprises=...).")
    if outcomes is None:
        raise SettingError(
            "a private gate must say what outcomes are: outcomes='pass' or outcomes='score' (--outcomes). Found from the "
            "incumbent, a single case could change it."
        )


def first_outcomes(incumbent: Outcomes, kind: OutcomeKind | None, *, allow_missing: bool) -> tuple[Outcomes, OutcomeKind]:
    """The incumbent's outcomes, if a gate can be made with them, and what kind they are if nobody said."""
    checked: OutcomeKind = kind if kind is not None else "pass" if incumbent.pass_fail else "score"
    if checked == "pass" and not incumbent.pass_fail:
        raise InvalidOutcomes(
            "some cases have a score between 0 and 1, or several runs. Expected pass or fail in one run for "
            "outcomes='pass': leave it out, or say outcomes='score'."
        )
    if incumbent.empty and not allow_missing:
        raise InvalidOutcomes(
            f"{len(incumbent.empty):,} of the incumbent's {len(incumbent.cases):,} cases have no outcome (null, NaN or "
            "empty). They would count as its failures, and the next candidate would look better than it is. Run them again. "
            'Where the incumbent failed, write 0 or "error"; if all of them are failures, say so (allow_missing=True, '
            "--allow-missing). Nothing was made."
        )
    return incumbent, checked


def divided_cases(
    ids: list[str],
    visible: Iterable[object] | float | None,
    expected: Mapping[Any, Any] | None,
    registry: Registry,
    new_budget: str | None,
) -> Cases:
    """The cases of a new gate, sealed and visible ones. Refused if they belong to another gate."""
    if new_budget is not None and not new_budget.strip():
        raise SettingError("new_budget is empty. Expected the reason why these cases get a new budget.")
    shown = visible_cases(visible, ids, registry)
    expected_results = None if expected is None else {str(case): result for case, result in expected.items()}
    cases = Cases([case for case in ids if case not in shown], [case for case in ids if case in shown], expected_results)
    if len(cases.sealed) < 2:
        raise SettingError(f"{len(cases.sealed)} cases are sealed. Expected at least 2: make fewer of them visible.")
    if new_budget is None and (others := registry.overlapping(cases.digests(registry))):
        raise RowsInUse(in_use(others))
    return cases


def create_gate(
    path: Path,
    rules: GateRules,
    steps: NDArray[np.int64],
    cases: Cases,
    artifact: bytes | str | Path | None,
    registry: Registry,
    privacy: Privacy | None = None,
) -> None:
    """Write a gate and enter it in the registry. What cannot be finished is taken back; nothing else is touched."""
    files = [
        path,
        KeyFile.path(path),
        *(beside(path, what) for what in ("gate.json", "cases", "waiting.jsonl", "outcomes", "spent")),
    ]
    place = path.with_name(f".{path.name}.creating")
    with exclusive(place):
        try:
            if existing := [file for file in files if file.exists()]:
                raise LedgerError(
                    f"{', '.join(str(file) for file in existing)} exists already. Choose another name; or, if this is what "
                    "is left of a gate that could not be made, delete it."
                )
            try:
                _write(path, rules, steps, cases, artifact, registry, privacy)
            except BaseException:
                for file in files:
                    shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink(missing_ok=True)
                beside(path, "lock").unlink(missing_ok=True)
                raise
        finally:
            place.unlink(missing_ok=True)


def _write(
    path: Path,
    rules: GateRules,
    steps: NDArray[np.int64],
    cases: Cases,
    artifact: bytes | str | Path | None,
    registry: Registry,
    privacy: Privacy | None,
) -> None:
    Holdout.create(
        path,
        private_table(cases.sealed, steps[: rules.cases]),
        prior=FixedPrior(nothing_known(rules.cases), None, rules.describe(), exempt_from_overlap=True, kind="gate"),
        schema=SCHEMA,
        confidence=rules.confidence,
        register=False,
        privacy=privacy,
    ).release()
    key = bytes.fromhex(KeyFile.load(path).key)
    cases.save(path)
    first = KeptArrays(beside(path, "outcomes"), lambda values: outcomes_digest(key, values)).keep(blinded(steps))
    fingerprint = read_study(path).first_record.fingerprint
    digests, reason = cases.digests(registry), rules.new_budget
    others = registry.enter(study=fingerprint, kind="gate", path=path, digests=digests, reason=reason, refuse=True)
    if others and reason is None:
        raise RowsInUse(in_use(others))
    try:
        replace(rules, first=first, artifact=artifact_digest(key, artifact)).save(beside(path, "gate.json"))
    except BaseException:
        registry.forget(fingerprint)
        raise
