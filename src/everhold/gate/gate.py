"""A gate: candidates against an incumbent on the same sealed cases, with a budget that belongs to the cases.

People who improve a system step by step ask the same question again and again: is the new version better than the old one?
A gate answers with one bit. With `certify='each'` every promotion is a claim about the population that the cases come
from, and all claims are valid at the same time, however candidates were found. `docs/theory/gate.md` has the proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.privacy import Privacy
from everhold.errors import (
    GateUsedUp,
    InvalidOutcomes,
    LedgerBusy,
    LedgerError,
    ReplayError,
    RequestConflict,
    RowsInUse,
    SettingError,
    require_number,
)
from everhold.gate.audit import GateAudit
from everhold.gate.cases import in_use, visible_cases
from everhold.gate.certifiable import require_certifiable
from everhold.gate.create import create_gate
from everhold.gate.files import Cases, artifact_digest, beside, blinded, outcomes_digest, private_table, unblinded
from everhold.gate.formats import read_outcomes
from everhold.gate.judge import noisily_promoted_index, promoted_index, total_gain
from everhold.gate.results import CheckResult, CheckState, GateStatus, TotalGain
from everhold.gate.rules import GateRules, OutcomeKind
from everhold.gate.status import affords_promotion, gate_status, promotion_price, too_small_a_step, used_up
from everhold.gate.waiting import WaitingCandidates
from everhold.ledger.files import UNKNOWN_STAMPS, FileStamps, file_stamp
from everhold.ledger.gate_check import CertifyWhen, CheckPlan, GainPlan
from everhold.ledger.patience import patiently
from everhold.ledger.reader import read_study
from everhold.ledger.registry import Registry
from everhold.ledger.rounds import ActStart
from everhold.ledger.sealed_arrays import SealedArrays
from everhold.ledger.study import Secret
from everhold.mechanism.private import PrivateEverhold, require_affordable
from everhold.session.caps import Caps
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.gate.outcomes import OutcomeGaps, Outcomes
    from everhold.ledger.reader import StudyFile
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
        study = read_study(self.path).study
        if study.prior != self.rules.describe() or study.settings["confidence"] != self.rules.confidence:
            raise LedgerError(
                f"{beside(self.path, 'gate.json')} has other rules than the ledger. A gate's contract cannot be changed: "
                "restore that file from a backup."
            )
        self.id = study.fingerprint
        """What this gate is known by in registries: the keyed fingerprint of its cases, which its ledger begins with."""
        self.charges_each: int | None = None
        """Of a private gate: how many promotions each name in the record may cause; None: any. For a server."""
        self._holdout: Holdout | None = None
        self._lock = RLock()
        self._registry = Registry()
        self._cases = Cases.load(self.path)
        self._key = bytes.fromhex(Secret.load(self.path).key)
        self._store = SealedArrays(beside(self.path, "outcomes"), lambda values: outcomes_digest(self._key, values))
        self._waiting = WaitingCandidates(beside(self.path, "waiting.jsonl"))
        self.last_stamps: FileStamps = UNKNOWN_STAMPS

    @property
    def visible(self) -> list[str]:
        """The cases whose outcomes anybody may see."""
        return list(self._cases.visible)

    # making --------------------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path,
        incumbent: object,
        *,
        by: float = 0.0,
        outcomes: OutcomeKind | None = None,
        certify: CertifyWhen = "each",
        generation: int = 1,
        confidence: float = 0.95,
        visible: Iterable[object] | float | None = None,
        expected: Mapping[Any, Any] | None = None,
        name: str = "the first incumbent",
        artifact: bytes | str | Path | None = None,
        scorer: str | None = None,
        new_budget: str | None = None,
        privacy: Privacy | None = None,
        step: float | None = None,
        allow_missing: bool = False,
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
            privacy: what to promise about every sealed case to those who see verdicts, such as `eh.Privacy(epsilon=1.0)`;
                its `surprises` are promotions. Candidates that are kept out are free. It needs `outcomes`, and thousands of
                cases (docs/howto/private.md#gates).
            step: the smallest gain that matters, such as 0.03. No gate is made that could not certify it, and one is used up
                when it cannot certify it any more. Left out, a gate goes on until no gain at all can be certified.
            allow_missing: whether cases of the incumbent may have no outcome (null, NaN, empty). Each counts as a failure of
                the incumbent, and makes the next candidate look better.

        Raises:
            RowsInUse: these cases, or a tenth of them, belong to another gate.
            InvalidOutcomes: the outcomes cannot be used.
            SettingError: a setting is out of its range, or such steps cannot be certified.
        """
        if privacy is not None:
            _require_private_gate(privacy, outcomes)
        path = Path(path)
        first_outcomes = read_outcomes(incumbent, scorer=scorer)
        kind: OutcomeKind = outcomes if outcomes is not None else "pass" if first_outcomes.pass_fail else "score"
        if kind == "pass" and not first_outcomes.pass_fail:
            raise InvalidOutcomes(
                "some cases have a score between 0 and 1, or several runs. Expected pass or fail in one run for "
                "outcomes='pass': leave it out, or say outcomes='score'."
            )
        if first_outcomes.empty and not allow_missing:
            raise InvalidOutcomes(_incumbent_gaps(len(first_outcomes.empty), len(first_outcomes.cases)))
        if new_budget is not None and not new_budget.strip():
            raise SettingError("new_budget is empty. Expected the reason why these cases get a new budget.")
        registry = Registry()
        ids = sorted(first_outcomes.cases)
        shown = visible_cases(visible, ids, registry)
        expected_results = None if expected is None else {str(case): result for case, result in expected.items()}
        cases = Cases([case for case in ids if case not in shown], [case for case in ids if case in shown], expected_results)
        if len(cases.sealed) < 2:
            raise SettingError(f"{len(cases.sealed)} cases are sealed. Expected at least 2: make fewer of them visible.")
        if new_budget is None and (others := registry.overlapping(cases.digests(registry))):
            raise RowsInUse(in_use(others))
        rules = GateRules(
            cases=len(cases.sealed),
            visible=len(cases.visible),
            outcomes=kind,
            by=round(_checked_by(by) * SCORE_ONE),
            certify=certify,
            generation=generation,
            confidence=confidence,
            incumbent=_checked_name(name),
            first="",
            artifact=None,
            new_budget=new_budget,
            private=privacy is not None,
            step=_checked_step(step),
        )
        require_certifiable(rules, privacy)
        create_gate(path, rules, first_outcomes.on_score_grid(cases.everything), cases, artifact, registry, privacy)
        return cls(path)

    # turns ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _turn(self) -> Iterator[Holdout]:
        """Nobody else has a turn: no other thread, and no other process. Between turns others may check."""
        with self._lock:
            self.last_stamps = UNKNOWN_STAMPS
            holdout = self._ready()
            try:
                yield holdout
            finally:
                if holdout.usable:
                    self.last_stamps = self.stamps()
                    holdout.pause()

    def stamps(self) -> FileStamps:
        """What the study's file and that of waiting candidates look like now: as long as it stays, so does the status.

        `last_stamps` is the same as this process left it, under its lock.
        """
        return file_stamp(self.path), file_stamp(beside(self.path, "waiting.jsonl"))

    def _ready(self) -> Holdout:
        self._waiting.settle()
        if self._holdout is not None and self._holdout.usable:
            try:
                patiently(self._holdout.resume)
            except LedgerBusy:
                raise
            except (LedgerError, ReplayError):  # not the file it was: the whole of it is read again
                self._holdout.release()
                self._holdout = None
        newest = self._registry.newest_head(self.id)
        if newest is None:  # made elsewhere, or before this registry
            digests = self._cases.digests(self._registry)
            self._registry.enter(study=self.id, kind="gate", path=self.path, digests=digests, reason=self.rules.new_budget)
            newest = ""
        if self._holdout is not None and newest in ("", self._holdout.head):
            return self._holdout
        if self._holdout is not None:  # another head is noted: does this ledger contain it?
            self._holdout.release()
        rows = private_table(self._cases.sealed, self._sealed_outcomes(self.rules.first))
        self._holdout = patiently(lambda: Holdout.open(self.path, data=rows, expect_head=newest or None))
        self._holdout.session.caps = Caps.of(self.charges_each, self._holdout.privacy, self.path)
        return self._holdout

    def _perform(
        self, holdout: Holdout, begun: ActStart, decide: Callable[[], int | str], **asked: str | None
    ) -> dict[str, Any]:
        """Do an act. Between its announcement and its outcome the registry notes it: of two copies one goes on."""
        before = self._registry.newest_head(self.id) or ""
        announced = ""

        def noted() -> int | str:
            nonlocal announced
            announced = holdout.head
            if not self.rules.private:  # the shield of a private gate has noted it
                self._advance(before, announced)
            return decide()

        asked_by = holdout.session.asked_by(asked["request_id"], asked["who"])

        def require() -> None:
            holdout.session.require_under_cap(asked_by.who)

        result = holdout.session.recorder.do_act(begun, noted, asked_by, require)
        if self._registry.newest_head(self.id) != holdout.head:  # a private gate's charges are noted as they become durable
            self._advance(announced, holdout.head)
        return result

    def _advance(self, before: str, head: str) -> None:
        if not self._registry.advance(self.id, before, head):
            raise LedgerError(
                f"{self.path} is a copy, and another one has gone on. Use that one: going on from this copy would "
                "answer the same question a second time."
            )

    def _outcomes_of(self, digest: str) -> NDArray[np.int64]:
        stored = self._store.read(digest)
        if stored is None:
            raise LedgerError(
                f"outcomes that are needed are not in {self._store.folder}, or were changed. Restore that folder from a "
                "backup. Nothing was charged."
            )
        return unblinded(stored)

    def _sealed_outcomes(self, digest: str) -> NDArray[np.int64]:
        return self._outcomes_of(digest)[: self.rules.cases]

    def open(self) -> None:
        """Find out whether all files are there and fit together. Checks do so by themselves."""
        with self._turn():
            pass

    def release(self) -> None:
        """Release the study's file, so that another process may use it."""
        with self._lock:
            self.last_stamps = UNKNOWN_STAMPS
            if self._holdout is not None:
                self._holdout.release()
                self._holdout = None

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

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
        require_all: bool = False,
    ) -> CheckResult:
        """Is the candidate better than the incumbent? Promotes it if it is.

        One bit is disclosed, and charged: a candidate that is kept out costs little, a promotion more.

        Args:
            candidate: its outcomes, as for `create`. A case without a usable outcome counts as a failure. A file's name says
                its form (.json, .jsonl, .csv, .tsv, .xml, .eval, or .log for `METRIC` lines). If it says nothing, the
                content does, and ids that the gate does not know mean nothing.
            name: what it is called; 'candidate 7' when left out.
            artifact: its file. If it has the same bytes as the incumbent, or as a candidate that this incumbent was checked
                against before, the sealed cases are not read.
            request_id: a repeated request with the same id gets the recorded verdict, without a look at its outcomes. So an
                id belongs to one candidate: the name and the artifact must be the same again.
            who: who asks, for the record.
            scorer: which score to take, where a log has several.
            require_all: refuse a file in which a case has no usable outcome (`gaps`). Only where the candidate cannot cause
                that: a refusal is free, and would disclose what the candidate does on sealed cases.

        Raises:
            InvalidOutcomes: the file or its cases are not the gate's. Nothing was charged.
            RequestConflict: the request id belongs to another candidate. Nothing was charged.
            GateUsedUp: no promotion is possible any more. Nothing was charged.
        """
        outcomes = read_outcomes(candidate, scorer=scorer, strict=False)
        if require_all:
            self.gaps(outcomes).require_none()
        same = artifact_digest(self._key, artifact)
        wanted_name = None if name is None else _checked_name(name)
        with self._turn() as holdout:
            checks = self._checks(holdout)
            if (
                request_id is not None
                and (earlier := self._requested(holdout, request_id, who, (wanted_name, same))) is not None
            ):
                return earlier
            steps = self._on_score_grid(outcomes)
            entry = {"kind": "candidate", "name": self._named(wanted_name, checks), "digest": "", "artifact": same}
            incumbent = self._incumbent(checks)
            if same is not None and same == incumbent["artifact"]:
                return self._result(holdout, "same", entry)
            if same is not None and same in self._checked_artifacts(checks):
                return self._result(holdout, "kept", entry)
            if self.rules.visible and not self._better_on_visible(steps, incumbent):
                return self._result(holdout, "screened", entry)
            self._require_usable(holdout, checks)
            entry["digest"] = self._store.keep(blinded(steps))  # before it is checked: it may be compared with later
            if self.rules.generation == 1:
                return self._check(holdout, [entry], entry, request_id, who)
            self._waiting.add(entry, request_id)
            return self._check_if_full(holdout, entry, who)

    def gaps(self, candidate: object, *, scorer: str | None = None) -> OutcomeGaps:
        """What of a candidate's file counts as a failure although the candidate may not have failed. For the evaluator.

        It depends on the file and on the gate's cases alone, costs nothing and is not recorded. Do not show it to those
        who make candidates: it says how often something happened on sealed cases.
        """
        outcomes = read_outcomes(candidate, scorer=scorer, strict=False)
        return outcomes.gaps(self._cases.everything, pass_fail=self.rules.outcomes == "pass")

    def _check_if_full(self, holdout: Holdout, entry: dict[str, Any], who: str | None) -> CheckResult:
        entries = self._waiting.entries(self._checks(holdout))
        if len(entries) < self.rules.generation:
            return self._result(holdout, "waiting", entry)
        return self._check(holdout, entries, entry, None, who)

    def _named(self, wanted: str | None, done: Sequence[RecordedAct]) -> str:
        """A name that no other candidate has."""
        used = {entry["name"] for act in done for entry in act.begun.asked} | self._waiting.names() | {self.rules.incumbent}
        number = sum(len(act.begun.asked) for act in done) + len(self._waiting.entries(done)) + 1
        plain = wanted if wanted is not None else f"candidate {number}"
        names = (plain if again == 1 else f"{plain} ({again})" for again in count(1))
        return next(name for name in names if name not in used)

    def _on_score_grid(self, outcomes: Outcomes) -> NDArray[np.int64]:
        everything = self._cases.everything
        known_cases = set(everything)
        strange = sum(case not in known_cases for case in outcomes.cases)
        if strange and not outcomes.printed:  # never with one of them, which may be what a candidate printed
            such = "" if self.rules.private else f", such as {(self._cases.visible or everything)[0]!r}"
            raise InvalidOutcomes(
                f"{strange:,} of {len(outcomes.cases):,} cases are not the gate's. Expected the same {len(everything):,} "
                f"cases that it was made with{such}. Nothing was charged."
            )
        return outcomes.passes(everything) if self.rules.outcomes == "pass" else outcomes.on_score_grid(everything)

    def _checks(self, holdout: Holdout) -> list[RecordedAct]:
        return [act for act, _ in holdout.journal.acts if act.begun.kind == "check"]

    def _incumbent(self, done: Sequence[RecordedAct]) -> dict[str, Any]:
        """The present incumbent, as the record describes candidates."""
        for act in reversed(done):
            if (promoted := _promoted(act)) is not None:
                return promoted
        rules = self.rules
        return {"kind": "candidate", "name": rules.incumbent, "digest": rules.first, "artifact": rules.artifact}

    def _checked_artifacts(self, done: Sequence[RecordedAct]) -> set[str]:
        """The candidates' files that were checked against the present incumbent."""
        now = self._incumbent(done)["digest"]
        asked = [
            entry
            for act in done
            if act.begun.options["incumbent"] == now and not act.done.interrupted
            for entry in act.begun.asked
        ]
        return {entry["artifact"] for entry in asked if entry["artifact"] is not None}

    def _better_on_visible(self, steps: NDArray[np.int64], incumbent: dict[str, Any]) -> bool:
        first = self.rules.cases
        return int(steps[first:].sum()) > int(self._outcomes_of(incumbent["digest"])[first:].sum())

    def _require_usable(self, holdout: Holdout, done: Sequence[RecordedAct]) -> None:
        """By public facts: the price, and the number of cases."""
        if holdout.closed:
            raise GateUsedUp("the last act was made: this gate checks nothing more. Make a gate with new cases.")
        if not affords_promotion(holdout.budget):
            raise GateUsedUp(
                f"the privacy budget of this gate is used up after {len(done):,} checks: it pays for no further promotion. "
                "Its claims stay valid. Make a gate with new cases. Nothing was charged."
            )
        if used_up(self.rules, holdout.budget):
            price = promotion_price(self.rules, holdout.budget)
            if self.rules.step is not None and too_small_a_step(self.rules, holdout.budget):
                raise GateUsedUp(
                    f"this gate is used up for steps of {100 * self.rules.step:g} points: after {len(done):,} checks a "
                    f"promotion is judged at {price:.1f} nats, and {self.rules.cases:,} cases certify such a step no more. "
                    "Make a gate with new cases. Nothing was charged."
                )
            raise GateUsedUp(
                f"this gate is used up: after {len(done):,} checks a promotion is judged at {price:.0f} nats, and "
                f"{self.rules.cases:,} cases cannot reach that. Make a gate with new cases. Nothing was charged."
            )

    def _check(
        self,
        holdout: Holdout,
        entries: Sequence[dict[str, Any]],
        mine: dict[str, Any],
        request_id: str | None,
        who: str | None,
    ) -> CheckResult:
        """Check these candidates. The result is about one of them."""
        rules, incumbent = self.rules, self._incumbent(self._checks(holdout))["digest"]
        candidates = tuple((entry["name"], entry["digest"], entry["artifact"]) for entry in entries)
        plan = CheckPlan(candidates, incumbent, rules.by, rules.method, rules.certify)
        price = plan.price(holdout.budget)
        before = self._sealed_outcomes(incumbent)
        outcomes = [self._sealed_outcomes(entry["digest"]) for entry in entries]  # what is lost is noticed before the act
        self._perform(
            holdout,
            ActStart("check", plan.asked, plan.options),
            lambda: plan.outcome(self._promoted_index(holdout, plan, before, outcomes, price)),
            request_id=request_id,
            who=who,
        )
        act = self._checks(holdout)[-1]
        return self._from_record(holdout, act, mine)

    def _promoted_index(
        self,
        holdout: Holdout,
        plan: CheckPlan,
        before: NDArray[np.int64],
        outcomes: Sequence[NDArray[np.int64]],
        price: float,
    ) -> int | None:
        if not self.rules.private:
            return promoted_index(plan, before, outcomes, price)
        mechanism = _private(holdout)
        return noisily_promoted_index(plan, before, outcomes[0], price, mechanism.account.terms, mechanism.noise)

    def _requested(
        self, holdout: Holdout, request_id: str, who: str | None, asked: tuple[str | None, str | None] | None = None
    ) -> CheckResult | None:
        """The recorded verdict of a request that was made before, if it was about the same candidate (its name and file).

        Its outcomes are not compared with the recorded ones: that would be a free look.
        """
        checks = self._checks(holdout)
        if (waits := self._waiting.requested(request_id, checks)) is not None:
            entry, act = waits
            _require_same(entry, asked, request_id)
            if act is None:
                return self._check_if_full(holdout, entry, who)
            return replace(self._from_record(holdout, act, entry), repeated=True)
        earlier = holdout.journal.requested_act(request_id)
        if earlier is None:
            return None
        if earlier.begun.kind != "check":
            raise RequestConflict(
                f"request id {request_id!r} belongs to another act. Expected a new id. Nothing was charged."
            )
        entry = earlier.begun.asked[-1]
        _require_same(entry, asked, request_id)
        return replace(self._from_record(holdout, earlier, entry), repeated=True)

    def _from_record(self, holdout: Holdout, act: RecordedAct, mine: dict[str, Any]) -> CheckResult:
        promoted = _promoted(act)
        state: CheckState = "promoted" if promoted is not None and promoted["digest"] == mine["digest"] else "kept"
        result = self._result(holdout, state, mine, act)
        if state == "promoted" or self.rules.generation > 1:
            return result
        promotions = [promoted for check in self._checks(holdout) if (promoted := _promoted(check)) is not None]
        names = {promoted["digest"]: promoted["name"] for promoted in promotions}
        incumbent = names.get(act.begun.options["incumbent"], self.rules.incumbent)  # as it was when this was checked
        return replace(result, is_incumbent=_same_name(mine["name"], incumbent))

    def _result(
        self, holdout: Holdout, state: CheckState, mine: dict[str, Any], act: RecordedAct | None = None
    ) -> CheckResult:
        checks, promotions, _ = holdout.budget.code.checks
        promoted = None if act is None else _promoted(act)
        return CheckResult(
            promoted=state == "promoted",
            state=state,
            name=mine["name"],
            winner=None if promoted is None else promoted["name"],
            by=self.rules.by / SCORE_ONE,
            certified=promoted is not None and self.rules.certify == "each",
            checks=checks,
            promotions=promotions,
            waiting=self._waiting.count(self._checks(holdout)),
            price=promotion_price(self.rules, holdout.budget) if act is None else act.done.result["price"],
        )

    def decide(self, *, request_id: str | None = None, who: str | None = None) -> CheckResult:
        """Check the candidates that wait, although their generation is not full.

        Raises:
            InvalidOutcomes: no candidate waits.
        """
        with self._turn() as holdout:
            if request_id is not None and (earlier := self._requested(holdout, request_id, who)) is not None:
                return earlier
            checks = self._checks(holdout)
            entries = self._waiting.entries(checks)
            if not entries:
                raise InvalidOutcomes("no candidate waits. Check one first. Nothing was charged.")
            self._require_usable(holdout, checks)
            return self._check(holdout, entries, entries[-1], request_id, who)

    # the end, and where it stands ----------------------------------------------------------------------------------------

    def finish(self, *, request_id: str | None = None, who: str | None = None) -> TotalGain:
        """The last act: how much better the present incumbent is than the first one. The gate checks nothing afterwards.

        The gain on the sealed cases is disclosed, with a lower end for the population that is valid at the same time as
        every certified promotion, and never below the sum of what these certify.
        """
        with self._turn() as holdout:
            checks = self._checks(holdout)
            for act, _ in holdout.journal.acts:
                if act.begun.kind == "gain" and not act.done.interrupted:
                    return self._total(holdout, act.done.result)
            if waits := self._waiting.count(checks):
                raise InvalidOutcomes(
                    f"{waits:,} candidates wait for their generation. Check them first (decide), or make the gate without "
                    "generations. Nothing was charged."
                )
            noise = None
            if self.rules.private:
                account = _private(holdout).account
                require_affordable(account, account.terms.release_cost, "the total gain")
                noise = account.terms.release_parts
            plan = GainPlan(self.rules.first, self._incumbent(checks)["digest"], self.rules.cases, noise)
            price = plan.price(holdout.budget)
            first, last = self._sealed_outcomes(plan.first), self._sealed_outcomes(plan.last)
            result = self._perform(
                holdout,
                ActStart("gain", (), plan.options),
                lambda: self._gain(holdout, plan, first, last, price),
                request_id=request_id,
                who=who,
            )
            return self._total(holdout, result)

    def _gain(
        self, holdout: Holdout, plan: GainPlan, first: NDArray[np.int64], last: NDArray[np.int64], price: float
    ) -> str:
        """What the last act discloses; of a private gate the sum of all differences with noise, of which a case is a row."""
        if plan.first == plan.last:
            return plan.outcome(0, 0)
        if not self.rules.private:
            return plan.outcome(*total_gain(first, last, price))
        return plan.noisy_outcome(int(_private(holdout).noisy_total(int((last - first).sum()))), price)

    def _total(self, holdout: Holdout, result: dict[str, Any]) -> TotalGain:
        promotions = holdout.budget.code.checks[1]
        low = result["low"]
        if self.rules.certify == "each" and promotions:  # all at the same time, so they add up (docs/theory/gate.md)
            low = max(low, promotions * self.rules.by / SCORE_ONE)
        return TotalGain(result["gain"], low, promotions, result["price"])

    def status(self) -> GateStatus:
        """Where the gate stands, from public files. Works beside a process that checks.

        `older` is true of a copy that another one has left behind, by this user's registry: it checks nothing.
        """
        newest = None
        with suppress(LedgerError):  # who may not use the registry may read the file all the same
            newest = self._registry.newest_head(self.id)  # before the file, which goes ahead of it
        found = self.status_in(read_study(self.path))
        records = int(newest.partition(":")[0]) if newest else 0
        return replace(found, older=records > int(found.head.partition(":")[0]))

    def status_in(self, file: StudyFile) -> GateStatus:
        """Where the gate stands by its study's file, which was read."""
        results = [act.result for act in file.acts if act.act == "check" and act.result is not None]
        return gate_status(
            self.rules, self._waiting, results=results, budget=file.budget, head=file.head, finished=file.closed
        )

    def status_and_holdout(self) -> tuple[GateStatus, Holdout]:
        """The status and the study behind it as the last turn left them: nothing is read again. Only between turns."""
        with self._lock:
            holdout = self._holdout
            if holdout is None or self.last_stamps == UNKNOWN_STAMPS:
                raise LedgerError(
                    "the gate was not opened yet, or its last turn failed. Call gate.open() first, or read the file: "
                    "gate.status()."
                )
            results = [act.done.result for act in self._checks(holdout) if not act.done.interrupted]
            status = gate_status(
                self.rules, self._waiting, results=results, budget=holdout.budget, head=holdout.head, finished=holdout.closed
            )
            return status, holdout

    def audit(self, *, expect_head: str | None = None) -> GateAudit:
        """Check the ledger: its chain, its bytes, every price and every verdict, and that all have the gate's contract."""
        plain = Holdout.audit_file(self.path, expect_head=expect_head)
        audit = GateAudit(plain.rounds, plain.surprises, plain.unchecked, plain.deviation, rules=self.rules)
        for act in read_study(self.path).acts if audit.ok else ():
            if act.act == "check":
                promoted = act.result is not None and act.result["promoted"]
                audit = replace(audit, checks=audit.checks + 1, promotions=audit.promotions + promoted)
            if act.act == "check" and act.result is not None:
                certified = act.result["promoted"] and self.rules.certify == "each"
                if (act.result["by"], act.result["certified"]) != (self.rules.by / SCORE_ONE, certified):
                    return replace(audit, deviation="a check in the ledger was made by another contract than the gate's.")
        return audit

    def __repr__(self) -> str:
        return f"Gate({str(self.path)!r}, {self.rules.cases:,} sealed cases)"


