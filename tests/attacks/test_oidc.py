"""Signing in at an OpenID provider: the right way works, and each known way around it fails.

The provider is a real one on this machine (`openid.running_provider`). Nothing of the verification is replaced.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from openid import CLIENT, RSA_KEYS, SECRET, Provider, running_provider
from served import clinic_with
from starlette.testclient import TestClient

from hush.core import InvalidValueError
from hush.ledger import Role
from hush.server import app
from hush.server.auth.oidc import CALLBACK, OidcSettings
from hush.server.auth.people import People, hashed
from hush.server.errors import PeopleError
from hush.server.rate_limits import RateLimits
from hush.server.settings import ServiceSettings
from hush.storage.sqlite import SQLiteStorage

ADDRESS = "http://localhost"


@dataclass
class Place:
    provider: Provider
    settings: ServiceSettings
    service: TestClient
    people: People

    def begin(self, query: str = "", link: str = "") -> dict[str, str]:
        """Go to the provider, with an invitation or without, and return what it is asked."""
        if link:  # the content security policy allows no form to lead to another site, so there is a link to click
            page = self.service.post(f"/welcome/{link}", data={"with": "oidc"})
            assert page.status_code == 200
            to = html.unescape(page.text.partition('<p><a href="')[2].partition('"')[0])
        else:
            sent = self.service.get(f"/sign-in/oidc{query}")
            assert sent.status_code == 303
            to = sent.headers["location"]
        assert to.startswith(f"{self.provider.issuer}/authorize?")
        return {name: values[0] for name, values in parse_qs(urlsplit(to).query).items()}

    def back(self, place: str) -> Any:
        return self.service.get(place.removeprefix(ADDRESS))

    def sign_in(self, link: str = "") -> Any:
        return self.back(self.provider.authorise(self.begin(link=link)))

    def invite(self, name: str = "alice", *roles: Role) -> str:
        if name not in self.people.names():
            self.people.add(name, roles=roles or [Role.ANALYST])
        return self.people.make_link(name)

    def bind(self) -> None:
        """Have Alice sign in once."""
        assert self.sign_in(self.invite()).status_code == 303
        self.service.cookies.clear()

    def me(self) -> tuple[str, list[str]]:
        told = self.service.get("/api/v1/me").json()
        return told["name"], told["roles"]


def settings_file(folder: Path, issuer: str, roles: bool = True) -> Path:
    file = folder / "oidc.toml"
    (folder / "secret").write_text(SECRET, encoding="utf-8")
    text = f'issuer = "{issuer}"\nclient_id = "{CLIENT}"\naddress = "{ADDRESS}"\nclient_secret_file = "secret"\n'
    if roles:
        text += 'roles = { claim = "groups", owner = "owners", analyst = "analysts" }\n'
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    policy = clinic_with(tmp_path, pa.table({"age": [1]}), bounds={"age": (0, 9)}, budget="1", roles=[Role.OWNER])
    with running_provider() as provider:
        provider.return_to = ADDRESS + CALLBACK
        file = settings_file(tmp_path, provider.issuer, roles=getattr(request, "param", True))
        settings = ServiceSettings(policy=str(policy), people=str(tmp_path / "hush.people"), tick=0, oidc=str(file))
        people = People(settings.people)
        with TestClient(app(settings), base_url=ADDRESS, follow_redirects=False) as client:
            yield Place(provider, settings, client, people)
        people.close()


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody come as often as they like: rates are tested elsewhere."""
    monkeypatch.setattr(RateLimits, "visit", lambda *_, **__: 0.0)


def refused(response: Any) -> None:
    assert response.status_code == 401
    assert "The sign-in did not succeed." in response.text
    assert "hush=" not in response.headers.get("set-cookie", "").replace("hush-flow=", "")


