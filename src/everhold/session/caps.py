"""How much of a private study's budget one person may use: counted and refused by the record alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from everhold.bounds.privacy import PrivacyAccount
from everhold.errors import PrivacyUsedUp, SettingError
from everhold.ledger.guard import kept_name

if TYPE_CHECKING:
    from everhold.ledger.journal import Journal
    from everhold.ledger.rounds import RecordedAct

__all__ = ["Caps"]


def _charges(act: RecordedAct) -> int:
    """How often an act was charged; interrupted ones are charged in full."""
    begun, done = act.begun, act.done
    if begun.kind == "check":
        return int(done.interrupted or bool(done.result["promoted"]))
    if begun.kind == "is_better":
        return int(done.interrupted or done.outcome is True)
    if begun.kind == "compare":
        return int(begun.options["parts"])
    return {"best_of": 1, "void": 1, "read": len(begun.asked)}.get(begun.kind, 0)


class Caps:
    """A limit for each name in the record: surprises, readings, choices, bits that were yes, and parts of verdicts together.

    A charge whose answer a crash took away counts for the name that asked: nobody gets around the limit by crashing a study.

    One hostile analyst can use up a whole budget with as many questions as it has surprises. Everybody who asks under one
    name shares one limit.

    Args:
        each: how many charges one name may cause.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._charged: Counter[str] = Counter()
        self._rounds = self._acts = 0

    @classmethod
    def of(cls, each: int, account: PrivacyAccount | None, what: object) -> Caps:
        """The limit of a study, gate or contest. It needs a promise of privacy.

        Raises:
            SettingError: nothing is promised.
        """
        if account is None:
            raise SettingError(f"charges_each is for private studies, and {what} promises no privacy. Leave it out.")
        return cls(each)

    def left(self, journal: Journal, who: str | None) -> int:
        """How many more charges a name may cause."""
        for number in range(self._rounds + 1, len(journal) + 1):
            if journal[number].outcome is not None:
                self._charged[kept_name(journal.asked_by(number).who)] += 1
        for act, asked_by in journal.recorded_acts[self._acts :]:
            self._charged[kept_name(asked_by.who)] += _charges(act)
        self._rounds, self._acts = len(journal), len(journal.recorded_acts)
        return max(self._each - self._charged[kept_name(who)], 0)

    def require(self, journal: Journal, who: str | None, account: PrivacyAccount, charges: int = 1) -> None:
        """Refuse a name whose limit could be exceeded. No row is read.

        Raises:
            PrivacyUsedUp: with the limit.
        """
        if self.left(journal, who) < charges:
            raise PrivacyUsedUp(
                f"{who or 'this name'} has caused {self._charged[kept_name(who)]:,} of the {self._each:,} surprises, "
                "readings and choices that each name may cause in this study. Nothing was read or charged. Ask its "
                "custodian for more.",
                asked=account.terms.promise.epsilon,
                left=account.share_left,
                needed=charges * account.terms.surprise_cost / account.terms.allowance,
                more_rows=None,
            )
