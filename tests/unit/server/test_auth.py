"""Who asks, and whether they mean it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from hush.core import HushError
from hush.server import app
from hush.server.auth.people import People
from hush.server.routes import Visit
from hush.server.settings import ServiceSettings

WORD = "correct horse battery"


def sign_in(browser: TestClient, people: People, name: str = "alice") -> str:
    """Sign a browser in by a link, and return the form token of its pages."""
    assert browser.post(f"/welcome/{people.make_link(name)}").status_code == 303
    found = re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)
    assert found is not None
    return found[1]


def test_a_link_signs_in_once_and_looking_at_it_does_not_use_it_up(browser: TestClient, people: People) -> None:
    link = f"/welcome/{people.make_link('alice')}"
    for _ in range(3):
        assert browser.get(link).status_code == 200
    assert browser.post(link).status_code == 303
    browser.cookies.clear()
    assert browser.post(link).status_code == 401
    assert browser.get("/account").status_code == 303


def test_unknown_names_and_wrong_passwords_read_alike(browser: TestClient, people: People) -> None:
    people.set_password("alice", WORD)
    told = [
        browser.post("/sign-in", data={"name": name, "password": "wrong"}) for name in ("alice", "bob", "nobody at all")
    ]
    assert {one.status_code for one in told} == {401}
    assert len({one.content for one in told}) == 1
    assert len({tuple(one.headers.items()) for one in told}) == 1
    right = browser.post("/sign-in", data={"name": "alice", "password": WORD})
    assert right.status_code == 303


def test_guessing_is_slowed_down_for_names_that_are_there_and_not(browser: TestClient) -> None:
    codes = [browser.post("/sign-in", data={"name": f"x{at}", "password": "y"}).status_code for at in range(22)]
    assert codes[:20] == [401] * 20
    assert codes[20:] == [429] * 2


def test_the_cookie_is_bound_to_the_host_where_there_is_https(settings: ServiceSettings, people: People) -> None:
    for secure, name in ((True, "__Host-hush"), (False, "hush")):
        browser = TestClient(
            app(replace(settings, secure=secure)),
            base_url=f"http{'s' if secure else ''}://localhost",
            follow_redirects=False,
        )
        with browser:
            told = browser.post(f"/welcome/{people.make_link('alice')}")
            parts = {part.strip().lower() for part in told.headers["set-cookie"].split(";")[1:]}
            assert told.headers["set-cookie"].startswith(f"{name}=")
            assert {"httponly", "path=/", "samesite=lax"} <= parts
            assert ("secure" in parts) is secure
            assert not any(part.startswith("domain") for part in parts)
            assert browser.get("/account").status_code == 200
            assert ("strict-transport-security" in told.headers) is secure


def test_a_session_is_new_at_every_sign_in_and_ends_with_signing_out(browser: TestClient, people: People) -> None:
    token = sign_in(browser, people)
    first = browser.cookies["hush"]
    sign_in(browser, people)
    second = browser.cookies["hush"]
    assert first != second
    assert people.session(first) is None
    assert browser.post("/sign-out", data={"form_token": token}).status_code == 403  # the old page's form
    token = re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)[1]
    assert browser.post("/sign-out", data={"form_token": token}).status_code == 303
    assert people.session(second) is None
    assert browser.get("/account").status_code == 303


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"origin": "http://localhost"}, True),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://localhost:8001"}, False),
    ],
)
def test_other_sites_cannot_make_a_browser_ask(
    browser: TestClient, people: People, headers: dict[str, str], allowed: bool
) -> None:
    token = sign_in(browser, people)
    body = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"}
    told = browser.post("/api/v1/ask", json=body, headers={**headers, "hush-form-token": token})
    assert told.status_code == (200 if allowed else 403)
    assert browser.post("/api/v1/ask", json=body, headers=headers).status_code == 403  # without the form token
    assert browser.get("/api/v1/budget", headers=headers).status_code == 200  # looking spends nothing


def test_a_token_in_a_url_is_not_looked_at(browser: TestClient, people: People) -> None:
    secret = people.make_token("alice")[1]
    for query in (f"token={secret}", f"access_token={secret}", f"authorization=Bearer {secret}"):
        assert browser.get(f"/api/v1/budget?{query}").status_code == 401


def test_a_token_is_shown_once_and_is_for_no_more_than_its_maker(browser: TestClient, alice, people: People) -> None:
    made = browser.post("/api/v1/tokens", json={"label": "notebook"}, headers=alice)
    assert made.status_code == 201
    secret = made.json()["token"]
    listed = browser.get("/api/v1/tokens", headers=alice).text
    assert made.json()["id"] in listed
    assert secret not in listed
    assert browser.post("/api/v1/tokens", json={"scopes": ["own"]}, headers=alice).status_code == 403
    reader = {"authorization": f"Bearer {people.make_token('alice', scopes=['read'])[1]}"}
    assert browser.post("/api/v1/tokens", json={"scopes": ["read", "ask"]}, headers=reader).status_code == 403
    assert browser.delete(f"/api/v1/tokens/{made.json()['id']}", headers=alice).status_code == 204
    assert browser.get("/api/v1/me", headers={"authorization": f"Bearer {secret}"}).status_code == 401


def test_a_password_is_changed_with_the_old_one(browser: TestClient, alice, people: People) -> None:
    assert browser.put("/api/v1/password", json={"new": WORD, "old": ""}, headers=alice).status_code == 403
    assert people.check_password("alice", WORD) is None  # a password allows more than a token may be for
    people.set_password("alice", WORD)
    other = {"new": WORD + "!", "old": "wrong"}
    assert browser.put("/api/v1/password", json=other, headers=alice).status_code == 403
    assert browser.put("/api/v1/password", json={**other, "old": WORD}, headers=alice).status_code == 204
    assert people.check_password("alice", WORD + "!") is not None


def test_a_token_makes_none_that_lives_longer(browser: TestClient, people: People) -> None:
    parent, secret = people.make_token("alice", days=1)
    made = browser.post("/api/v1/tokens", json={"days": 300}, headers={"authorization": f"Bearer {secret}"}).json()
    assert {token.id: token.expires for token in people.tokens("alice")}[made["id"]] == parent.expires


def test_sessions_can_be_ended_elsewhere(browser: TestClient, alice, people: People) -> None:
    sign_in(browser, people)
    (session,) = browser.get("/api/v1/me", headers=alice).json()["sessions"]
    assert browser.delete(f"/api/v1/sessions/{session['id']}", headers=alice).status_code == 204
    assert browser.get("/api/v1/me").status_code == 401


def test_owners_add_and_remove_people(browser: TestClient, olga, people: People) -> None:
    made = browser.post("/api/v1/people", json={"name": "carol", "roles": ["analyst"]}, headers=olga)
    assert browser.post(made.json()["link"]).status_code == 303
    assert "carol" in browser.get("/api/v1/people", headers=olga).text
    assert browser.post("/api/v1/people", json={"name": "dan", "roles": ["god"]}, headers=olga).status_code == 422
    assert browser.post("/api/v1/people/carol/links", headers=olga).status_code == 201
    assert browser.delete("/api/v1/people/carol", headers=olga).status_code == 204
    assert browser.delete("/api/v1/people/carol", headers=olga).status_code == 422
    assert browser.delete("/api/v1/people/olga", headers=olga).status_code == 422
    browser.cookies.clear()
    assert people.person("carol") is None


def test_any_worker_goes_on_where_another_began(settings: ServiceSettings, people: People) -> None:
    people.set_password("alice", "correct horse battery")
    first = TestClient(app(settings), base_url="http://localhost", follow_redirects=False)
    second = TestClient(app(settings), base_url="http://localhost", follow_redirects=False)
    with first, second:
        form = {"name": "alice", "password": "correct horse battery"}
        assert first.post("/sign-in", data=form, headers={"sec-fetch-site": "same-origin"}).status_code == 303
        second.cookies = first.cookies
        assert second.get("/api/v1/me").json()["name"] == "alice"
        body = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1", "request": "r"}
        bearer = {"authorization": f"Bearer {people.make_token('alice')[1]}"}
        here, there = (worker.post("/api/v1/ask", json=body, headers=bearer) for worker in (first, second))
        assert here.json()["rows"] == there.json()["rows"]
        assert second.get("/api/v1/history", headers=bearer).json()["releases"][0]["request"] == "r"
        people.end_session("alice")
        assert {worker.get("/api/v1/me").status_code for worker in (first, second)} == {401}


def test_wrong_passwords_keep_nobody_out_who_signed_in_here_before(settings: ServiceSettings, people: People) -> None:
    """Twenty of them, from anywhere, kept the owner out from everywhere."""
    people.set_password("olga", WORD)

    def trying(address: str) -> TestClient:
        return TestClient(application, base_url="http://localhost", follow_redirects=False, client=(address, 5000))

    def tried(client: TestClient, password: str) -> int:
        return client.post("/sign-in", data={"name": "olga", "password": password}).status_code

    application = app(settings)
    with trying("10.0.0.1") as home:
        assert tried(home, WORD) == 303
        guesses = [tried(trying("10.0.0.2"), "wrong") for _ in range(16)]
        assert guesses == [401] * 15 + [429]  # of one name, from one address
        assert tried(trying("10.0.0.3"), WORD) == 303  # another address is let in
        for at in range(4, 14):  # from many addresses
            guesses += [tried(trying(f"10.0.0.{at}"), "wrong") for _ in range(10)]
        assert guesses.count(401) <= 100  # the name's own limit, wherever they come from
        assert tried(trying("10.0.0.3"), WORD) == 429
        assert tried(home, WORD) == 303  # not where she has signed in before
        assert tried(trying("10.0.0.1"), WORD) == 429  # which a browser shows, and an address does not
        people.set_password("olga", f"{WORD} new")
        assert tried(home, f"{WORD} new") == 429  # and which ends with the password


def test_a_network_of_a_household_has_the_attempts_of_one_address(settings: ServiceSettings) -> None:
    application = app(settings)
    with TestClient(application, base_url="http://localhost"):  # which opens the stores
        told = []
        for number in range(21):
            stranger = TestClient(application, base_url="http://localhost", client=(f"2001:db8::{number:x}", 1))
            told.append(stranger.post("/welcome/wrong").status_code)
    assert told == [401] * 20 + [429]


def test_a_token_ends_nothing_that_is_for_more_than_itself(browser: TestClient, people: People) -> None:
    own, _ = people.make_token("olga", scopes=("read", "own"))
    like, _ = people.make_token("olga", scopes=("read",))
    people.begin_session("olga")
    session = people.sessions("olga")[0]["id"]
    reading = {"authorization": f"Bearer {people.make_token('olga', scopes=('read',))[1]}"}
    for place in (f"/api/v1/tokens/{own.id}", f"/api/v1/sessions/{session}"):
        told = browser.delete(place, headers=reading)
        assert (told.status_code, told.json()["code"]) == (403, "forbidden")
    for act, name in (("revoke", own.id), ("end", session)):
        browser.post("/account", data={"act": act, "id": name}, headers=reading)
    assert own.id in {token.id for token in people.tokens("olga")}
    assert people.sessions("olga")
    assert browser.delete(f"/api/v1/tokens/{like.id}", headers=reading).status_code == 204
    assert browser.delete("/api/v1/tokens/none", headers=reading).status_code == 404


def test_signing_in_opens_neither_policy_nor_ledger_and_shows_nobodys_budgets(
    browser: TestClient, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise HushError("The ledger cannot be opened.")

    sign_in(browser, people)
    monkeypatch.setattr(Visit, "with_curator", refuse)
    used = people.make_link("alice")
    people.use_link(used)
    pages = [browser.get("/sign-in"), browser.get(f"/welcome/{people.make_link('alice')}")]
    pages += [browser.post("/sign-in", data={"name": "alice", "password": "wrong"}), browser.post(f"/welcome/{used}")]
    assert [page.status_code for page in pages] == [200, 200, 401, 401]
    assert not any("Sign out" in page.text or "budgets" in page.text for page in pages)
