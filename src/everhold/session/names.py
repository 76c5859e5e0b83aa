"""When two questions are one: by their names, their values on public rows, and the request ids they were asked under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everhold.errors import QuestionError, RequestConflict, require_number
from everhold.ledger.rounds import Digest, RecordedQuestion
from everhold.queries.expression.canonical import looks_like_text
from everhold.queries.query import is_range

if TYPE_CHECKING:
    from everhold.ledger.journal import Journal
    from everhold.ledger.rounds import Round
    from everhold.queries.protocol import Mechanism, Proposal
    from everhold.queries.query import Query

__all__ = [
    "checked_expect",
    "identity",
    "require_batch",
    "require_name",
    "require_round",
    "require_same",
    "require_text",
    "require_title",
    "require_writable",
]


def identity(mechanism: Mechanism[Any], query: Query, proposal: Proposal | None = None) -> str | None:
    """What makes a named question that question: its canonical text, or its values on public rows."""
    if query.text or query.name is None:
        return query.name
    if proposal is not None and proposal.values is not None and not mechanism.fresh:
        return proposal.values.pack().digest
    return mechanism.identity(query)


def require_same(mechanism: Mechanism[Any], query: Query, earlier: Round) -> None:
    """Refuse a name that belongs to another question."""
    if identity(mechanism, query) != earlier.identity:
        raise QuestionError(
            f"the name {query.name!r} belongs to a question with other values on the reference (round "
            f"{earlier.number}). Expected one name for one question: choose another."
        )


def require_round(mechanism: Mechanism[Any], query: Query, earlier: Round, request_id: str | None) -> None:
    """Refuse a request id that belongs to another question."""
    if not _is_round(mechanism, query, earlier):
        raise RequestConflict(
            f"request id {request_id!r} belongs to another question (round {earlier.number}). Expected a new id for a new "
            "question. Nothing was charged."
        )


def _is_round(mechanism: Mechanism[Any], query: Query, earlier: Round) -> bool:
    """Whether this is the question that was answered then."""
    if query.name is not None or earlier.name is not None:
        return query.name == earlier.name and identity(mechanism, query) == earlier.identity
    asked = earlier.question
    digest = (
        asked.sha256 if isinstance(asked, Digest) else asked.packed.digest if isinstance(asked, RecordedQuestion) else None
    )
    if digest is None:
        return query == asked  # a callable over rows that are drawn anew
    return mechanism.identity(query) == digest


def require_batch(
    mechanism: Mechanism[Any], journal: Journal, queries: Sequence[Query], requests: Sequence[str | None]
) -> None:
    """One name for one question, and one request id, before anything of a batch is charged."""
    seen: dict[str, str | None] = {}
    for query, request_id in zip(queries, requests, strict=True):
        earlier = journal.round_of_request(request_id)
        if earlier is not None:
            require_round(mechanism, query, earlier, request_id)
        elif (named := journal.narrowest_answer(query.name)) is not None:
            require_same(mechanism, query, named)
        if query.name is not None and not query.text:
            values = identity(mechanism, query)
            if seen.setdefault(query.name, values) != values:
                raise QuestionError(f"two different questions of the batch are called {query.name!r}. Rename one.")


def require_name(query: Query) -> None:
    """Refuse a name that cannot be written, or that could be taken for a question given as text."""
    require_writable(query.name, "the name")
    if query.name is not None and looks_like_text(query.name) and not query.text:
        raise QuestionError(
            f"the name {query.name[:60]!r} could be taken for a question given as text. Expected a name that begins "
            "with a letter, and none of the words TRUE, FALSE, NULL, CASE, NOT, MEAN, SHARE, QUANTILE, DIFFERENCE, "
            "VARIANCE and CORRELATION."
        )


def require_title(query: Query) -> None:
    """Refuse a title that cannot be written or could be taken for a question given as text, and a range without one."""
    title, shown = getattr(query, "title", None), getattr(query, "shown_range", None)
    if shown is not None and (title is None or not is_range(shown)):
        raise QuestionError(
            f"shown_range is {shown!r}. Expected two numbers in order, such as (0.0, 100.0), together with a title."
        )
    if title is None:
        return
    if not isinstance(title, str) or not 0 < len(title) <= 1000 or looks_like_text(title):
        raise QuestionError(
            f"the title {str(title)[:60]!r} cannot be shown. Expected up to 1,000 letters that begin like no question given "
            "as text."
        )
    require_writable(title, "the title")


def require_text(value: str | None, what: str) -> str | None:
    """A short text for the record, or None."""
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= 200):
        raise QuestionError(f"{what} is {value!r}. Expected a text of up to 200 letters.")
    require_writable(value, what)
    return value


def checked_expect(value: object) -> float | None:
    """A forecast on the answer's scale, or None."""
    if value is None:
        return None
    require_number(value, "expect")
    foreseen = float(value)  # type: ignore[arg-type]
    if not -1.0 <= foreseen <= 1.0:
        percent = f": {foreseen / 100:g}, not {foreseen:g}" if 1.0 < foreseen <= 100.0 else ""
        raise QuestionError(f"expect is {value!r}. Expected the share that you foresee, from 0 to 1{percent}.")
    return foreseen


def require_writable(value: str | None, what: str) -> None:
    """A record is UTF-8: what cannot be written so is refused before anything is read."""
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise QuestionError(f"{what} contains a lone surrogate and cannot be encoded as UTF-8.") from None
