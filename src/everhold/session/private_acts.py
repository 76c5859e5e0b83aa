"""The acts of a private study: readings, choices, bits and verdicts with noise; what would read rows exactly is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from everhold.acts import BestOf, Close, CompareTwo, IsBetter, Read, ReadMany
from everhold.bounds.privacy import ROW_PARTS
from everhold.bounds.private_verdict import favours_first, verdict_rate
from everhold.errors import PrivacyError, QuestionError
from everhold.ledger.rounds import ActStart
from everhold.mechanism.measures.measure import count_of
from everhold.mechanism.noise import ROW
from everhold.mechanism.private import PrivateEverhold, require_affordable
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.queries.expression import BoundedMean, Expression
from everhold.queries.query import RowValues, Values
from everhold.queries.round_act import RoundAct
from everhold.session.act_questions import described
from everhold.session.session_acts import SessionActs, candidate_weights, checked_by
from everhold.statistics.rehearsal import as_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.acts import AnyAct
    from everhold.mechanism.everhold import Everhold, EverholdProposal
    from everhold.queries.answer import Answer
    from everhold.queries.expression.tree import Node
    from everhold.queries.query import Query
    from everhold.queries.request import AskedBy
    from everhold.session.session import Session
    from everhold.statistics.declared import DeclaredColumns
    from everhold.statistics.statistic import QuestionBatch

__all__ = ["PrivateActs", "acts_of"]


def acts_of(session: Session[EverholdProposal], mechanism: Everhold, declared: DeclaredColumns) -> SessionActs:
    """The acts beyond asking of a session, private or not."""
    if isinstance(mechanism, PrivateEverhold):
        return PrivateActs(session, mechanism, declared)
    return SessionActs(session, mechanism, declared)


class PrivateActs(SessionActs):
    """The acts of one private session. Nothing here reads a row before the privacy budget has paid for it."""

    def __init__(self, session: Session[EverholdProposal], mechanism: PrivateEverhold, declared: DeclaredColumns) -> None:
        super().__init__(session, mechanism, declared)
        self._private = mechanism

    def require_possible(self, act: AnyAct, parts: int, who: str | None) -> None:
        """Refuse an act that would be refused, by the record alone. `parts`: how many are not in it already."""
        super().require_possible(act, parts, who)
        terms = self._private.account.terms
        if isinstance(act, Close):
            _refuse_close()
        elif isinstance(act, IsBetter):
            _require_one_noise_scale(self.checked([act.first, act.second]))
            self._require(who, terms.bit_cost, "a bit, which may be a yes")
        elif isinstance(act, BestOf):
            _require_one_noise_scale(self.checked(act.questions))
            self._require(who, terms.release_cost, "a choice")
        elif isinstance(act, CompareTwo):
            self._require(who, parts * terms.release_cost, f"a verdict, which reads {parts:,} numbers", parts)
        elif isinstance(act, Read | ReadMany) and parts:
            self._require(who, parts * terms.release_cost, f"{parts:,} reading{'' if parts == 1 else 's'}", parts)

    def close(self, asked: Iterable[object], asked_by: AskedBy) -> NoReturn:
        """Refused: the last act would read rows exactly."""
        _refuse_close()

    def is_better(self, first: object, second: object, by: float, asked_by: AskedBy) -> Decision:
        """Whether the first is larger by more than `by`, up to noise of 2b rows. A no is free, a yes is charged."""
        checked_by(by)
        questions = self.checked([first, second])
        _require_one_noise_scale(questions)
        mechanism, n = self._private, self._session.size
        margin = Fraction(by) * n / _width(questions[0])

        def decide() -> bool:
            first_sum, second_sum = (sums.first for sums in self._session.scanner.sums(questions, "mean"))
            return mechanism.says_yes(Fraction(first_sum - second_sum, ROW) - margin)

        begun = ActStart("is_better", described(questions), {"by": float(by)})
        require = self._affordable(asked_by, mechanism.account.terms.bit_cost, "a bit, which may be a yes")
        return Decision.from_dict(self._session.recorder.do_act(begun, decide, asked_by, require))

    def compare_difference(self, difference: Values, request_id: str | None) -> Verdict:
        """Whether a difference in [-1, 1] is above or below 0, certified. Only a test set's values are row by row."""
        if not isinstance(difference, RowValues):
            _refuse("comparison of given values", 'holdout.compare("…", "…") of questions given as text')
        asked_by = self._session.stamp(request_id, None)
        options = {"method": "noisy intervals", "parts": 1, "sides": 2, "spend": None, "given": None}
        begun = ActStart("compare", described([difference]), options)
        decide = self._by_intervals([self._session.query(difference)], RoundAct("read"))
        return Verdict.from_dict(
            self._session.recorder.do_act(begun, decide, asked_by, self._require_compared(begun, asked_by))
        )

    def _pair(self, questions: Sequence[Any], given: Node | None) -> tuple[Query, Query, Query] | None:
        """As in any study, but nothing is read to check given values: a test set has made them."""
        if len(questions) == 2 and all(isinstance(question, RowValues) for question in questions):
            first, second = questions
            samples, references = (
                (np.asarray(first.sample), np.asarray(second.sample)),
                (first.reference, second.reference),
            )
            if any(sample.dtype != np.bool_ for sample in samples):
                return None
            both = np.asarray(references[0]) & np.asarray(references[1])
            return first, second, Values(sample=samples[0] & samples[1], reference=both)
        return super()._pair(questions, given)

    def _paired(self, pair: tuple[Query, Query, Query], spend: Fraction | None) -> Callable[[], str]:
        """Who is favoured by the rows on which two yes/no questions differ: both counts are released with noise.

        `docs/theory/privacy.md#verdicts` has the test. Its rate λ is fixed by public facts; the noise is integrated.
        """
        mechanism, n = self._private, self._session.size

        def decide() -> str:
            nats = mechanism.budget.claim_price(spend, parts=2, sides=1)
            deviation = Fraction(mechanism.account.terms.release_parts, ROW_PARTS)
            a, b, both = (0.5 * (1.0 + mechanism.prior(query)) for query in pair)
            rate = verdict_rate(nats, n, a + b - 2.0 * both, float(deviation))
            counts = [count_of(sums, n) for sums in self._session.scanner.sums(pair, "share")]
            only_a, only_b = (mechanism.noisy_rows(count - counts[2]) for count in counts[:2])
            known_rows = mechanism.known_rows
            if favours_first(only_a, only_b, rate=rate, deviation=deviation, known_rows=known_rows, nats=nats):
                return "first"
            second = favours_first(only_b, only_a, rate=rate, deviation=deviation, known_rows=known_rows, nats=nats)
            return "second" if second else "neither"

        return decide

    def _propose_parts(self, batch: QuestionBatch, act: RoundAct) -> list[EverholdProposal]:
        """Readings with noise, which are not disclosed themselves."""
        return [self._private.propose_part(query, act, part) for part, query in enumerate(batch, start=1)]

    def _compared(
        self, pair: tuple[Query, Query, Query] | None, questions: Sequence[Any], spend: Fraction | None, parts: int
    ) -> tuple[dict[str, Any], Callable[[], str]]:
        if pair is not None:
            return {"method": "noisy pair", "parts": 2, "sides": 1}, self._paired(pair, spend)
        decide = self._by_intervals(questions, RoundAct("read", parts=parts, spend=spend))
        return {"method": "noisy intervals", "parts": parts, "sides": 2}, decide

    def _require_compared(self, begun: ActStart, asked_by: AskedBy) -> Callable[[], None]:
        parts = begun.options["parts"]
        cost = parts * self._private.account.terms.release_cost
        return self._affordable(asked_by, cost, f"a verdict, which reads {parts:,} numbers", parts)

    def _as_foreseen(self, query: Any) -> Answer:
        """What the public side says, also when nothing can be asked any more."""
        return as_answer(self._session.try_out(query))

    def _affordable(self, asked_by: AskedBy, cost: int, what: str, charges: int = 1) -> Callable[[], None]:
        """Refuses, in the act's own turn, what the name or the budget cannot pay for."""

        return lambda: self._require(asked_by.who, cost, what, charges)

    def _require(self, who: str | None, cost: int, what: str, charges: int = 1) -> None:
        self._session.require_under_cap(who, charges)
        require_affordable(self._private.account, cost, what)

    def choose(
        self,
        names: Sequence[str],
        goodness: Callable[[int], float],
        weights: Sequence[Fraction],
        *,
        criterion: str,
        earlier_choices: int = 0,
        asked_by: AskedBy | None = None,
    ) -> Choice:
        """Refused: how much one row moves a caller's criterion is not known (AUC and F1: too much to be useful)."""
        _refuse("a choice by a criterion of your own", "holdout.best_of([...]) of questions given as text")

    def choose_sum(
        self, names: Sequence[str], values: Sequence[Values], weights: Sequence[Fraction], *, criterion: str
    ) -> Choice:
        """Which of several has about the largest sum, by the exponential mechanism. Only for a test set's own values.

        Args:
            names: of the candidates, public.
            values: of each row, all in one range.
            weights: public weights of the candidates; they sum to at most 1.
            criterion: what they are sums of.
        """
        if not all(isinstance(candidate, RowValues) for candidate in values):
            _refuse("choice among given values", "holdout.best_of([...]) of questions given as text")
        asked = tuple({"kind": "values", "name": name} for name in names)
        options = {"weights": [str(weight) for weight in weights], "generation": 0, "by": criterion}
        mechanism, asked_by = self._private, self._session.stamp(None, None)

        def decide() -> int:
            totals = [sums.first for sums in self._session.scanner.sums(values, "mean")]
            return mechanism.noise.choose(totals, weights)

        require = self._affordable(asked_by, mechanism.account.terms.release_cost, "a choice")
        return Choice.from_dict(
            self._session.recorder.do_act(ActStart("best_of", asked, options), decide, asked_by, require)
        )

    def best_of(self, asked: Iterable[object], weights: Sequence[float] | None, asked_by: AskedBy) -> Choice:
        """Which of these is about the largest, by the exponential mechanism: within σ·ln(candidates/β) rows of the largest
        with probability 1 - β."""
        questions = self.checked(asked)
        if not questions:
            raise QuestionError("best_of needs at least one question.")
        _require_one_noise_scale(questions)
        prior_weights = candidate_weights(weights, len(questions))
        options = {"weights": [str(weight) for weight in prior_weights]}
        mechanism = self._private

        def decide() -> int:
            totals = [sums.first for sums in self._session.scanner.sums(questions, "mean")]
            return mechanism.noise.choose(totals, prior_weights)

        begun = ActStart("best_of", described(questions), options)
        require = self._affordable(asked_by, mechanism.account.terms.release_cost, "a choice")
        choice = self._session.recorder.do_act(begun, decide, asked_by, require)
        return Choice.from_dict(choice)


def _require_one_noise_scale(questions: Sequence[Any]) -> None:
    """Candidates whose sums can be compared: yes/no questions, or numbers with one range."""
    if all(isinstance(question, Expression) for question in questions):
        return
    means = [question for question in questions if isinstance(question, BoundedMean)]
    if len(means) == len(questions) and len({(mean.low, mean.high, mean.reverse) for mean in means}) == 1:
        return
    raise PrivacyError(
        "this act of a private study takes yes/no questions given as text. Statistics, and questions of different kinds or "
        "ranges, cannot be compared under noise of one scale. Expected texts, or holdout.compare(...) of two statistics. "
        "Nothing was charged."
    )


def _width(question: Any) -> Fraction:
    """The range of a question's value, on the scale of its answer."""
    return Fraction(question.high) - Fraction(question.low) if isinstance(question, BoundedMean) else Fraction(1)


def _refuse_close() -> NoReturn:
    _refuse("close", "holdout.read(...)")


def _refuse(what: str, instead: str) -> NoReturn:
    raise PrivacyError(
        f"a private study has no {what}: it would disclose something exact about the rows. Expected {instead}. No row was "
        "read, and nothing was charged."
    )