def test_an_invitation_binds_a_person_to_a_subject_once(place: Place) -> None:
    assert "/sign-in/oidc" in place.service.get("/sign-in").text
    refused(place.sign_in())  # with a role at the provider, and not invited
    link = place.invite()
    assert "organisation's account" in place.service.get(f"/welcome/{link}").text
    welcome = place.sign_in(link)
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    assert place.me() == ("alice", ["analyst"])
    # The provider says the roles, at each sign-in; what it calls somebody is nothing to us.
    place.provider.user |= {"groups": ["owners", "analysts", "others"], "preferred_username": "me"}
    assert place.sign_in().status_code == 303
    assert place.me() == ("alice", ["analyst", "owner"])
    # The link is used up, and neither the person nor the subject is bound again.
    place.provider.user = {"sub": "s-2", "preferred_username": "alice", "groups": ["analysts"]}
    refused(place.sign_in(link))
    refused(place.sign_in(place.invite("alice")))
    place.provider.user["sub"] = "s-1"
    refused(place.sign_in(place.invite("bob")))
    assert "bind-identity" not in {act.what for act in place.people.outbox()}  # it stands in the ledger by now
    # Until somebody at the machine unbinds them, which ends what the account could make here.
    secret = place.people.make_token("alice")[1]
    assert place.people.unbind("alice")
    assert place.people.token(secret) is None
    refused(place.sign_in())
    assert place.sign_in(place.invite("bob")).status_code == 303
    assert place.me()[0] == "bob"


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("place", [False, True], indirect=True)
def test_no_name_at_the_provider_takes_anybody_over(place: Place) -> None:
    place.people.add("owner", roles=[Role.OWNER])  # neither a password nor anything else yet
    place.people.add("alice", roles=[Role.ANALYST])
    names = (
        "owner",
        "me",
        "alice",
        "Owner",
        "оwner",
        "ｏwner",
        "owner\u200b",
        "",
        " x",
        "a\u202eb",
        "x" * 300,
        None,
        7,
    )
    for name in names:
        user = {"sub": "s-9", "preferred_username": name, "name": name, "email": name, "groups": ["owners"]}
        place.provider.user = user
        refused(place.sign_in())
    for subject in ("", 7, None, "x" * 256, "s\u0000", "ѕ-1", "\ud800", ["s-1"], {}):
        place.provider.user["sub"] = subject
        refused(place.sign_in(place.invite()))
    assert {name: set(roles) for name, roles in place.people.names().items()} == {
        "alice": {Role.ANALYST},
        "me": {Role.OWNER},
        "owner": {Role.OWNER},
    }


def test_of_two_first_sign_ins_one_is_bound(place: Place) -> None:
    link = place.invite()
    returned = []
    for subject in ("s-1", "s-2"):
        place.provider.user["sub"] = subject
        mine = replace(place, service=TestClient(place.service.app, base_url=ADDRESS, follow_redirects=False))
        returned.append((mine, mine.provider.authorise(mine.begin(link=link))))
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda pair: pair[0].back(pair[1]).status_code, returned))
    assert sorted(done) == [303, 401]
    refused(place.sign_in(link))
    for wrong in ("unknown", "x" * 500):
        refused(place.sign_in(wrong))


def test_a_link_either_signs_in_or_binds(place: Place) -> None:
    link = place.invite()
    returned = place.provider.authorise(place.begin(link=link))
    other = TestClient(place.service.app, base_url=ADDRESS, follow_redirects=False)
    assert other.post(f"/welcome/{link}").status_code == 303
    refused(place.back(returned))  # it was used meanwhile
    returned = place.provider.authorise(place.begin(link=place.invite()))
    refused(other.get(returned.removeprefix(ADDRESS)))  # an invitation that somebody else began binds no visitor
    place.bind()
    assert other.post(f"/welcome/{link}").status_code == 401


