"""People, and everything that lets them in: as long as it should, and no longer."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import argon2
import pytest

from hush.core import InvalidValueError
from hush.ledger import Role
from hush.server.errors import PeopleError
from hush.server.people import ABSOLUTE, IDLE, LINK, People

WORD = "correct horse battery"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def people(clock: Clock) -> People:
    store = People.in_memory(clock=clock)
    store.add("olga", roles=[Role.OWNER])
    store.add("alice", roles=[Role.ANALYST])
    return store


def test_sessions_end_when_idle_and_in_any_case(people: People, clock: Clock) -> None:
    secret = people.begin_session("alice")
    begun = clock.now
    while clock.now - begun < ABSOLUTE - IDLE / 2:
        assert people.session(secret) is not None
        clock.now += IDLE / 2
    clock.now = begun + ABSOLUTE
    assert people.session(secret) is None
    secret = people.begin_session("alice")
    clock.now += IDLE
    assert people.session(secret) is None
    assert people.sessions("alice") == []


def test_secrets_are_random_and_stored_as_hashes_alone(tmp_path: Path) -> None:
    people = People(tmp_path / "people")
    people.add("alice", roles=[Role.ANALYST])
    secrets = [people.begin_session("alice") for _ in range(20)]
    secrets += [people.make_token("alice")[1].removeprefix("hush_") for _ in range(20)]
    secrets += [people.make_link("alice") for _ in range(20)]
    assert len(set(secrets)) == 60
    assert min(map(len, secrets)) == 43  # 256 bits in base64
    people.set_password("alice", WORD)
    people.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not any(secret.encode() in stored for secret in [*secrets, WORD])
    assert stat.S_IMODE((tmp_path / "people").stat().st_mode) == 0o600


def test_revoking_holds_for_all_workers_at_once(tmp_path: Path) -> None:
    here, there = People(tmp_path / "people"), People(tmp_path / "people")
    here.add("alice", roles=[Role.ANALYST])
    session, (token, secret) = here.begin_session("alice"), here.make_token("alice")
    assert there.session(session)
    assert there.token(secret)
    here.end_session("alice")
    here.revoke_token("alice", token.id)
    assert there.session(session) is None
    assert there.token(secret) is None
    session, secret = here.begin_session("alice"), here.make_token("alice")[1]
    there.remove("alice")
    assert here.session(session) is None
    assert here.token(secret) is None
    here.close()
    there.close()


def test_links_are_good_once_and_for_a_day(people: People, clock: Clock) -> None:
    secret = people.make_link("alice")
    assert people.use_link(secret) is not None
    assert people.use_link(secret) is None
    late = people.make_link("alice")
    clock.now += LINK
    assert people.use_link(late) is None
    with pytest.raises(PeopleError, match="nobody called"):
        people.make_link("bob")


def test_tokens_expire_and_have_scopes(people: People, clock: Clock) -> None:
    token, secret = people.make_token("alice", scopes=["read"], days=1)
    found = people.token(secret)
    assert found is not None
    assert found.scopes == {"read"}
    assert people.tokens("alice") == [token]
    clock.now += 86400
    assert people.token(secret) is None
    for wrong in ({"scopes": ["everything"]}, {"scopes": []}, {"days": 0}, {"days": 1000}, {"label": "\x00"}):
        with pytest.raises(InvalidValueError):
            people.make_token("alice", **wrong)


def test_passwords(people: People) -> None:
    session = people.begin_session("alice")
    people.set_password("alice", WORD)
    assert people.session(session) is None
    assert people.check_password("alice", WORD) is not None
    assert people.check_password("alice", WORD + "x") is None
    assert people.check_password("olga", "") is None  # who has no password has no empty one
    alice, olga = people.person("alice"), people.session(people.begin_session("olga"))
    assert alice is not None
    assert olga is not None
    assert not people.may_change(alice, "wrong")
    assert people.may_change(alice, WORD)
    assert people.may_change(olga, "")
    assert not people.may_change(replace(olga, session=""), "")
    for wrong in ("short", "x" * 1001, None):
        with pytest.raises(InvalidValueError) as refusal:
            people.set_password("alice", wrong)
        assert "short" not in str(refusal.value)


def test_a_name_that_nobody_has_takes_the_same_work(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.set_password("alice", WORD)
    worked: list[str] = []
    verify = argon2.PasswordHasher.verify

    def counted(self: argon2.PasswordHasher, stored: str, word: str) -> bool:
        worked.append(stored.rpartition("$")[0].rpartition("$")[0])  # the parameters, without salt and hash
        return verify(self, stored, word)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", counted)
    for name in ("alice", "olga", "nobody"):
        assert people.check_password(name, "wrong") is None
    assert worked == ["$argon2id$v=19$m=19456,t=2,p=1"] * 3


def test_the_last_owner_stays(people: People) -> None:
    with pytest.raises(PeopleError, match="last owner"):
        people.remove("olga")
    people.remove("alice")
    assert list(people.names()) == ["olga"]
    with pytest.raises(PeopleError, match="already"):
        people.add("olga", roles=[Role.ANALYST])


def test_a_backup_is_everything(tmp_path: Path) -> None:
    people = People(tmp_path / "people")
    people.add("alice", roles=[Role.ANALYST])
    secret = people.make_token("alice")[1]
    people.backup(tmp_path / "copy")
    with pytest.raises(InvalidValueError):
        people.backup(tmp_path / "copy")
    people.close()
    restored = People(tmp_path / "copy")
    assert restored.token(secret) is not None
    restored.close()
    with sqlite3.connect(tmp_path / "copy") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
