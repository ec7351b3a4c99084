"""Second factors beside passwords."""

from __future__ import annotations

import base64
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from hush.server.auth.credentials import RECOVERY, STEP, SecondFactor, totp
from hush.server.auth.people import People
from hush.server.errors import PeopleError

WORD = "correct horse battery"
SECRET = base64.b32encode(b"12345678901234567890").decode()


def test_codes_are_those_of_the_standards() -> None:
    assert [totp(SECRET, counter) for counter in range(4)] == ["755224", "287082", "359152", "969429"]  # RFC 4226, D
    moments = {59: "287082", 1111111109: "081804", 1234567890: "005924", 20000000000: "353130"}  # RFC 6238, B
    assert {moment: totp(SECRET, moment // STEP) for moment in moments} == moments


def test_a_code_is_good_for_its_time_and_once() -> None:
    factor = SecondFactor(secret=SECRET, on=True)
    now = 1234567890.0
    for ahead in (-1, 0, 1):
        assert factor.after(totp(SECRET, int(now // STEP) + ahead), now) is not None
    for code in (
        totp(SECRET, int(now // STEP) - 2),
        totp(SECRET, int(now // STEP) + 2),
        "",
        "00592",
        "٠٠٥٩٢٤",
        "x" * 99,
    ):
        assert factor.after(code, now) is None
    used = factor.after(" 005 924 ", now)
    assert used is not None
    assert used.after("005924", now) is None
    assert used.after(totp(SECRET, int(now // STEP) - 1), now) is None  # nor an earlier one afterwards
    assert SecondFactor.read(used.written()) == used


def codes_of(secret: str) -> list[str]:
    """Return the codes that are good now, the latest last, however the clock moves meanwhile."""
    return [totp(secret, int(time.time() // STEP) + ahead) for ahead in (0, 1)]


def test_a_password_needs_a_code_once_a_factor_is_set_up(browser: TestClient, people: People) -> None:
    people.set_password("alice", WORD)
    assert browser.post(f"/welcome/{people.make_link('alice')}").status_code == 303
    token = re.findall(r'name="form_token" value="(\w+)"', browser.get("/account").text)[0]

    def change(act: str, code: str = "", old: str = "") -> str:
        return browser.post("/account", data={"act": act, "code": code, "old": old, "form_token": token}).text

    def try_code(code: str | None = None) -> int:
        shown = {} if code is None else {"code": code}
        other = TestClient(browser.app, base_url="http://localhost", follow_redirects=False)
        return other.post("/sign-in", data={"name": "alice", "password": WORD, **shown}).status_code

    assert "The password is not right" in change("factor")  # who found a browser open cannot lock its person out
    secret = re.search(r'id="factor">(\w+)<', change("factor", old=WORD))
    assert secret is not None
    assert try_code() == 303  # it does not hold before a code of it was shown
    assert "The code is not right" in change("factor-on", "000000")
    first, second = codes_of(secret[1])
    recovery = re.search(r'id="recovery">([\w, -]+)<', change("factor-on", first))
    assert recovery is not None
    spare = recovery[1].split(", ")
    assert len(set(spare)) == RECOVERY
    assert [try_code(), try_code(first), try_code(second), try_code(second)] == [401, 401, 303, 401]
    with pytest.raises(PeopleError, match="already"):
        people.begin_factor("alice")
    assert people.use_code("alice", spare[0])
    assert not people.use_code("alice", spare[0])
    assert [act.what for act in people.outbox()].count("set-factor") == 0  # it stands in the ledger
    people.drop_factor("alice")
    assert try_code() == 303


def test_guessing_codes_ends_soon_and_tells_nothing(browser: TestClient, people: People) -> None:
    people.set_password("alice", WORD)
    secret = people.begin_factor("alice").secret
    spare = people.confirm_factor("alice", codes_of(secret)[0])
    told = [
        browser.post("/sign-in", data={"name": "alice", "password": word, "code": code})
        for word, code in [("wrong", spare[0]), *[(WORD, f"{at:06}x") for at in range(5)], (WORD, spare[0])]
    ]
    assert {one.status_code for one in told} == {401}  # the last code was right, and came after too many
    assert len({one.content for one in told}) == 1
    assert people.use_code("alice", spare[0])


def test_a_token_changes_no_factor(browser: TestClient, people: People) -> None:
    secret = people.make_token("alice", scopes=["read", "ask"])[1]
    shown = {"authorization": f"Bearer {secret}"}
    page = browser.post("/account", data={"act": "factor"}, headers=shown)
    assert page.status_code == 422
    assert not people.has_factor("alice")


def test_of_two_sign_ins_with_one_code_one_succeeds(people: People) -> None:
    secret = people.begin_factor("alice").secret
    first, second = codes_of(secret)
    spare = people.confirm_factor("alice", first)
    with ThreadPoolExecutor(4) as pool:
        for code in (second, spare[0]):
            assert sorted(pool.map(lambda shown: people.use_code("alice", shown), [code] * 4)) == [False] * 3 + [True]