def test_the_same_subject_of_another_provider_is_somebody_else(place: Place, tmp_path: Path) -> None:
    place.bind()
    returned = place.provider.authorise(place.begin())
    with running_provider() as second:
        second.return_to, second.user = ADDRESS + CALLBACK, place.provider.user
        settings = replace(place.settings, oidc=str(settings_file(tmp_path, second.issuer)))
        with TestClient(app(settings), base_url=ADDRESS, follow_redirects=False) as moved:
            moved.cookies.update(place.service.cookies)
            refused(moved.get(returned.removeprefix(ADDRESS)))  # of a sign-in that began at the first one
            fresh = replace(place, service=moved, provider=second)
            refused(fresh.sign_in())
            refused(fresh.sign_in(fresh.invite()))  # and Alice is bound to the first one's
    assert place.people.unbind("alice")


def test_a_link_that_a_token_made_for_its_bearer_binds_nobody(place: Place) -> None:
    secret = place.people.make_token("me", scopes=["read", "own"])[1]
    headers = {"authorization": f"Bearer {secret}"}
    link = place.service.post("/api/v1/people/me/links", headers=headers).json()["link"].removeprefix("/welcome/")
    place.provider.user = {"sub": "s-1", "groups": ["owners"]}
    refused(place.sign_in(link))  # the binding would outlive the token
    guest = place.people.use_link(link)
    assert guest is not None
    session = place.people.session(place.people.begin_session("me", maker=guest.token))
    assert session is not None
    assert not place.people.may_change(session, "")  # and so would a first password


@pytest.mark.usefixtures("unhurried")
def test_who_has_no_role_left_is_suspended_and_the_last_owner_stays(place: Place) -> None:
    link = place.invite()
    for groups in ([], ["others"], "analystsx", {"analysts": 1}, None, 5):
        place.provider.user["groups"] = groups
        refused(place.sign_in(link))
    place.provider.user["groups"] = ["analysts"]
    assert place.sign_in(link).status_code == 303
    secret = place.people.make_token("alice")[1]
    shown = {"authorization": f"Bearer {secret}"}
    assert place.service.get("/api/v1/me", headers=shown).status_code == 200
    other = TestClient(place.service.app, base_url=ADDRESS, follow_redirects=False)
    place.provider.user["groups"] = ["others"]
    refused(replace(place, service=other).sign_in())
    assert place.service.get("/api/v1/me").status_code == 401  # sessions end, tokens wait
    assert other.get("/api/v1/me", headers=shown).status_code == 401
    place.provider.user["groups"] = ["analysts"]
    assert replace(place, service=other).sign_in().status_code == 303
    assert other.get("/api/v1/me", headers=shown).status_code == 200
    place.provider.user = {"sub": "s-3", "groups": ["analysts"]}
    refused(place.sign_in(place.invite("me")))  # the provider would make the last owner an analyst
    assert place.people.names()["me"] == {Role.OWNER}


def test_tokens_and_passwords_wait_for_a_sign_in_after_some_days() -> None:
    moment = [1e9]
    people = People(":memory:", clock=lambda: moment[0])
    people.add("alice", roles=[Role.ANALYST])
    people.set_password("alice", "correct horse battery")
    secret = people.make_token("alice", days=90)[1]
    sign_in = partial(people.identified, "https://id.example", "s-1", roles=frozenset({Role.ANALYST}), seconds=86400)
    sign_in(link=hashed(people.make_link("alice")))
    for _ in range(2):
        assert people.token(secret) is not None
        assert people.check_password("alice", "correct horse battery") is not None
        moment[0] += 86400
        assert people.token(secret) is None
        assert people.check_password("alice", "correct horse battery") is None
        sign_in(link=b"")


