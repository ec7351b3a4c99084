"""People, and everything that lets them in: as long as it should, and no longer. On every store."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path

import argon2
import psycopg
import pytest

from hush.core import HushError, InvalidValueError
from hush.ledger import Actor, Ledger, Role
from hush.server import monitoring
from hush.server.auth.people import ABSOLUTE, IDLE, LINK, People, Person, _copy, acting, hashed
from hush.server.errors import PeopleError, StorageError
from hush.storage import ConflictError

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
def people(place: str, clock: Clock) -> Iterator[People]:
    store = People(place, clock=clock)
    store.add("olga", roles=[Role.OWNER])
    store.add("alice", roles=[Role.ANALYST])
    yield store
    store.close()


def signed_in(person: Person | None) -> AbstractContextManager[None]:
    assert person is not None
    return acting(person.name, person.token)


def test_sessions_end_when_idle_and_in_any_case(people: People, clock: Clock) -> None:
    secret = people.begin_session("alice")
    begun = clock.now
    while clock.now - begun < ABSOLUTE - IDLE / 2:
        assert people.session(secret) is not None
        clock.now += IDLE / 2
    assert people.session(secret) is not None  # in use half an idle time before the end
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


def test_revoking_holds_for_all_workers_at_once(place: str) -> None:
    here, there = People(place), People(place)
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


def test_revoking_a_token_revokes_whatever_was_made_with_it(people: People) -> None:
    first, secret = people.make_token("olga", scopes=["read", "own"])
    other = people.make_token("olga")[1]
    with signed_in(people.token(secret)):
        grandchild = ""
        second = people.make_token("olga")[1]
        link, for_alice, unused = people.make_link("olga"), people.make_link("alice"), people.make_link("olga")
        with signed_in(people.token(second)):
            grandchild = people.make_token("olga", scopes=["read"])[1]
    guest = people.use_link(link)
    assert guest is not None
    session = people.begin_session("olga", maker=guest.token)
    with signed_in(people.session(session)):
        of_session = people.make_token("olga")[1]
    alice = people.use_link(for_alice)
    assert alice is not None
    hers = people.begin_session("alice", maker=alice.token)
    assert people.revoke_token("olga", first.id)
    assert [people.token(made) for made in (secret, second, grandchild, of_session)] == [None] * 4
    assert people.session(session) is None
    assert people.use_link(unused) is None
    assert people.token(other) is not None  # what others made stays
    assert people.session(hers) is not None  # a link for somebody else only opened the door
    assert not people.revoke_token("olga", first.id)


def test_no_way_leads_from_a_token_to_one_that_lives_longer(people: People, clock: Clock) -> None:
    secret = people.make_token("olga", scopes=["read", "own"], days=1)[1]
    ends = clock.now + 86400
    with signed_in(people.token(secret)):
        assert people.make_token("olga", days=90)[0].expires == ends
        link, late = (people.make_link("olga", seconds=5 * 86400) for _ in range(2))
    guest = people.use_link(link)
    assert guest is not None
    with signed_in(people.session(people.begin_session("olga", maker=guest.token))):
        assert people.make_token("olga", days=90)[0].expires == ends
    clock.now = ends
    assert people.use_link(late) is None


def test_roles_change_for_what_is_done_next(people: People) -> None:
    session = people.begin_session("alice")
    assert people.set_roles("alice", roles=[Role.ANALYST, Role.OWNER])
    assert not people.set_roles("alice", roles=[Role.OWNER, Role.ANALYST])
    found = people.session(session)
    assert found is not None
    assert found.owner
    assert people.set_roles("olga", roles=[Role.ANALYST])
    with pytest.raises(PeopleError, match="last owner"):
        people.set_roles("alice", roles=[Role.ANALYST])
    with pytest.raises(PeopleError, match="nobody"):
        people.set_roles("carol", roles=[Role.ANALYST])


def test_every_act_waits_for_the_ledger_and_goes_there_once(people: People) -> None:
    with Ledger.in_memory() as ledger:
        monitoring.record(people, ledger)
        with acting("olga"):
            people.add("carol", roles=[Role.ANALYST])
            people.set_roles("carol", roles=[Role.ANALYST, Role.OWNER])
            people.make_link("carol")
            token, _ = people.make_token("carol", scopes=["read"])
            people.revoke_token("carol", token.id)
            people.set_password("carol", WORD)
            people.end_session("carol")
            people.remove("carol")
            with pytest.raises(PeopleError):
                people.add("alice", roles=[Role.OWNER])  # what was refused is no act
        waiting = people.outbox()
        assert [ledger.record(act) for act in waiting] == [True] * 8  # killed before they were forgotten here
        assert monitoring.record(people, ledger) == 8
        assert monitoring.record(people, ledger) == 0
        told = [str(act) for act in ledger.acts(Actor.owner("olga")) if act.by == "olga"]
        assert told == [
            "added carol (roles: analyst)",
            "changed the roles of carol (roles: analyst, owner)",
            "made a one-time link for carol",
            f"made a token for carol (id: {token.id}; scopes: read)",
            f"revoked a token of carol (id: {token.id})",
            "set the password of carol",
            "ended all sessions of carol",
            "removed carol",
        ]
        assert WORD not in str([act.detail for act in ledger.acts(Actor.owner("olga"))])


def test_a_backup_is_restored_into_any_store(
    people: People, places: Callable[[], str], tmp_path: Path, clock: Clock
) -> None:
    people.set_password("olga", WORD)
    kept, secret = people.make_token("alice")
    session, link = people.begin_session("alice"), people.make_link("alice")
    people.backup(tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    with pytest.raises(InvalidValueError):
        people.backup(tmp_path / "copy")
    people.remove("alice")
    people.add("mallory", roles=[Role.OWNER])
    for target in (people, People(places(), clock=clock), People(tmp_path / "another", clock=clock)):
        target.restore(tmp_path / "copy")
        assert list(target.names()) == ["alice", "olga"]
        found = target.token(secret)
        assert found is not None
        assert (found.name, found.token, found.scopes) == ("alice", kept.id, {"read", "ask"})
        assert target.check_password("olga", WORD) is not None
        assert target.session(session) is None  # what has ended does not begin again
        assert target.use_link(link) is None
        assert target.outbox()[-1].what == "restore-people"
        if target is not people:
            target.close()
    with closing(sqlite3.connect(tmp_path / "copy")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    People(tmp_path / "empty").close()
    for wrong in (tmp_path / "nothing", tmp_path / "empty"):
        with pytest.raises(HushError):
            people.restore(wrong)
    assert list(people.names()) == ["alice", "olga"]


def test_a_store_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "people"
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(
            """CREATE TABLE people (name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT, created REAL NOT NULL);
            CREATE TABLE tokens (hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL REFERENCES people
            ON DELETE CASCADE, label TEXT NOT NULL, scopes TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL);
            CREATE TABLE sessions (hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL REFERENCES
            people ON DELETE CASCADE, created REAL NOT NULL, seen REAL NOT NULL);
            CREATE TABLE links (hash BLOB PRIMARY KEY, person TEXT NOT NULL REFERENCES people ON DELETE CASCADE,
            expires REAL NOT NULL);
            INSERT INTO people VALUES ('alice', '["analyst"]', NULL, 0);"""
        )
        connection.execute("INSERT INTO tokens VALUES (?, 'x', 'alice', '', 'read', 0, 1e12)", (hashed("hush_old"),))
        connection.commit()
    for _ in range(2):
        with closing(People(place)) as people:
            found = people.token("hush_old")
            assert found is not None
            assert found.name == "alice"
    with closing(People(place)) as people:
        people.remove("alice")
        assert people.token("hush_old") is None


def test_a_store_of_a_newer_version_is_refused(place: str) -> None:
    with closing(People(place)) as people, people.storage.changing():
        people.storage.change("UPDATE hush_service SET version = 99")
    with pytest.raises(PeopleError, match="newer hush"):
        People(place)


def test_a_connection_that_broke_is_made_anew(
    server: str, other_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(People(other_database)) as people:
        people.add("olga", roles=[Role.OWNER])
        with psycopg.connect(server, autocommit=True) as connection:
            kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            connection.execute(kill)
            assert list(people.names()) == ["olga"]
            connection.execute(kill)
            people.add("alice", roles=[Role.ANALYST])
        assert list(people.names()) == ["alice", "olga"]
    with pytest.raises(StorageError) as refusal:
        People("postgresql://user:secret@127.0.0.1:1/hush")
    assert "secret" not in f"{refusal.value} {caplog.text}"


def test_a_copy_with_anothers_identity_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with closing(People(tmp_path / "source")) as source, closing(People(tmp_path / "target")) as target:
        for people, name in ((source, "bob"), (target, "carol")):
            people.add(name, roles=[Role.ANALYST])
            row = "https://id", "subject", name, 9e9
            people.storage.change(
                "INSERT INTO hush_identities (issuer, subject, person, until) VALUES (?, ?, ?, ?)", *row
            )
        with pytest.raises(ConflictError), target.storage.changing():
            _copy(source.storage, target.storage)
        assert list(target.names()) == ["carol"]
