"""Nothing is open but a short list: a route that forgets to ask for a token is closed all the same."""

import pytest
from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from everhold.server.api import acts, ask, contests, gates, record as record_routes, tokens
from everhold.server.app import router
from everhold.server.middleware import OPEN
from everhold.server.pages import act, contest, contest_act, gate, record, sign_in, study, tokens as token_pages
from tests.server.serving import make_contest, make_study, site

PAGES = (act, contest, contest_act, gate, record, sign_in, study, token_pages)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deny")
    with site(folder, make_study(folder), make_contest(folder)[0]) as made:
        app = made.http.app.app
        careless = APIRouter()
        for path in ("/careless", "/v1/careless", "/healthy", "/sign-in-too", "/staticky/x", "/metricsx"):
            careless.add_api_route(path, lambda: PlainTextResponse("open"), methods=["GET", "POST"])
        app.include_router(careless)
        programs = [route for part in (ask, acts, record_routes, contests, gates, tokens) for route in part.router.routes]
        people = [route for part in PAGES for route in part.router.routes]
        made.routes = [(f"/v1{route.path}", sorted(route.methods)) for route in programs]
        made.routes += [(route.path, sorted(route.methods)) for route in (*people, *careless.routes, *router.routes)]
        yield made


def _is_open(path):
    return any(path == one or (one.endswith("/") and path.startswith(one)) for one in OPEN)


def _paths(here):
    given = {"{name}": "patients", "{token_id}": "x", "{which}": "x"}
    for path, methods in here.routes:
        filled = path
        for key, value in given.items():
            filled = filled.replace(key, value)
        for method in methods:
            yield method, filled


def test_without_a_token_every_route_is_closed(here):
    """A refusal, or the way to signing in; never what the route would say."""
    here.http.cookies.clear()
    seen = 0
    for method, path in _paths(here):
        if _is_open(path):
            continue
        found = here.http.request(method, path, follow_redirects=False)
        assert found.status_code in (401, 303), (method, path, found.status_code)
        if found.status_code == 303:
            assert found.headers["location"].startswith("/sign-in?next=")
        assert found.text != "open"
        seen += 1
    assert seen > 40


def test_a_cookie_does_not_open_what_is_for_programs(here):
    here.sign_in("cus")
    for method, path in _paths(here):
        if path.startswith(("/v1", "/metrics")) and path != "/metricsx":
            assert here.http.request(method, path).status_code == 401, path
    assert here.http.get("/careless").text == "open"  # for people who are signed in
    here.http.cookies.clear()


def test_a_token_does_not_open_pages(here):
    for path in ("/", "/studies/patients", "/tokens", "/careless"):
        assert here.get(path, "cus", follow_redirects=False).status_code == 303


def test_the_list_is_short(here):
    assert set(OPEN) == {"/health", "/sign-in", "/static/"}
    assert here.http.get("/health").status_code == 200
    assert here.http.get("/sign-in").status_code == 200
    assert here.http.get("/static/everhold.css").status_code == 200
    assert here.http.get("/static/../v1/studies").status_code in (401, 404)
    assert here.http.get("/static/%2e%2e/app.py").status_code == 404


@pytest.mark.parametrize("path", ["/static", "/health/x", "/metrics/x", "/openapi.json/x", "/v1x", "/healthy"])
def test_nobody_gets_an_error_of_the_server_for_an_address_that_is_not_there(tmp_path, path):
    with site(tmp_path, make_study(tmp_path)) as made:
        answer = made.http.get(path, follow_redirects=False)
        assert answer.status_code in (303, 401), answer.text
