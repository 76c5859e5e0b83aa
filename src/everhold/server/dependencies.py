"""What routes depend on: the server's state, the token of a request, the study, contest or gate it is about.

Whether a token allows a request is decided here, before its route runs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request

from everhold.acts import Permission
from everhold.server.caller import Caller
from everhold.server.contest_writer import ContestWriter
from everhold.server.errors import HTTPRefusal
from everhold.server.gate_writer import GateWriter
from everhold.server.request_schemas import StatisticBody
from everhold.server.signins import SignIn
from everhold.server.state import Served, ServerState
from everhold.server.study_writer import StudyWriter
from everhold.server.tokens import Token

__all__ = [
    "AuditorOf",
    "ContestFor",
    "ContextOf",
    "GateFor",
    "PageContext",
    "PageContextOf",
    "RecordedOf",
    "RequestContext",
    "ServedFor",
    "SignedIn",
    "StateOf",
    "StatisticRequest",
    "StudyFor",
    "TokenOf",
    "statistic_request",
    "study_for",
]

S = TypeVar("S", bound=Served)

Name = Annotated[str, Path(max_length=200, description="The study's name: its file's stem.", examples=["patients"])]


async def _state(request: Request) -> ServerState:
    state: ServerState = request.app.state.server
    return state


StateOf = Annotated[ServerState, Depends(_state)]


async def _token(request: Request, server: StateOf) -> Token:
    """The token of a request, if it is still live: a body may have taken its time."""
    return server.require_live(request.state.token)


TokenOf = Annotated[Token, Depends(_token)]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who sent a request, and to which server."""

    server: ServerState
    token: Token
    request: Request

    def caller(self, kind: str, request_id: str | None = None) -> Caller:
        """Who asks, for the record. Request ids are each token's own, and each kind of question's."""
        return self.server.caller(self.request.state, self.token, kind, request_id)

    @property
    def arrived(self) -> float:
        """When the request came, on the grid's clock."""
        arrived: float = self.request.state.started
        return arrived

    def note(self, **facts: Any) -> None:
        """What the server's log says of the request."""
        self.request.state.note = facts


async def _context(request: Request, token: TokenOf, server: StateOf) -> RequestContext:
    return RequestContext(server, token, request)


ContextOf = Annotated[RequestContext, Depends(_context)]


async def _auditor(token: TokenOf) -> Token:
    if not token.allows("audit"):
        raise HTTPRefusal(
            403, "not_allowed", f"this is for auditors and custodians, and the scope of this token is {token.scope}."
        )
    return token


AuditorOf = Annotated[Token, Depends(_auditor)]
"""The token of an auditor or a custodian."""


async def _signed_in(request: Request, server: StateOf) -> SignIn:
    """Who is signed in on the page, if the token is still live."""
    server.require_live(request.state.token)
    signin: SignIn = request.state.signin
    return signin


SignedIn = Annotated[SignIn, Depends(_signed_in)]


@dataclass(frozen=True, slots=True)
class PageContext(RequestContext):
    """The same, of somebody who is signed in on the page."""

    signin: SignIn


async def _page_context(request: Request, signin: SignedIn, server: StateOf) -> PageContext:
    return PageContext(server, signin.token, request, signin)


PageContextOf = Annotated[PageContext, Depends(_page_context)]


def _served_for(
    find: Callable[[ServerState, str, Token, Permission], S], permission: Permission
) -> Callable[..., Coroutine[Any, Any, S]]:
    async def dependency(name: Name, token: TokenOf, server: StateOf) -> S:
        return find(server, name, token, permission)

    return dependency


async def _recorded(name: Name, token: TokenOf, server: StateOf) -> Served:
    return server.record_for(name, token)


class StudyFor:
    """A study that the token allows to ask or to read."""

    ASK = Annotated[StudyWriter, Depends(_served_for(ServerState.study, "ask"))]
    READ = Annotated[StudyWriter, Depends(_served_for(ServerState.study, "read"))]


def study_for(permission: Permission) -> Any:
    """What a route depends on whose permission is known when it is made."""
    return Annotated[StudyWriter, Depends(_served_for(ServerState.study, permission))]


@dataclass(frozen=True, slots=True)
class StatisticRequest:
    """A statistic to ask for, and the study that the token allows to ask; where it is only rehearsed, to read."""

    study: StudyWriter
    body: StatisticBody


def statistic_request(shape: type[StatisticBody]) -> Any:
    """What the route of a statistic depends on, with a body of this shape.

    A token that may not even read is refused whatever the body says.
    """

    async def dependency(
        study: StudyFor.READ, name: Name, token: TokenOf, server: StateOf, body: StatisticBody
    ) -> StatisticRequest:
        return StatisticRequest(study if body.rehearse else server.study(name, token, "ask"), body)

    dependency.__annotations__["body"] = shape
    return Annotated[StatisticRequest, Depends(dependency)]


class ContestFor:
    """A contest that the token allows to enter, to read or to manage."""

    ASK = Annotated[ContestWriter, Depends(_served_for(ServerState.contest, "ask"))]
    READ = Annotated[ContestWriter, Depends(_served_for(ServerState.contest, "read"))]
    MANAGE = Annotated[ContestWriter, Depends(_served_for(ServerState.contest, "manage"))]


class GateFor:
    """A gate that the token allows to check candidates with, to read or to manage."""

    ASK = Annotated[GateWriter, Depends(_served_for(ServerState.gate, "ask"))]
    READ = Annotated[GateWriter, Depends(_served_for(ServerState.gate, "read"))]
    MANAGE = Annotated[GateWriter, Depends(_served_for(ServerState.gate, "manage"))]


class ServedFor:
    """A study, contest or gate that the token allows to read or to audit."""

    READ = Annotated[Served, Depends(_served_for(ServerState.find, "read"))]
    AUDIT = Annotated[Served, Depends(_served_for(ServerState.find, "audit"))]


RecordedOf = Annotated[Served, Depends(_recorded)]
"""A study, contest or gate whose record the token may read."""