def test_what_an_earlier_version_bound_by_name_waits_for_an_invitation(tmp_path: Path) -> None:
    place = tmp_path / "people"
    with closing(People(place)) as people:
        for name in ("alice", "owner"):
            people.add(name, roles=[Role.ANALYST, Role.OWNER])
        tokens = {name: people.make_token(name)[1] for name in ("alice", "owner")}
        sessions = [people.begin_session(name) for name in ("alice", "owner")]
    with closing(sqlite3.connect(place)) as connection:  # as version 2 left it
        connection.executescript(
            """ALTER TABLE hush_identities DROP COLUMN until;
            UPDATE hush_service SET version = 2;
            INSERT INTO hush_identities VALUES ('https://id.example', 's-1', 'alice');
            INSERT INTO hush_identities VALUES ('https://id.example', 's-9', 'owner');"""
        )
    with closing(People(place)) as people:
        sign_in = partial(people.identified, "https://id.example", roles=None, seconds=86400)
        assert [people.session(session) for session in sessions] == [None, None]
        assert [people.token(secret) for secret in tokens.values()] == [None, None]
        for subject in ("s-1", "s-9"):
            with pytest.raises(PeopleError, match="not invited"):
                sign_in(subject, link=b"")
        # Alice is who she was. The owner was taken over by s-9, whose tokens are worth nothing afterwards.
        assert sign_in("s-1", link=hashed(people.make_link("alice"))).name == "alice"
        assert people.token(tokens["alice"]) is not None
        assert sign_in("s-7", link=hashed(people.make_link("owner"))).name == "owner"
        assert people.token(tokens["owner"]) is None
        with pytest.raises(PeopleError, match="not invited"):
            sign_in("s-9", link=b"")


@pytest.mark.parametrize("place", [False], indirect=True)
def test_without_a_claim_the_owner_gives_roles(place: Place) -> None:
    assert place.sign_in(place.invite("alice", Role.ANALYST)).status_code == 303
    assert place.me() == ("alice", ["analyst"])


def _unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return ".".join([*parts, ""])


def _by_public_key(provider: Provider) -> Callable[[dict[str, Any]], str]:
    """Sign with the published key as if it were a shared secret."""
    import hashlib
    import hmac

    pem = (
        next(iter(provider.keys.values()))
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )

    def forge(claims: dict[str, Any]) -> str:
        text = _unsigned({"alg": "HS256", "kid": "k1"}, claims).rstrip(".")
        signature = hmac.new(pem, text.encode(), hashlib.sha256).digest()
        return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    return forge


def _changed(provider: Provider, **claims: Any) -> Callable[[dict[str, Any]], str]:
    return lambda right: provider.signed(
        {name: value for name, value in {**right, **claims}.items() if value is not None}
    )


FORGERIES: dict[str, Callable[[Provider], Callable[[dict[str, Any]], str]]] = {
    "alg none": lambda _: lambda claims: _unsigned({"alg": "none", "kid": "k1"}, claims),
    "alg None": lambda _: lambda claims: _unsigned({"alg": "None", "kid": "k1"}, claims),
    "no alg": lambda _: lambda claims: _unsigned({"kid": "k1"}, claims),
    "public key as secret": _by_public_key,
    "unknown key": lambda _: lambda claims: jwt.encode(
        claims, RSA_KEYS[1], algorithm="RS256", headers={"kid": "k1"}
    ),
    "key of another kind": lambda _: lambda claims: jwt.encode(
        claims, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256", headers={"kid": "k1"}
    ),
    "key in the header": lambda _: lambda claims: jwt.encode(
        claims, RSA_KEYS[1], algorithm="RS256",
        headers={"kid": "k1", "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/c"},
    ),
    "critical extension": lambda provider: lambda claims: jwt.encode(
        claims, next(iter(provider.keys.values())), algorithm="RS256",
        headers={"kid": "k1", "crit": ["b64"], "b64": True},
    ),
    "wrong audience": lambda provider: _changed(provider, aud="another"),
    "audience of several, for another": lambda provider: _changed(provider, aud=[CLIENT, "another"], azp="another"),
    "audience of several, for nobody": lambda provider: _changed(provider, aud=[CLIENT, "another"]),
    "no audience": lambda provider: _changed(provider, aud=None),
    "wrong issuer": lambda provider: _changed(provider, iss="http://127.0.0.1:9"),
    "issuer with a slash": lambda provider: _changed(provider, iss=f"{provider.issuer}/"),
    "no issuer": lambda provider: _changed(provider, iss=None),
    "expired": lambda provider: _changed(provider, exp=int(time.time()) - 60),
    "never expires": lambda provider: _changed(provider, exp=None),
    "of the future": lambda provider: _changed(provider, iat=int(time.time()) + 600),
    "wrong nonce": lambda provider: _changed(provider, nonce="x"),
    "no nonce": lambda provider: _changed(provider, nonce=None),
    "no subject": lambda provider: _changed(provider, sub=None),
    "no token": lambda _: lambda _claims: "x",
}  # fmt: skip


