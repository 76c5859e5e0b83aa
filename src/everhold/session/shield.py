"""What stands between private rows and what is done with them: nothing in a plain study, charges in a private one.

A private study charges a surprise, and a failure to read its rows, before anything else can depend on them. Its guard
(`ledger.guard`) remembers that outside of the record, so that no crash and no older copy makes it free.
`docs/theory/privacy.md#crashes` says what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.clock import timestamp
from everhold.errors import LedgerError, PrivacyError
from everhold.ledger.act_prices import is_private, price_act
from everhold.ledger.rounds import ActEnd, ActStart
from everhold.queries.protocol import QUIET
from everhold.queries.request import AskedBy

if TYPE_CHECKING:
    from everhold.bounds.privacy import PrivacyAccount
    from everhold.ledger.guard import Guard
    from everhold.ledger.journal import Journal
    from everhold.ledger.store import Store
    from everhold.queries.protocol import ActingMechanism, Outcome
    from everhold.queries.round_act import RoundAct
    from everhold.session.registered import RegisteredStudy

__all__ = ["PlainShield", "PrivacyShield", "Shield"]

T = TypeVar("T")


class PlainShield:
    """Of a study that promises no privacy: rows are read, and the record alone says what was charged."""

    private = False

    def require_newest(self) -> None:
        """Any copy may be asked."""

    def require_allowed(self, begun: ActStart) -> None:
        """Every act is allowed."""

    def announced(self) -> None:
        """An act was announced: nothing else is needed."""

    def read(self, read: Callable[[], T], who: str | None) -> T:
        """Read private rows."""
        return read()

    @contextmanager
    def charging(self, act: RoundAct, outcome: Outcome, who: str | None) -> Iterator[None]:
        """While a decided round is recorded: nothing else is needed."""
        yield

    def charge_unrecorded(self) -> None:
        """Nothing is charged without a record."""

    def reload(self) -> None:
        """Nothing is remembered elsewhere."""


class PrivacyShield:
    """Of a private study: every charge is in its guard before what was drawn can be used.

    Args:
        guard: of this study.
        journal: where the study is recorded.
        mechanism: that draws the noise and keeps the account.
        registered: what the registry knows of it, in another folder.
    """

    private = True

    def __init__(
        self,
        guard: Guard,
        journal: Journal,
        mechanism: ActingMechanism[Any],
        registered: RegisteredStudy,
    ) -> None:
        self._guard, self._journal, self._mechanism = guard, journal, mechanism
        self._registered = registered
        journal.when_durable(self._durable)

    @property
    def _account(self) -> PrivacyAccount:
        account = self._mechanism.budget.privacy
        if account is None:
            raise LedgerError("this study promises no privacy, but has a guard.")
        return account

    def _durable(self, store: Store) -> None:
        before = self._guard.charges
        self._guard.settle(self._account.charges, store.head)
        if self._guard.charges != before:
            self._registered.note_charges(self._guard.charges)
            self._registered.note_head(store)

    def require_newest(self) -> None:
        """Refuse a file with a second name, which has a second lock, and a copy that another one has overtaken."""
        if (store := self._journal.store) is not None:
            store.require_one_name()
            self._registered.require_newest(store)

    def require_allowed(self, begun: ActStart) -> None:
        """Refuse an act that no noise makes private."""
        if not is_private(begun):
            raise PrivacyError(f"a private study has no act {begun.kind!r}: it would disclose something exact.")

    def announced(self) -> None:
        """An act was announced durably. From here on no older copy is asked, whatever happens before its end is recorded."""
        if (store := self._journal.store) is not None:
            self._registered.announce(store)

    def read(self, read: Callable[[], T], who: str | None) -> T:
        """Read private rows. A failure is charged as a surprise, and says nothing."""
        try:
            return read()
        except BaseException as error:
            if self._journal.pending is None:  # an announced act is charged when it is opened again
                self._mark(who)
            self._fail()
            if not isinstance(error, Exception):
                raise
            raise LedgerError(
                "the private rows could not be read. No answer was returned, and the study is closed until its custodian "
                "opens it again; that charges its privacy budget."
            ) from None

    @contextmanager
    def charging(self, act: RoundAct, outcome: Outcome, who: str | None) -> Iterator[None]:
        """While a decided round is recorded: a surprise is marked first, and durable at the end."""
        if act.kind != "ask" or outcome is QUIET:
            yield
            return
        try:
            self._mark(who)
            yield
            self._journal.flush()  # at most one surprise is ever unrecorded
        except BaseException:
            self._fail()
            raise

    def _mark(self, who: str | None) -> None:
        """Note that a surprise was drawn: in the guard, and in the registry, so that no older guard makes it free."""
        charged = max(self._account.charges, self._guard.charges) + 1
        self._guard.mark(who)
        self._registered.note_charges(charged)

    def charge_unrecorded(self) -> None:
        """Charge a surprise that was drawn and not recorded. At most one can be.

        Raises:
            LedgerError: the record shows less than was charged: it is an older copy.
        """
        guard, journal, store = self._guard, self._journal, self._journal.store
        if store is None:
            return
        if (recorded := self._account.charges) < guard.charges:
            raise LedgerError(
                f"{store.path} shows {recorded:,} charges to its privacy budget, but {guard.charges:,} were made: it "
                "is an older copy. Expected the newest one. Nothing may be asked of this copy."
            )
        known = self._registered.charges
        if known > recorded + 1:
            raise LedgerError(
                f"{store.path} shows {recorded:,} charges to its privacy budget, and the registry of studies knows of "
                f"{known:,}: it is an older copy. Expected the newest one. Nothing may be asked of this copy."
            )
        if (guard.marked and recorded == guard.charges) or known > recorded:
            asked_by, begun = AskedBy(timestamp(), guard.marked_by if guard.marked else None), ActStart("void", (), {})
            journal.add_act_start(begun, asked_by)
            self._mechanism.pay(price_act(self._mechanism.budget, begun, None, interrupted=True)[1])
            journal.add_act_end(ActEnd(None, {}, interrupted=True), asked_by)
            journal.flush()
        guard.settle(self._account.charges, store.head)

    def reload(self) -> None:
        """Take over what another process charged."""
        self._guard.reload()

    def _fail(self) -> None:
        if (store := self._journal.store) is not None:
            store.fail()


Shield = PlainShield | PrivacyShield