def _require_private_gate(privacy: object, outcomes: object) -> None:
    """Refuse what a private gate cannot keep, before an outcome is read."""
    if not isinstance(privacy, Privacy):
        raise SettingError(f"privacy is {privacy!r}. Expected eh.Privacy(epsilon=..., delta=..., surprises=...).")
    if outcomes is None:
        raise SettingError(
            "a private gate must say what outcomes are: outcomes='pass' or outcomes='score' (--outcomes). Found from the "
            "incumbent, a single case could change it."
        )


def _incumbent_gaps(missing: int, cases: int) -> str:
    """Why an incumbent with holes is refused, and what to do."""
    return (
        f"{missing:,} of the incumbent's {cases:,} cases have no outcome (null, NaN or empty). They would count as its "
        "failures, and the next candidate would look better than it is. Run them again. Where the incumbent failed, write 0 "
        'or "error"; if all of them are failures, say so (allow_missing=True, --allow-missing). Nothing was made.'
    )


def _same_name(name: str, other: str) -> bool:
    """Whether two candidates were called alike, but for a number that tells a later one from an earlier one.

    >>> _same_name("shorter (2)", "shorter"), _same_name("shorter", "shortest")
    (True, False)
    """
    first, second = (re.sub(r" \(\d+\)$", "", text) for text in (name, other))
    return first == second


