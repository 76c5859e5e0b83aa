"""The acts of a private study: readings and choices with noise; what would read the rows exactly is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, cast

from everhold.errors import PrivacyError, QuestionError
from everhold.ledger.rounds import ActStart
from everhold.mechanism.private import PrivateEverhold, require_affordable
from everhold.queries.disclosed import Choice, Decision, Verdict
from everhold.queries.expression import BoundedMean, Expression
from everhold.session.acts import Acts, candidate_weights, described

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.queries.request import AskedBy

__all__ = ["PrivateActs"]


class PrivateActs(Acts):
    """The acts of one private session. Nothing here reads a row before the privacy budget has paid for it."""

    @property
    def _private(self) -> PrivateEverhold:
        return cast(PrivateEverhold, self._mechanism)

    def close(self, asked: Iterable[object], asked_by: AskedBy) -> NoReturn:
        """Never: the last act reads exactly."""
        _refuse("close with questions", "holdout.read(...)")

    def is_better(self, first: object, second: object, by: float, asked_by: AskedBy) -> Decision:
        """Never: the bit is exact. A choice of two has noise."""
        _refuse("is_better", "holdout.best_of([first, second])")

    def compare(
        self,
        first: object,
        second: object,
        wanted: Mapping[str, Any],
        share: object,
        asked_by: AskedBy,
    ) -> Verdict:
        """Never: the verdict is an exact test of the rows."""
        _refuse("compare", "holdout.best_of([first, second]), or read both")

    def choose(
        self,
        names: Sequence[str],
        criterion: Callable[[int], float],
        weights: Sequence[Fraction],
        *,
        by: str,
        generation: int = 0,
        asked_by: AskedBy | None = None,
    ) -> Choice:
        """Never: a criterion of the caller's has no known sensitivity (AUC and F1 have none that is useful)."""
        _refuse("a choice by a criterion of your own", "holdout.best_of([...]) of questions given as text")

    def best_of(self, asked: Iterable[object], weights: Sequence[float] | None, asked_by: AskedBy) -> Choice:
        """Which of these is about the largest, by the exponential mechanism: within σ·ln(candidates/β) rows of the largest
        with probability 1 - β."""
        questions = self.checked(asked)
        if not questions:
            raise QuestionError("best_of needs at least one question.")
        _require_alike(questions)
        prior_weights = candidate_weights(weights, len(questions))
        options = {"weights": [str(weight) for weight in prior_weights]}
        mechanism = self._private

        def affordable() -> None:
            self._session.require_under_cap(asked_by.who)
            require_affordable(mechanism.ledger, mechanism.ledger.terms.release_cost, "a choice")

        def decide() -> int:
            totals = [sums.first for sums in self._session.scanner.sums(questions, "mean")]
            return mechanism.noise.choose(totals, prior_weights)

        begun = ActStart("best_of", described(questions), options)
        found = self._session.perform(begun, decide, asked_by, affordable)
        return Choice.from_dict(found)


def _require_alike(questions: Sequence[Any]) -> None:
    """Candidates whose sums can be compared: yes/no questions, or numbers with one range."""
    if all(isinstance(one, Expression) for one in questions):
        return
    means = [one for one in questions if isinstance(one, BoundedMean)]
    if len(means) == len(questions) and len({(one.low, one.high, one.reverse) for one in means}) == 1:
        return
    raise PrivacyError(
        "a private study chooses among yes/no questions given as text. Statistics, and questions of different kinds or "
        "ranges, cannot be compared under noise of one scale. Nothing was charged."
    )


def _refuse(what: str, instead: str) -> NoReturn:
    raise PrivacyError(
        f"a private study has no {what}: it would disclose something exact about the rows. Expected {instead}. No row was "
        "read, and nothing was charged."
    )
