"""The one table: every route says who may come, and nobody else gets in."""

from __future__ import annotations

import re

import pytest
from starlette import routing

from hush.server import app, table
from hush.server.auth.people import People
from hush.server.routes import Permission, Route
from hush.server.settings import ServiceSettings

OPEN = {
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/health"),
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/sign-in/oidc"),
    ("GET", "/sign-in/oidc/callback"),
    ("GET", "/welcome/{secret}"),
    ("POST", "/welcome/{secret}"),
    ("GET", "/static/{name}"),
    ("GET", "/what-is-this"),
    # Releases of declared streams whose owner wrote readers = "public". Of others nothing is told, or to sign in.
    ("GET", "/streams"),
    ("GET", "/streams.{ending}"),
    ("GET", "/streams/{name}"),
    ("GET", "/streams/{name}/{period}"),
    ("GET", "/api/v1/streams"),
    ("GET", "/api/v1/streams/{name}"),
    ("GET", "/api/v1/streams/{name}/{period}"),
}
"""What anybody may reach: whoever adds to it says why."""


def call(browser, route: Route, headers: dict[str, str] | None = None):
    path = re.sub(r"{\w+}", "1", route.path)
    return browser.request(route.method, path, headers=headers, json={} if route.method in {"POST", "PUT"} else None)


def test_every_route_of_the_application_is_in_the_table(settings: ServiceSettings) -> None:
    routes = app(settings)._app.routes
    assert all(isinstance(route, routing.Route) for route in routes)
    assert {route.path for route in routes} == {route.path for route in table()}
    assert {(route.method, route.path) for route in table() if route.permission is Permission.ANYBODY} <= OPEN


def test_nobody_gets_in_without_being_signed_in(browser) -> None:
    for route in table():
        if route.permission is Permission.ANYBODY:
            continue
        told = call(browser, route)
        assert told.status_code == (303 if route.page else 401), route.path
        assert "hush" not in told.cookies


def test_a_bad_token_is_refused_everywhere_and_never_nobody(browser) -> None:
    for route in table():
        for shown in ("Bearer hush_x", "Basic YTpi", "Bearer", "hush_x"):
            assert call(browser, route, {"authorization": shown}).status_code in {303, 401}, route.path


def test_roles_and_scopes(browser, people: People) -> None:
    everything = ("read", "ask", "own")
    tokens = {
        (name, scopes): {"authorization": f"Bearer {people.make_token(name, scopes=scopes)[1]}"}
        for name in ("alice", "olga")
        for scopes in (everything, ("read",))
    }
    for route in table():
        if route.permission is Permission.ANYBODY or route.method == "DELETE":
            continue
        for (name, scopes), headers in tokens.items():
            role = {"alice": Permission.ANALYST, "olga": Permission.OWNER}[name]
            allowed = route.permission in {role, Permission.SIGNED_IN} and route.scope in scopes
            refused = call(browser, route, headers).status_code == 403
            if not allowed:
                assert refused, (route.path, name, scopes)
            elif route.permission is not Permission.SIGNED_IN:
                assert not refused, (route.path, name, scopes)


@pytest.mark.parametrize("path", ["/", "/api/v1/budget", "/api/v1/nothing", "/admin", "/api/v1/receipts/abc"])
def test_what_is_not_there_reads_alike(browser, alice, path: str) -> None:
    told = browser.get(f"{path}//x", headers=alice)
    assert told.status_code == 404
    assert told.json()["detail"] == "There is nothing here, or nothing that you may see."


def test_others_answers_read_like_none(browser, alice, people: People) -> None:
    bob = {"authorization": f"Bearer {people.make_token('bob')[1]}"}
    body = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"}
    number = browser.post("/api/v1/ask", json=body, headers=alice).json()["receipt"]
    for kind in ("answers", "receipts"):
        told = [browser.get(f"/api/v1/{kind}/{which}", headers=bob) for which in (number, 999_999)]
        assert told[0].status_code == told[1].status_code == 404
        assert told[0].content == told[1].content


def test_refusals_are_pages_to_browsers_and_problems_to_programs(browser, people) -> None:
    """An address that nobody knows, and a page for others: nothing of the address comes back."""
    browser.cookies.set("hush", people.begin_session("alice"))
    for path, status in (("/<img src=x onerror=alert(1)>", 404), ("/people", 403)):
        page = browser.get(path, headers={"accept": "text/html,*/*;q=0.8"})
        assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert "This did not work" in page.text
        assert "onerror" not in page.text
        assert "require-trusted-types-for" in page.headers["content-security-policy"]
        assert browser.get(path).headers["content-type"] == "application/problem+json"
    assert browser.get("/api/v1/nothing", headers={"accept": "text/html"}).json()["code"] == "unknown"


def test_pages_show_what_nobody_sees_and_forms_carry_it_unchanged(browser, people) -> None:
    browser.cookies.set("hush", people.begin_session("alice"))
    form = {"form_token": re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)[1]}
    made = browser.post("/dashboards", data={**form, "title": "a\u202eb", "data": "clinic"})
    page = browser.get(made.headers["location"]).text
    assert "a\\u202eb" in page
    assert "\u202e" not in page
    asked = browser.get("/ask", params={"q": "SELECT 'a\u202eb'"}).text
    before, carried, after = re.split(r"<textarea[^>]*>(.*?)</textarea>", asked, flags=re.DOTALL)
    assert carried == "SELECT &#39;a\u202eb&#39;"
    assert "\u202e" not in before + after
