"""A new gate's files: all of them, or none."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.errors import LedgerError, RowsInUse
from everhold.gate.cases import in_use
from everhold.gate.files import SCHEMA, artifact_digest, beside, blinded, nothing_known, outcomes_digest, private_table
from everhold.ledger.files import exclusive
from everhold.ledger.reader import read_study
from everhold.ledger.sealed_arrays import SealedArrays
from everhold.ledger.study import Secret
from everhold.priors.fixed import FixedPrior
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.bounds.privacy import Privacy
    from everhold.gate.files import Cases
    from everhold.gate.rules import GateRules
    from everhold.ledger.registry import Registry

__all__ = ["create_gate"]


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
        Secret.path(path),
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
        prior=FixedPrior(nothing_known(rules.cases), None, rules.describe(), exempt_from_overlap=True),
        schema=SCHEMA,
        confidence=rules.confidence,
        register=False,
        privacy=privacy,
    ).release()
    key = bytes.fromhex(Secret.load(path).key)
    cases.save(path)
    first = SealedArrays(beside(path, "outcomes"), lambda values: outcomes_digest(key, values)).keep(blinded(steps))
    study = read_study(path).study.fingerprint
    digests, reason = cases.digests(registry), rules.new_budget
    others = registry.enter(study=study, kind="gate", path=path, digests=digests, reason=reason, refuse=True)
    if others and reason is None:
        raise RowsInUse(in_use(others))
    try:
        replace(rules, first=first, artifact=artifact_digest(key, artifact)).save(beside(path, "gate.json"))
    except BaseException:
        registry.forget(study)
        raise