def _require_same(entry: dict[str, Any], asked: tuple[str | None, str | None] | None, request_id: str) -> None:
    """Refuse another candidate under the id of an earlier request. By its name and its file: both are public."""
    if asked is None:
        return
    name, artifact = asked
    plain = r"candidate \d+" if name is None else re.escape(name)
    if artifact == entry["artifact"] and re.fullmatch(rf"{plain}( \(\d+\))?", entry["name"]):
        return
    other = "another file (artifact)" if artifact != entry["artifact"] else "another name"
    raise RequestConflict(
        f"request id {request_id!r} was used for the candidate {entry['name']!r}, and this one has {other}. Expected an id "
        "for each candidate, such as a run's: a branch has many candidates. This file was not checked. Nothing was charged."
    )


def _private(holdout: Holdout) -> PrivateEverhold:
    if not isinstance(holdout.mechanism, PrivateEverhold):
        raise LedgerError("the gate's rules promise privacy, and its study does not.")
    return holdout.mechanism


def _checked_by(by: float) -> float:
    if isinstance(by, bool) or not isinstance(by, int | float) or not 0.0 <= by < 1.0:
        raise SettingError(f"by is {by!r}. Expected a difference of scores of at least 0 and below 1, for example 0.01.")
    return by


def _checked_step(step: float | None) -> float | None:
    if step is None:
        return None
    require_number(step, "step")
    return float(step)


def _promoted(act: RecordedAct) -> dict[str, Any] | None:
    """The candidate that a check promoted, as the record describes it."""
    if act.done.interrupted or not act.done.result["promoted"]:
        return None
    return act.begun.asked[int(act.done.outcome or 0)]


def _checked_name(name: object) -> str:
    """What a candidate is called: a line of text."""
    if not isinstance(name, str) or not 0 < len(name.strip()) <= 200 or not name.isprintable():
        raise SettingError("a candidate's name is not a line of text. Expected up to 200 letters, without line breaks.")
    return name.strip()