@pytest.mark.usefixtures("unhurried")
def test_forged_tokens_are_refused(place: Place) -> None:
    place.bind()
    link = place.invite()
    for how, forgery in FORGERIES.items():
        place.provider.forged = forgery(place.provider)
        response = place.sign_in()
        assert response.status_code == 401, how
        refused(response)
        assert place.service.get("/api/v1/me").status_code == 401, how
        place.provider.forged = forgery(place.provider)
        refused(place.sign_in(link))
    place.provider.forged = None
    assert place.sign_in(link).status_code == 303


def test_a_state_is_good_once_and_in_its_own_browser(place: Place) -> None:
    place.bind()
    returned = place.provider.authorise(place.begin())
    other = TestClient(place.service.app, base_url=ADDRESS, follow_redirects=False)
    refused(other.get(returned.removeprefix(ADDRESS)))  # the victim is made to open the attacker's link
    refused(place.back(returned))  # and that has used it up
    returned = place.provider.authorise(place.begin())
    assert place.back(returned).status_code == 303
    refused(place.back(returned))  # the same response again
    for wrong in ("?code=x", "?state=&code=x", "?state=unknown&code=x", ""):
        refused(place.back(CALLBACK + wrong))
    asked = place.begin()
    refused(place.back(f"{CALLBACK}?state={asked['state']}&error=access_denied"))


def test_a_token_of_an_earlier_sign_in_is_refused(place: Place) -> None:
    place.bind()
    kept: list[str] = []

    def remembered(claims: dict[str, Any]) -> str:
        kept.append(place.provider.signed(claims))
        return kept[0]

    place.provider.forged = remembered
    assert place.sign_in().status_code == 303
    refused(place.sign_in())  # signed, unexpired, for us: and of another sign-in, as its nonce tells


def test_a_stolen_code_is_worth_nothing_without_its_verifier(place: Place) -> None:
    place.bind()
    stolen = parse_qs(urlsplit(place.provider.authorise(place.begin())).query)["code"][0]
    mine = place.begin()
    refused(place.back(f"{CALLBACK}?state={mine['state']}&code={stolen}"))


def test_a_response_of_another_provider_is_refused(place: Place) -> None:
    place.bind()
    place.provider.response = {"iss": "http://127.0.0.1:9"}
    refused(place.sign_in())
    place.provider.response = {"iss": place.provider.issuer}
    assert place.sign_in().status_code == 303
    place.provider.response = {}
    place.provider.metadata = {"authorization_response_iss_parameter_supported": True}
    with TestClient(app(place.settings), base_url=ADDRESS, follow_redirects=False) as fresh:
        refused(replace(place, service=fresh).sign_in())  # it says that it always names itself, and did not


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://127.0.0.1:9"},
        {"token_endpoint": "http://example.org/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "https://user@127.0.0.1/"},
        {"jwks_uri": None},
    ],
)
def test_a_provider_that_names_other_places_is_not_asked(place: Place, wrong: dict[str, str]) -> None:
    place.provider.metadata = wrong
    sent = place.service.get("/sign-in/oidc")
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in")
    assert place.provider.requests == ["/.well-known/openid-configuration"]


def test_redirects_of_the_provider_are_not_followed(place: Place) -> None:
    place.provider.metadata = {"jwks_uri": f"{place.provider.issuer}/elsewhere"}
    refused(place.sign_in())
    assert "/keys" not in place.provider.requests


