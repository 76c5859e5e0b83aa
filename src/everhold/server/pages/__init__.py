"""Pages for people: rendered on the server, working without scripts, better with them.

A page asks as a program does: its questions go to the study's writer. A failed question keeps what was typed.
"""

from __future__ import annotations

from fastapi import APIRouter

from everhold.server.pages import act, contest, contest_act, gate, record, sign_in, study, tokens
from everhold.server.pages.rendering import page_fault

__all__ = ["page_fault", "pages"]


def pages() -> APIRouter:
    """All pages."""
    router = APIRouter(include_in_schema=False)
    for part in (sign_in, study, act, record, contest, contest_act, gate, tokens):
        router.include_router(part.router)
    return router
