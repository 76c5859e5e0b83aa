"""Templates, errors as pages, and forms with their second secret."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from everhold.report.percent import shown_cells, value_and_interval
from everhold.server.dependencies import PageContext
from everhold.server.errors import HTTPRefusal, refusal_of
from everhold.server.forms import bar
from everhold.server.glossary import GLOSSARY
from everhold.server.middleware import SignInFirst
from everhold.version import VERSION

__all__ = ["PageFault", "fields_of", "form_of", "page_fault", "render", "sentence_of"]

_TITLES = {
    400: "That cannot be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "Nothing here",
    409: "Not possible",
    413: "Too large",
    422: "The question cannot be answered",
    429: "Too many at once",
    503: "Not now",
}
_THEN = {
    422: "Nothing was charged. Your text is still in the box: change it and ask again.",
    409: "Nothing was charged for this.",
    429: "Wait a moment, then go on.",
    503: "Recorded answers are safe. Contact the custodian, or try again later.",
}

_WORDS = (
    "a after all an at before both column columns each every expected from in it its line missing more most no not nothing "
    "of only question round some such that the there these this those to too two what when where which who with without you "
    "your"
)
_BEGINNINGS = frozenset(_WORDS.split())
"""Words that begin a message; anything else may be a name, which is shown as it is."""

_templates = Environment(
    loader=FileSystemLoader(str(files("everhold.server") / "templates")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals.update(
    version=VERSION, bar=bar, shown_cells=shown_cells, value_and_interval=value_and_interval, glossary=GLOSSARY
)


@dataclass(frozen=True, slots=True)
class PageFault:
    """An error as a page shows it.

    Attributes:
        title, message: what is wrong, and what was expected.
        excerpt: where in the question, drawn.
        then: what to do.
        status: of the response.
    """

    title: str
    message: str
    excerpt: str
    then: str
    status: int

    @classmethod
    def of(cls, error: Exception) -> PageFault:
        """From any error that a route may raise."""
        refusal = refusal_of(error)
        status, message = refusal.status, str(refusal)
        if status == 404:
            message = "there is no page or study at this address, or it has another name."
        sentence, _, excerpt = sentence_of(message).partition("\n")
        return cls(_TITLES.get(status, "Something went wrong"), sentence, excerpt, _THEN.get(status, ""), status)

    def about_file(self, title: str, then: str) -> PageFault:
        """The same where a file was sent and not a question."""
        return replace(self, title=title, then=then) if self.status in (413, 422) else self


def sentence_of(message: str) -> str:
    """A message with a capital letter, unless it begins with somebody's name.

    >>> sentence_of("the file has no rows."), sentence_of("ann has caused 3 surprises.")
    ('The file has no rows.', 'ann has caused 3 surprises.')
    """
    first = message.partition(" ")[0]
    return message[:1].upper() + message[1:] if first in _BEGINNINGS else message


def render(template: str, /, *, code: int = 200, **values: Any) -> HTMLResponse:
    """A page, or a part of one."""
    values = {"session": None, "here": "", "fault": None, "oob": False, "round_acts": (), **values}
    return HTMLResponse(_templates.get_template(template).render(**values), status_code=code)


def page_fault(request: Request, error: Exception) -> Response:
    """An error as a page."""
    if isinstance(error, SignInFirst):
        to = "/sign-in?next=" + quote(request.url.path, safe="/")
        if request.headers.get("hx-request"):
            return Response(status_code=401, headers={"HX-Redirect": to})
        return RedirectResponse(to, status_code=303)
    fault = PageFault.of(error)
    headers = error.headers if isinstance(error, HTTPRefusal) else {}
    name = "answer.html" if request.headers.get("hx-request") else "fault.html"
    signin = getattr(request.state, "signin", None)
    response = render(name, code=fault.status, fault=fault, found=None, request_id=request.state.request_id, session=signin)
    response.headers.update(headers)
    return response


async def fields_of(request: Request, *, files: int) -> dict[str, Any]:
    """The fields of a form, files as bytes, with `<name>.filename`; what cannot be read is refused."""
    try:
        async with request.form(max_files=files, max_fields=50) as form:
            given = {name: value if isinstance(value, str) else await value.read() for name, value in form.items()}
            names = {f"{name}.filename": value.filename for name, value in form.items() if not isinstance(value, str)}
            return given | names
    except (LookupError, ValueError):
        raise HTTPRefusal(400, "malformed", "the form cannot be read. Expected UTF-8, as a browser sends it.") from None


async def form_of(context: PageContext) -> dict[str, Any]:
    """The fields that a page of this server sent, or a refusal."""
    given = await fields_of(context.request, files=1)
    csrf = given.get("csrf")
    context.server.signins.require_form(context.request, context.signin, csrf if isinstance(csrf, str) else None)
    context.server.require_live(context.token)  # the body may have taken its time
    return given
