"""A gate: candidates against an incumbent on the same sealed cases, with a budget that belongs to the cases.

Whoever improves a system step by step asks the same question again and again: is the new version better than the old one?
A gate answers with one bit. With `certify='each'` every promotion is a claim about the population that the cases come
from, and all claims are valid at the same time, however candidates were found. `docs/theory/gate.md` has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.gain import STEPS
from everhold.bounds.gate_power import promotions_left
from everhold.errors import (
    GateUsedUp,
    InvalidOutcomes,
    LedgerBusy,
    LedgerError,
    ReplayError,
    RequestConflict,
    RowsInUse,
    SettingError,
)
from everhold.gate.cases import described_case, in_use, visible_cases
from everhold.gate.entries import WaitingCandidates
from everhold.gate.files import (
    SCHEMA,
    artifact_digest,
    beside,
    load_cases,
    nothing_known,
    outcomes_digest,
    private_table,
    save_cases,
)
from everhold.gate.formats import read_outcomes
from everhold.gate.judge import most_nats, promoted_index, total_gain
from everhold.gate.results import CheckResult, CheckState, GateStatus, TotalGain
from everhold.gate.rules import GateRules, OutcomeKind
from everhold.ledger.gate_check import Certify, CheckPlan, GainPlan
from everhold.ledger.patience import patiently
from everhold.ledger.reader import read_study
from everhold.ledger.registry import Registry
from everhold.ledger.rounds import ActStart
from everhold.ledger.sealed_arrays import SealedArrays
from everhold.ledger.study import Secret
from everhold.priors.fixed import FixedPrior
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.bounds.budget import Budget
    from everhold.gate.outcomes import Outcomes
    from everhold.ledger.audit import Audit
    from everhold.ledger.rounds import RecordedAct

__all__ = ["Gate"]


class Gate:
    """A gate in a study's file.

    Beside `path` lie the study's key, `<path>.gate.json` (the contract, public), `<path>.cases` (the ids) and
    `<path>.outcomes` (outcomes of all candidates), both for the owner alone.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "gate.everhold"
    >>> rng = np.random.default_rng(0)
    >>> old = {f"case-{k}": int(rng.random() < 0.5) for k in range(500)}
    >>> gate = Gate.create(path, incumbent=old)
    >>> gate.check({case: 1 if rng.random() < 0.3 else right for case, right in old.items()}).promoted
    True
    >>> gate.check({case: int(rng.random() < 0.65) for case in old}).promoted       # as good as the new incumbent
    False
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rules = GateRules.load(beside(self.path, "gate.json"))
        self._held: Holdout | None = None
        self._lock = RLock()
        self._registry = Registry()
        self._cases, self._visible = load_cases(self.path)
        self._key = bytes.fromhex(Secret.load(self.path).key)
        self._store = SealedArrays(beside(self.path, "outcomes"), self._digest)
        self._waiting = WaitingCandidates(beside(self.path, "waiting.jsonl"))

    # making --------------------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path,
        incumbent: object,
        *,
        by: float = 0.0,
        outcomes: OutcomeKind | None = None,
        certify: Certify = "each",
        generation: int = 1,
        confidence: float = 0.95,
        visible: Iterable[object] | float | None = None,
        expected: Mapping[Any, Any] | None = None,
        name: str = "the first incumbent",
        artifact: bytes | str | Path | None = None,
        scorer: str | None = None,
        new_budget: str | None = None,
    ) -> Gate:
        """Make a gate for a set of cases.

        The cases must be independent draws from the population that the claims are about, and nobody who makes candidates
        may have seen their outcomes.

        Args:
            path: of its study, which must not exist.
            incumbent: outcomes of the present system: `{case: score}`, or a file (JSON, JSONL, CSV, JUnit XML, a log of
                inspect_ai, `METRIC` lines). Several runs of a case are averaged; a case that failed with an error has the
                score 0.
            by: what a candidate must be better by.
            outcomes: 'pass' (every case passes or fails, in one run) or 'score'. Left out, it follows from the incumbent's.
            certify: 'each' promotion is certified; or only the 'final' gain is, by `finish`. The latter promotes more often.
            generation: how many candidates one check chooses from. Candidates wait until a generation is full.
            confidence: probability that all claims are valid at the same time.
            visible: cases whose outcomes anybody may see, by id, or the share of all cases to choose at random. A candidate
                that is not better on them is kept out for nothing. Claims are about the other, sealed cases.
            expected: the expected result of each case, by id; used only to recognise the set of cases, so that two sets
                with the same ids (1, 2, 3 …) are not taken for one.
            name: what the incumbent is called.
            artifact: the file of the incumbent, as a path or bytes: a candidate with the same bytes is never promoted.
            scorer: which score to take, where a log has several.
            new_budget: why these cases get a new budget although they have a gate already. Recorded.

        Raises:
            RowsInUse: these cases, or a tenth of them, belong to another gate.
            InvalidOutcomes: the outcomes cannot be used.
        """
        path = Path(path)
        if path.exists() or beside(path, "gate.json").exists():
            raise LedgerError(f"{path} exists already. Choose another name, or open it with Gate({str(path)!r}).")
        found = read_outcomes(incumbent, scorer=scorer)
        kind: OutcomeKind = outcomes if outcomes is not None else "pass" if found.pass_fail else "score"
        if kind == "pass" and not found.pass_fail:
            raise InvalidOutcomes(
                "some cases have a score between 0 and 1, or several runs. Expected pass or fail in one run for "
                "outcomes='pass': leave it out, or say outcomes='score'."
            )
        if new_budget is not None and not new_budget.strip():
            raise SettingError("new_budget is empty. Expected the reason why these cases get a new budget.")
        registry = Registry()
        cases = sorted(found.cases)
        known = registry.digests(described_case(case, expected) for case in cases)
        if new_budget is None and (others := registry.overlapping(known, ids=True)):
            raise RowsInUse(in_use(others))
        shown = visible_cases(visible, cases, registry)
        sealed = [case for case in cases if case not in shown]
        if len(sealed) < 2:
            raise SettingError(f"{len(sealed)} cases are sealed. Expected at least 2: make fewer of them visible.")
        everything = [*sealed, *(case for case in cases if case in shown)]
        rules = GateRules(
            cases=len(sealed),
            visible=len(shown),
            outcomes=kind,
            by=round(_checked_by(by) * STEPS),
            certify=certify,
            generation=generation,
            confidence=confidence,
            incumbent=name,
            first="",
            artifact=None,
            new_budget=new_budget,
        )
        return cls._write(path, rules, found.steps(everything), everything, artifact, registry, known)

    @classmethod
    def _write(
        cls,
        path: Path,
        rules: GateRules,
        steps: NDArray[np.int64],
        cases: list[str],
        artifact: bytes | str | Path | None,
        registry: Registry,
        known: NDArray[np.uint64],
    ) -> Gate:
        """All files of a gate, or none of them."""
        made = [path, Secret.path(path), *(beside(path, what) for what in ("gate.json", "cases", "lock"))]
        try:
            save_cases(path, cases, rules.cases)
            held = Holdout.create(
                path,
                private_table(cases[: rules.cases], steps[: rules.cases]),
                prior=FixedPrior(nothing_known(rules.cases), None, rules.describe(), compared=True),
                schema=SCHEMA,
                confidence=rules.confidence,
                register=False,
            )
            held.release()
            key = bytes.fromhex(Secret.load(path).key)
            store = SealedArrays(beside(path, "outcomes"), lambda values: outcomes_digest(key, values))
            first = store.keep(steps)
            replace(rules, first=first, artifact=artifact_digest(key, artifact)).save(beside(path, "gate.json"))
            gate = cls(path)
            others = registry.enter(
                study=gate.id, kind="gate", path=path, digests=known, ids=True, reason=rules.new_budget, refuse=True
            )
            if others and rules.new_budget is None:
                raise RowsInUse(in_use(others))
            registry.note_head(gate.id, str(read_study(path).head))
        except BaseException:
            for one in made:
                one.unlink(missing_ok=True)
            raise
        return gate

    @property
    def id(self) -> str:
        """What this gate is known by in registries: the keyed fingerprint of its cases, which its ledger begins with."""
        return read_study(self.path).study.fingerprint

    def _digest(self, values: NDArray[Any]) -> str:
        return outcomes_digest(self._key, values)

    # turns ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _turn(self) -> Iterator[Holdout]:
        """Nobody else has a turn: no other thread, and no other process. Between turns others may check."""
        with self._lock:
            held = self._ready()
            try:
                yield held
            finally:
                if held.usable:
                    held.pause()

    def _ready(self) -> Holdout:
        if self._held is not None and self._held.usable:
            try:
                patiently(self._held.resume)
                return self._held
            except LedgerBusy:
                raise
            except (LedgerError, ReplayError):  # not the file it was: the whole of it is read again
                self._held.release()
        rows = private_table(self._cases, self._outcomes_of(self.rules.first)[: self.rules.cases])
        newest = self._registry.newest_head(self.id)
        self._held = patiently(lambda: Holdout.open(self.path, data=rows, expect_head=newest))
        return self._held

    def _outcomes_of(self, digest: str) -> NDArray[np.int64]:
        found = self._store.read(digest)
        if found is None:
            raise LedgerError(
                f"outcomes that are needed are not in {self._store.folder}, or were changed. Restore that folder from a "
                "backup. Nothing was charged."
            )
        return found

    def open(self) -> None:
        """Find out whether all files are there and fit together. Checks do so by themselves."""
        with self._turn():
            pass

    def close(self) -> None:
        """Release the study's file."""
        with self._lock:
            if self._held is not None:
                self._held.release()
                self._held = None

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # checking ------------------------------------------------------------------------------------------------------------

    def check(
        self,
        candidate: object,
        *,
        name: str | None = None,
        artifact: bytes | str | Path | None = None,
        request_id: str | None = None,
        who: str | None = None,
        scorer: str | None = None,
    ) -> CheckResult:
        """Is the candidate better than the incumbent? Promotes it if it is.

        One bit is disclosed, and charged: a candidate that is kept out costs little, a promotion more.

        Args:
            candidate: its outcomes, as for `create`. A case without a usable outcome counts as a failure.
            name: what it is called; 'candidate 7' when left out.
            artifact: its file. If it has the same bytes as the incumbent, or as a candidate that this incumbent was checked
                against before, the sealed cases are not read.
            request_id: a repeated request with the same id gets the recorded verdict.
            who: who asks, for the record.
            scorer: which score to take, where a log has several.

        Raises:
            InvalidOutcomes: the file or its cases are not the gate's. Nothing was charged.
            GateUsedUp: no promotion is possible any more. Nothing was charged.
        """
        steps = self._checked_steps(read_outcomes(candidate, scorer=scorer, strict=False))
        same = artifact_digest(self._key, artifact)
        with self._turn() as held:
            done = self._checks(held)
            digest = self._digest(steps)
            if request_id is not None and (earlier := self._requested(held, request_id, digest)) is not None:
                return earlier
            named = name or f"candidate {sum(len(one.begun.asked) for one in done) + self._waiting.count(done) + 1}"
            if same is not None and same in (self._incumbent(done)[1], *self._checked_artifacts(done)):
                return self._result(held, "same" if same == self._incumbent(done)[1] else "kept", named)
            if self.rules.visible and not self._better_on_visible(steps, done):
                return self._result(held, "screened", named)
            self._require_usable(held, done)
            self._store.keep(steps)  # before it is checked: whatever is promoted can be compared with
            entry = {"kind": "candidate", "name": named, "digest": digest, "artifact": same}
            if self.rules.generation == 1:
                return self._check(held, [entry], request_id, who)
            self._waiting.add(entry, request_id)
            entries = self._waiting.entries(done)
            if len(entries) < self.rules.generation:
                return self._result(held, "entered", named)
            return self._check(held, entries, request_id, who)

    def _checked_steps(self, found: Outcomes) -> NDArray[np.int64]:
        everything = [*self._cases, *self._visible]
        known = set(everything)
        strange = [case for case in found.cases if case not in known]
        if strange:
            raise InvalidOutcomes(
                f"{len(strange):,} of {len(found.cases):,} cases are not the gate's, for example {strange[0]!r}. Expected "
                f"the same {len(everything):,} cases that it was made with. Nothing was charged."
            )
        if self.rules.outcomes == "pass" and any(len(scores) > 1 for scores in found.runs.values()):
            raise InvalidOutcomes(
                "cases have several runs, and this gate was made for pass or fail in one run. Expected one outcome a case; "
                "for several runs make the gate with outcomes='score'. Nothing was charged."
            )
        steps = found.steps(everything)
        if self.rules.outcomes == "pass":  # what is not a pass is a failure
            steps = np.where(steps == STEPS, STEPS, 0).astype(np.int64)
        return steps

    def _checks(self, held: Holdout) -> list[RecordedAct]:
        return [act for act, _ in held.journal.acts if act.begun.kind == "check"]

    def _incumbent(self, done: Sequence[RecordedAct]) -> tuple[str, str | None, str]:
        """Digest, artifact and name of the present incumbent."""
        for act in reversed(done):
            if not act.done.interrupted and act.done.result["promoted"]:
                promoted = act.begun.asked[int(act.done.outcome or 0)]
                return promoted["digest"], promoted["artifact"], promoted["name"]
        return self.rules.first, self.rules.artifact, self.rules.incumbent

    def _checked_artifacts(self, done: Sequence[RecordedAct]) -> set[str]:
        """The candidates' files that were checked against the present incumbent."""
        now = self._incumbent(done)[0]
        asked = [
            one
            for act in done
            if act.begun.options["incumbent"] == now and not act.done.interrupted
            for one in act.begun.asked
        ]
        return {one["artifact"] for one in asked if one["artifact"] is not None}

    def _better_on_visible(self, steps: NDArray[np.int64], done: Sequence[RecordedAct]) -> bool:
        now = self._outcomes_of(self._incumbent(done)[0])
        first = self.rules.cases
        return int(steps[first:].sum()) > int(now[first:].sum())

    def _plan(self, entries: Sequence[dict[str, Any]], done: Sequence[RecordedAct]) -> CheckPlan:
        rules = self.rules
        candidates = tuple((one["name"], one["digest"], one["artifact"]) for one in entries)
        return CheckPlan(candidates, self._incumbent(done)[0], rules.by, rules.method, rules.certify)

    def _require_usable(self, held: Holdout, done: Sequence[RecordedAct]) -> None:
        """By public facts: the price, and the number of cases."""
        if held.session.recorder.acting_mechanism().closed:
            raise GateUsedUp("the last act was made: this gate checks nothing more. Make a gate with new cases.")
        if self.rules.certify == "each" and _used_up(self.rules, held.budget):
            price = _price(self.rules, held.budget)
            raise GateUsedUp(
                f"this gate is used up: after {len(done):,} checks a promotion is judged at {price:.0f} nats, and "
                f"{self.rules.cases:,} cases cannot reach that. Make a gate with new cases. Nothing was charged."
            )

    def _check(
        self, held: Holdout, entries: Sequence[dict[str, Any]], request_id: str | None, who: str | None
    ) -> CheckResult:
        plan = self._plan(entries, self._checks(held))
        price = plan.price(held.budget)

        def decide() -> int:
            sealed = self.rules.cases
            incumbent = self._outcomes_of(plan.incumbent)[:sealed]
            candidates = [self._outcomes_of(one["digest"])[:sealed] for one in entries]
            return plan.outcome(promoted_index(plan, incumbent, candidates, price))

        begun = ActStart("check", plan.asked, plan.options)
        result = held.session.perform(begun, decide, request_id=request_id, who=who)
        self._registry.note_head(self.id, held.head)
        return self._from_record(held, result, entries[-1]["name"])

    def _requested(self, held: Holdout, request_id: str, digest: str) -> CheckResult | None:
        """The recorded verdict of a request that was made before."""
        earlier = held.journal.requested_act(request_id)
        waits = self._waiting.requested(request_id)
        if earlier is None and waits is None:
            return None
        known = [waits] if earlier is None else earlier.begun.asked
        if digest not in {one["digest"] for one in known if one is not None}:
            raise RequestConflict(
                f"request id {request_id!r} belongs to another candidate. Expected a new id for each. Nothing was charged."
            )
        if earlier is not None:
            self._registry.note_head(self.id, held.head)
            return self._from_record(held, earlier.done.result, earlier.begun.asked[-1]["name"])
        return None if waits is None else self._result(held, "entered", waits["name"])

    def _from_record(self, held: Holdout, result: dict[str, Any], name: str) -> CheckResult:
        state: CheckState = "promoted" if result["promoted"] else "kept"
        return self._result(held, state, result["name"] or name, spent=result["spent"], certified=result["certified"])

    def _result(
        self, held: Holdout, state: CheckState, name: str, *, spent: float | None = None, certified: bool = False
    ) -> CheckResult:
        checks, promotions, _ = held.budget.code.checks
        return CheckResult(
            promoted=state == "promoted",
            state=state,
            name=name,
            by=self.rules.by / STEPS,
            certified=certified,
            checks=checks,
            promotions=promotions,
            waiting=self._waiting.count(self._checks(held)),
            spent=_price(self.rules, held.budget) if spent is None else spent,
        )

    def decide(self, *, request_id: str | None = None, who: str | None = None) -> CheckResult:
        """Check the candidates that wait, although their generation is not full.

        Raises:
            InvalidOutcomes: no candidate waits.
        """
        with self._turn() as held:
            done = self._checks(held)
            entries = self._waiting.entries(done)
            if not entries:
                raise InvalidOutcomes("no candidate waits. Check one first. Nothing was charged.")
            self._require_usable(held, done)
            return self._check(held, entries, request_id, who)

    # the end, and where it stands ----------------------------------------------------------------------------------------

    def finish(self, *, request_id: str | None = None, who: str | None = None) -> TotalGain:
        """The last act: how much better the present incumbent is than the first one. The gate checks nothing afterwards.

        The gain on the sealed cases is disclosed, with a lower end for the population that is valid at the same time as
        every certified promotion.
        """
        with self._turn() as held:
            done = self._checks(held)
            for act, _ in held.journal.acts:
                if act.begun.kind == "gain" and not act.done.interrupted:
                    return self._total(held, act.done.result)
            plan = GainPlan(self.rules.first, self._incumbent(done)[0], self.rules.cases)
            price = plan.price(held.budget)
            sealed = self.rules.cases

            def decide() -> str:
                first, last = (self._outcomes_of(one)[:sealed] for one in (plan.first, plan.last))
                return plan.outcome(*total_gain(first, last, price))

            result = held.session.perform(ActStart("gain", (), plan.options), decide, request_id=request_id, who=who)
            self._registry.note_head(self.id, held.head)
            return self._total(held, result)

    def _total(self, held: Holdout, result: dict[str, Any]) -> TotalGain:
        return TotalGain(result["gain"], result["low"], held.budget.code.checks[1], result["spent"])

    def status(self) -> GateStatus:
        """Where the gate stands, from public files. Works beside a process that checks."""
        found = read_study(self.path)
        checks, promotions, interrupted = found.budget.code.checks
        done = [one for one in found.acts if one.act == "check"]
        promoted = [one.result["name"] for one in done if one.result and one.result["promoted"]]
        rules = self.rules
        return GateStatus(
            cases=rules.cases,
            visible=rules.visible,
            outcomes=rules.outcomes,
            by=rules.by / STEPS,
            certify=rules.certify,
            generation=rules.generation,
            confidence=rules.confidence,
            checks=checks,
            promotions=promotions,
            interrupted=interrupted,
            waiting=self._waiting.waiting(sum(one.result["candidates"] for one in done if one.result)),
            incumbent=promoted[-1] if promoted else rules.incumbent,
            spent=_price(rules, found.budget),
            left=_promotions_left(rules, found.budget) if rules.certify == "each" else {},
            used_up=rules.certify == "each" and _used_up(rules, found.budget),
            finished=found.closed,
            new_budget=rules.new_budget,
            head=str(found.head),
        )

    def audit(self) -> Audit:
        """Check the ledger: its chain, its bytes, every price and every verdict's record again."""
        return Holdout.audit_file(self.path)

    def __repr__(self) -> str:
        return f"Gate({str(self.path)!r}, {self.rules.cases:,} sealed cases)"


def _checked_by(by: float) -> float:
    if isinstance(by, bool) or not isinstance(by, int | float) or not 0.0 <= by < 1.0:
        raise SettingError(f"by is {by!r}. Expected a difference of scores of at least 0 and below 1, for example 0.01.")
    return by


def _price(rules: GateRules, budget: Budget) -> float:
    return budget.promotion_price(rules.generation)


def _promotions_left(rules: GateRules, budget: Budget) -> dict[str, int]:
    """How many more promotions of 3 and of 6 points are possible, by points."""
    return {
        f"{points}": promotions_left(
            budget, rules.cases, points / 100, method=rules.method, by=rules.by / STEPS, candidates=rules.generation
        )
        for points in (3, 6)
    }


def _used_up(rules: GateRules, budget: Budget) -> bool:
    """Whether not even a candidate that passes every case could be promoted."""
    return _price(rules, budget) > most_nats(rules.method, rules.by, rules.cases)
