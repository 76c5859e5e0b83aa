"""A gate: candidates against an incumbent on the same sealed cases, with a budget that belongs to the cases.

People who improve a system step by step ask the same question again and again: is the new version better than the old one?
A gate answers with one bit. With `certify='each'` every promotion is a claim about the population that the cases come
from, and all claims are valid at the same time, however candidates were found. `docs/theory/gate.md` has the proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.bounds.gain import SCORE_ONE
from everhold.bounds.privacy import Privacy
from everhold.errors import GateUsedUp, InvalidOutcomes, RequestConflict, SettingError, require_number
from everhold.gate.audit import GateAudit
from everhold.gate.certifiable import require_certifiable
from everhold.gate.checks import promoted_by
from everhold.gate.create import create_gate, divided_cases, first_outcomes, require_private_gate
from everhold.gate.files import artifact_digest, beside
from everhold.gate.judge import noisily_promoted_index, promoted_index, total_gain
from everhold.gate.outcome_files import read_outcomes
from everhold.gate.results import CheckResult, CheckState, GateStatus, TotalGain
from everhold.gate.rules import GateRules, OutcomeKind
from everhold.gate.status import (
    affords_promotion,
    gate_status,
    promotion_price,
    require_enough_cases,
    too_small_a_step,
    used_up,
)
from everhold.gate.study import GateStudy, private_mechanism
from everhold.ledger.gate_check import Candidate, CertifyWhen, CheckPlan, GainPlan
from everhold.ledger.reader import read_study
from everhold.ledger.registry import Registry
from everhold.ledger.rounds import ActStart
from everhold.mechanism.private import require_affordable
from everhold.results import counted
from everhold.session.holdout import Holdout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.gate.checks import GateChecks
    from everhold.gate.outcomes import OutcomeGaps, Outcomes
    from everhold.ledger.reader import StudyFile
    from everhold.ledger.rounds import RecordedAct

__all__ = ["Gate"]


class Gate:
    """A gate in a study's file.

    Beside `path` lie the study's key, `<path>.gate.json` (the contract, public), `<path>.cases` (the ids) and
    `<path>.outcomes` (outcomes of all candidates), both for the owner alone.

    Args:
        path: of the study.
        charges_each: of a private gate, how many promotions each name in the record may cause; None: any. For a server.

    >>> import tempfile
    >>> import numpy as np
    >>> path = Path(tempfile.mkdtemp()) / "gate.everhold"
    >>> rng = np.random.default_rng(0)
    >>> old = {f"case-{k}": int(rng.random() < 0.5) for k in range(500)}
    >>> gate = Gate.create(path, incumbent=old)
    >>> gate.check({case: 1 if rng.random() < 0.3 else right for case, right in old.items()}).promoted
    True
    >>> gate.check({case: int(rng.random() < 0.65) for case in old}).promoted       # as good as the new incumbent
    False
    """

    def __init__(self, path: str | Path, *, charges_each: int | None = None) -> None:
        self.path = Path(path)
        self.rules = GateRules.load(beside(self.path, "gate.json"))
        self.study = GateStudy(self.path, self.rules, charges_each)

    @property
    def visible(self) -> list[str]:
        """The cases whose outcomes anybody may see."""
        return list(self.study.cases.visible)

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
        generation_size: int = 1,
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
            generation_size: how many candidates one check chooses from. Candidates wait until a generation is full.
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
            require_private_gate(privacy, outcomes)
        path, registry = Path(path), Registry()
        first, kind = first_outcomes(read_outcomes(incumbent, scorer=scorer), outcomes, allow_missing=allow_missing)
        cases = divided_cases(sorted(first.cases), visible, expected, registry, new_budget)
        rules = GateRules(
            cases=len(cases.sealed),
            visible=len(cases.visible),
            outcomes=kind,
            by=round(_checked_by(by) * SCORE_ONE),
            certify=certify,
            generation_size=generation_size,
            confidence=confidence,
            incumbent=_checked_name(name),
            first="",
            artifact=None,
            new_budget=new_budget,
            private=privacy is not None,
            step=_checked_step(step),
        )
        require_certifiable(rules, privacy)
        require_enough_cases(rules, privacy)
        create_gate(path, rules, first.on_score_grid(cases.everything), cases, artifact, registry, privacy)
        return cls(path)

    # opening -------------------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: str | Path) -> Gate:
        """A gate that was made before, as `Gate(path)`; refused at once if a file is missing or does not fit."""
        gate = cls(path)
        gate.require_ready()
        return gate

    def require_ready(self) -> None:
        """Find out whether all files are there and fit together. Checks do so by themselves."""
        with self.study.turn():
            pass

    def release(self) -> None:
        """Release the study's file, so that another process may use it."""
        self.study.release()

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
        file = artifact_digest(self.study.key, artifact)
        wanted_name = None if name is None else _checked_name(name)
        with self.study.turn() as holdout:
            checks = self.study.checks(holdout)
            if request_id is not None:
                earlier = self._earlier_result(holdout, checks, request_id, who, (wanted_name, file))
                if earlier is not None:
                    return earlier
            steps = self._on_score_grid(outcomes)
            entered = Candidate(self._free_name(wanted_name, checks), "", file)
            incumbent = checks.incumbent
            if file is not None and file == incumbent.artifact:
                return self._result(holdout, "same", entered)
            if file is not None and file in checks.artifacts:
                return self._result(holdout, "kept", entered)
            if self.rules.visible and not self._better_on_visible(steps, incumbent):
                return self._result(holdout, "screened", entered)
            self._require_usable(holdout, checks)
            entered = replace(entered, digest=self.study.keep_outcomes(steps))  # first: it may be compared with later
            if self.rules.generation_size == 1:
                return self._check(holdout, [entered], entered, request_id, who)
            self.study.waiting.add(entered, request_id)
            return self._check_if_full(holdout, entered, who)

    def gaps(self, candidate: object, *, scorer: str | None = None) -> OutcomeGaps:
        """What of a candidate's file counts as a failure although the candidate may not have failed. For the evaluator.

        It depends on the file and on the gate's cases alone, costs nothing and is not recorded. Do not show it to those
        who make candidates: it says how often something happened on sealed cases.
        """
        outcomes = read_outcomes(candidate, scorer=scorer, strict=False)
        return outcomes.gaps(self.study.cases.everything, pass_fail=self.rules.outcomes == "pass")

    def _check_if_full(self, holdout: Holdout, candidate: Candidate, who: str | None) -> CheckResult:
        waiting = self.study.waiting.after(self.study.checks(holdout).checked)
        if len(waiting) < self.rules.generation_size:
            return self._result(holdout, "waiting", candidate)
        return self._check(holdout, waiting, candidate, None, who)

    def _free_name(self, wanted: str | None, checks: GateChecks) -> str:
        waiting = self.study.waiting
        return checks.free_name(wanted, waiting.count(checks.checked), waiting.names())

    def _on_score_grid(self, outcomes: Outcomes) -> NDArray[np.int64]:
        cases = self.study.cases
        known_cases = set(cases.everything)
        strange = sum(case not in known_cases for case in outcomes.cases)
        if strange and not outcomes.printed:  # never with one of them, which may be what a candidate printed
            such = "" if self.rules.private else f", such as {(cases.visible or cases.everything)[0]!r}"
            raise InvalidOutcomes(
                f"{strange:,} of {len(outcomes.cases):,} cases are not the gate's. Expected the same "
                f"{len(cases.everything):,} cases that it was made with{such}. Nothing was charged."
            )
        if self.rules.outcomes == "pass":
            return outcomes.passes(cases.everything)
        return outcomes.on_score_grid(cases.everything)

    def _better_on_visible(self, steps: NDArray[np.int64], incumbent: Candidate) -> bool:
        return int(steps[self.rules.cases :].sum()) > int(self.study.visible_outcomes(incumbent.digest).sum())

    def _require_usable(self, holdout: Holdout, checks: GateChecks) -> None:
        """By public facts: the price, and the number of cases."""
        if holdout.closed:
            raise GateUsedUp("the last act was made: this gate checks nothing more. Make a gate with new cases.")
        done = counted(len(checks.acts), "check")
        if not affords_promotion(holdout.budget):
            raise GateUsedUp(
                f"the privacy budget of this gate is used up after {done}: it pays for no further promotion. "
                "Its claims stay valid. Make a gate with new cases. Nothing was charged."
            )
        if used_up(self.rules, holdout.budget):
            price = promotion_price(self.rules, holdout.budget)
            if self.rules.step is not None and too_small_a_step(self.rules, holdout.budget):
                raise GateUsedUp(
                    f"this gate is used up for steps of {100 * self.rules.step:g} points: after {done} "
                    f"a promotion is judged at {price:.1f} nats, and {self.rules.cases:,} cases certify no such step any "
                    "more. Make a gate with new cases. Nothing was charged."
                )
            raise GateUsedUp(
                f"this gate is used up: after {done} a promotion is judged at {price:.0f} nats, and "
                f"{self.rules.cases:,} cases cannot reach that. Make a gate with new cases. Nothing was charged."
            )

    def _check(
        self, holdout: Holdout, candidates: Sequence[Candidate], mine: Candidate, request_id: str | None, who: str | None
    ) -> CheckResult:
        """Check these candidates. The result is about one of them."""
        rules, incumbent = self.rules, self.study.checks(holdout).incumbent.digest
        plan = CheckPlan(tuple(candidates), incumbent, rules.by, rules.method, rules.certify)
        price = plan.price(holdout.budget)
        before = self.study.sealed_outcomes(incumbent)
        outcomes = [self.study.sealed_outcomes(each.digest) for each in candidates]  # what is lost is noticed before the act
        self.study.do_act(
            holdout,
            ActStart("check", plan.asked, plan.options),
            lambda: plan.disclosed(self._promoted_index(holdout, plan, before, outcomes, price)),
            request_id=request_id,
            who=who,
        )
        checks = self.study.checks(holdout)
        return self._from_record(holdout, checks, checks.acts[-1], mine)

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
        mechanism = private_mechanism(holdout)
        return noisily_promoted_index(plan, before, outcomes[0], price, mechanism.account.terms, mechanism.noise)

    def _earlier_result(
        self,
        holdout: Holdout,
        checks: GateChecks,
        request_id: str,
        who: str | None,
        asked: tuple[str | None, str | None] | None = None,
    ) -> CheckResult | None:
        """The recorded verdict of a request that was made before, if it was about the same candidate (its name and file).

        Its outcomes are not compared with the recorded ones: that would be a free look.
        """
        if (entered := self.study.waiting.requested(request_id)) is not None:
            place, candidate = entered
            _require_same(candidate, asked, request_id)
            if (act := checks.of_waiting(place)) is None:
                return self._check_if_full(holdout, candidate, who)
            return replace(self._from_record(holdout, checks, act, candidate), repeated=True)
        earlier = holdout.journal.act_of_request(request_id)
        if earlier is None:
            return None
        if earlier.begun.kind != "check":
            raise RequestConflict(
                f"request id {request_id!r} belongs to another act. Expected a new id. Nothing was charged."
            )
        candidate = Candidate.from_record(earlier.begun.asked[-1])
        _require_same(candidate, asked, request_id)
        return replace(self._from_record(holdout, checks, earlier, candidate), repeated=True)

    def _from_record(self, holdout: Holdout, checks: GateChecks, act: RecordedAct, mine: Candidate) -> CheckResult:
        promoted = promoted_by(act)
        state: CheckState = "promoted" if promoted is not None and promoted.digest == mine.digest else "kept"
        result = self._result(holdout, state, mine, act)
        if state == "promoted" or self.rules.generation_size > 1:
            return result
        return replace(result, is_incumbent=checks.is_incumbents_name(mine.name, act))

    def _result(self, holdout: Holdout, state: CheckState, mine: Candidate, act: RecordedAct | None = None) -> CheckResult:
        checks, promotions, _ = holdout.budget.code.check_counts
        promoted = None if act is None else promoted_by(act)
        return CheckResult(
            promoted=state == "promoted",
            state=state,
            name=mine.name,
            winner=None if promoted is None else promoted.name,
            by=self.rules.by / SCORE_ONE,
            certified=promoted is not None and self.rules.certify == "each",
            checks=checks,
            promotions=promotions,
            waiting=self.study.waiting.count(self.study.checks(holdout).checked),
            price=promotion_price(self.rules, holdout.budget) if act is None else act.done.result["price"],
        )

    def decide(self, *, request_id: str | None = None, who: str | None = None) -> CheckResult:
        """Check the candidates that wait, although their generation is not full.

        Raises:
            InvalidOutcomes: no candidate waits.
        """
        with self.study.turn() as holdout:
            checks = self.study.checks(holdout)
            if request_id is not None:
                earlier = self._earlier_result(holdout, checks, request_id, who)
                if earlier is not None:
                    return earlier
            waiting = self.study.waiting.after(checks.checked)
            if not waiting:
                raise InvalidOutcomes("no candidate waits. Check one first. Nothing was charged.")
            self._require_usable(holdout, checks)
            return self._check(holdout, waiting, waiting[-1], request_id, who)

    # the end, and where it stands ----------------------------------------------------------------------------------------

    def finish(self, *, request_id: str | None = None, who: str | None = None) -> TotalGain:
        """The last act: how much better the present incumbent is than the first one. The gate checks nothing afterwards.

        The gain on the sealed cases is disclosed, with a lower end for the population that is valid at the same time as
        every certified promotion, and never below the sum of what these certify.
        """
        with self.study.turn() as holdout:
            checks = self.study.checks(holdout)
            for act, _ in holdout.journal.recorded_acts:
                if act.begun.kind == "gain" and not act.done.interrupted:
                    return self._total(holdout, act.done.result)
            if waits := self.study.waiting.count(checks.checked):
                raise InvalidOutcomes(
                    f"{counted(waits, 'candidate')} wait{'s' if waits == 1 else ''} for a full generation. Check "
                    f"{'it' if waits == 1 else 'them'} first: everhold gate decide, or gate.decide(). Nothing was charged."
                )
            noise = None
            if self.rules.private:
                account = private_mechanism(holdout).account
                require_affordable(account, account.terms.release_cost, "the total gain")
                noise = account.terms.release_parts
            plan = GainPlan(self.rules.first, checks.incumbent.digest, self.rules.cases, noise)
            price = plan.price(holdout.budget)
            first, last = self.study.sealed_outcomes(plan.first), self.study.sealed_outcomes(plan.last)
            result = self.study.do_act(
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
            return plan.disclosed(0, 0)
        if not self.rules.private:
            return plan.disclosed(*total_gain(first, last, price))
        return plan.noisily_disclosed(int(private_mechanism(holdout).noisy_total(int((last - first).sum()))), price)

    def _total(self, holdout: Holdout, result: dict[str, Any]) -> TotalGain:
        promotions = holdout.budget.code.check_counts[1]
        low = result["low"]
        if self.rules.certify == "each" and promotions:  # all at the same time, so they add up (docs/theory/gate.md)
            low = max(low, promotions * self.rules.by / SCORE_ONE)
        return TotalGain(result["gain"], low, promotions, result["price"])

    def status(self) -> GateStatus:
        """Where the gate stands, from public files. Works beside a process that checks.

        `older` is true of a copy that another one has left behind, by this user's registry: it checks nothing.
        """
        newest = self.study.newest_head()  # before the file, which goes ahead of it
        status = self.status_in(read_study(self.path))
        records = int(newest.partition(":")[0]) if newest else 0
        return replace(status, older=records > int(status.head.partition(":")[0]))

    def status_in(self, file: StudyFile) -> GateStatus:
        """Where the gate stands by its study's file, which was read."""
        results = [act.result for act in file.acts if act.act == "check" and act.result is not None]
        return gate_status(
            self.rules, self.study.waiting, results=results, budget=file.budget, head=file.head, finished=file.closed
        )

    def status_and_holdout(self) -> tuple[GateStatus, Holdout]:
        """The status and the study behind it as the last turn left them: nothing is read again. Only between turns."""
        holdout = self.study.between_turns()
        results = [act.done.result for act in self.study.checks(holdout).ended]
        status = gate_status(
            self.rules,
            self.study.waiting,
            results=results,
            budget=holdout.budget,
            head=holdout.head,
            finished=holdout.closed,
        )
        return status, holdout

    def audit(self, *, expect_head: str | None = None) -> GateAudit:
        """Check the ledger: its chain, its bytes, every price and every verdict, and that all have the gate's contract."""
        plain = Holdout.audit_file(self.path, expect_head=expect_head)
        return GateAudit.of(plain, self.rules, read_study(self.path).acts if plain.ok else ())

    def __repr__(self) -> str:
        return f"Gate({str(self.path)!r}, {self.rules.cases:,} sealed cases)"


def _require_same(candidate: Candidate, asked: tuple[str | None, str | None] | None, request_id: str) -> None:
    """Refuse another candidate under the id of an earlier request. By its name and its file: both are public."""
    if asked is None:
        return
    name, artifact = asked
    plain = r"candidate \d+" if name is None else re.escape(name)
    if artifact == candidate.artifact and re.fullmatch(rf"{plain}( \(\d+\))?", candidate.name):
        return
    other = "another file (artifact)" if artifact != candidate.artifact else "another name"
    raise RequestConflict(
        f"request id {request_id!r} was used for the candidate {candidate.name!r}, and this one has {other}. Expected an id "
        "for each candidate, such as a run's: a branch has many candidates. This file was not checked. Nothing was charged."
    )


def _checked_by(by: float) -> float:
    if isinstance(by, bool) or not isinstance(by, int | float) or not 0.0 <= by < 1.0:
        raise SettingError(f"by is {by!r}. Expected a difference of scores of at least 0 and below 1, for example 0.01.")
    return by


def _checked_step(step: float | None) -> float | None:
    if step is None:
        return None
    require_number(step, "step")
    return float(step)


def _checked_name(name: object) -> str:
    """What a candidate is called: a line of text."""
    if not isinstance(name, str) or not 0 < len(name.strip()) <= 200 or not name.isprintable():
        raise SettingError("a candidate's name is not a line of text. Expected up to 200 letters, without line breaks.")
    return name.strip()