def test_nobody_is_sent_elsewhere(place: Place) -> None:
    place.bind()
    for where in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"):
        asked = place.begin(f"?next={where}&redirect_uri={where}&issuer={where}")
        assert asked["redirect_uri"] == ADDRESS + CALLBACK
        returned = place.provider.authorise(asked)
        welcome = place.back(f"{returned}&next={where}&redirect_uri={where}&url={where}")
        assert (welcome.status_code, welcome.headers["location"]) == (303, "/")


def test_keys_may_be_rotated(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.bind()
    monkeypatch.setattr("hush.server.auth.oidc._SOONEST", 0.0)
    assert place.sign_in().status_code == 303
    place.provider.rotate("k2")
    assert place.sign_in().status_code == 303
    place.provider.keys = {"k3": ec.generate_private_key(ec.SECP256R1())}
    assert place.sign_in().status_code == 303
    monkeypatch.setattr("hush.server.auth.oidc._SOONEST", 3600.0)
    place.provider.rotate("k4")
    before = place.provider.requests.count("/keys")
    refused(place.sign_in())  # tokens that name unknown keys do not make us ask again and again
    assert place.provider.requests.count("/keys") == before


def test_the_log_says_why_and_shows_no_secret(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    tokens: list[str] = []

    def late(claims: dict[str, Any]) -> str:
        tokens.append(place.provider.signed({**claims, "exp": 1}))
        return tokens[0]

    place.provider.forged = late
    with caplog.at_level(logging.DEBUG):
        refused(place.sign_in())
    said = caplog.text
    assert "ExpiredSignatureError" in said
    assert tokens[0] not in said
    assert SECRET not in said


def test_the_file_of_settings(tmp_path: Path) -> None:
    right = settings_file(tmp_path, "https://id.example/realm")
    read = OidcSettings.read(right)
    assert (read.issuer, read.client_secret, read.owner) == ("https://id.example/realm", SECRET, "owners")
    assert SECRET not in repr(read)
    text = right.read_text(encoding="utf-8")
    for old, new in (
        ("https://id.example/realm", "http://id.example"),
        ("https://id.example/realm", "ftp://id.example"),
        (f'"{ADDRESS}"', '"http://hush.example"'),
        (f'"{ADDRESS}"', '"https://hush.example/path"'),
        (f'address = "{ADDRESS}"', ""),
        ("issuer", "isuer"),
        ("issuer", 'name = "preferred_username"\nissuer'),
        ("issuer", "valid_days = 0\nissuer"),
        ('client_id = "hush-service"', 'client_id = ""'),
        ('owner = "owners", analyst = "analysts" ', ""),
        ("[", "[["),
        ('"', ""),
    ):
        if old in text:
            right.write_text(text.replace(old, new), encoding="utf-8")
            with pytest.raises(InvalidValueError):
                OidcSettings.read(right)
    with pytest.raises(InvalidValueError):
        OidcSettings.read(tmp_path / "nothing.toml")


def test_without_a_provider_there_is_nothing(tmp_path: Path) -> None:
    policy = clinic_with(tmp_path, pa.table({"age": [1]}), bounds={"age": (0, 9)}, budget="1")
    settings = ServiceSettings(policy=str(policy), people=str(tmp_path / "hush.people"), tick=0)
    with TestClient(app(settings), base_url=ADDRESS, follow_redirects=False) as client:
        assert "oidc" not in client.get("/sign-in").text
        assert client.get("/sign-in/oidc").status_code == 404
        assert client.get(CALLBACK).status_code == 404


def test_a_flow_is_begun_and_ended_in_a_transaction(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[str] = []
    run = SQLiteStorage._run

    def watched(storage: SQLiteStorage, statement: str, values: tuple[Any, ...]) -> Any:
        if "hush_flows" in statement and not storage._connection.in_transaction:
            alone.append(statement)
        return run(storage, statement, values)

    monkeypatch.setattr(SQLiteStorage, "_run", watched)
    place.bind()
    assert alone == []
