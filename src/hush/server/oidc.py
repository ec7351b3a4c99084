"""Signing in at an OpenID provider: authorisation code with PKCE, and an ID token that is believed only when all fits.

The way of a sign-in (OpenID Connect Core 1.0, section 3.1; RFC 7636 for PKCE; RFC 9207 for the issuer in the response):

1.  The browser is sent to the provider with a fresh *state*, *nonce* and hash of a *verifier*. All three are kept in
    the store of what goes on, under the hash of the state, for ten minutes, and bound to a cookie of this browser.
2.  It comes back with the state and a code. The state is good once, and in the browser that began alone; where the
    response names an issuer, it must be the one that was asked.
3.  The code and the verifier are exchanged for an ID token, over a connection that follows no redirects.
4.  The token must be signed by a key that the provider publishes, with an algorithm from the list below; be meant for
    this service; come from this issuer; not have expired; and carry the nonce. Keys are fetched again when a token
    names one that is not known, so providers may rotate them.

Whoever has signed in so is known here by the provider's *subject*, not by a name that they may change there: the first
sign-in binds a name to a subject, and nobody with another subject has that name afterwards. A person who has a password
is never taken over. Roles come from a claim, at each sign-in, where the owner says which; else those that the owner
gave hold, and only people whom the owner has added come in.

Where the provider is, only a file at the machine says. Nothing that a visitor sends is an address to be opened, nor one
to be sent to.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import secrets
import threading
import time
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Self

from hush.core import InvalidValueError
from hush.core.on_demand import optional
from hush.core.values import dataclass
from hush.ledger import Role
from hush.server.errors import PeopleError, SignInError
from hush.server.people import People, Person, acting, hashed
from hush.server.settings import is_loopback
from hush.server.traffic import Traffic

log = logging.getLogger("hush.server")
ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
"""With which a token may be signed: signatures by key pairs alone, so that no public key can be taken for a secret."""
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
FLOW = 600.0
"""A sign-in must come back after so many seconds."""
CALLBACK = "/sign-in/oidc/callback"
_LEEWAY = 30
_KNOWN = 3600.0
"""The provider's addresses are read again after so many seconds …"""
_KEYS = 600.0
"""… and its keys after so many, or, when a token names an unknown one, …"""
_SOONEST = 10.0
"""… after so many."""
_MOST_BYTES = 256 * 1024
_SECONDS = 10.0
_REFUSED = "The sign-in did not succeed. Try again, or ask the owner."


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Which provider, and what its tokens mean here."""

    issuer: str
    client_id: str
    address: str
    """Where browsers reach this service, such as https://hush.example: they are sent back there."""
    client_secret: str = field(default="", repr=False)
    name: str = "preferred_username"
    """The claim that is somebody's name here."""
    roles_claim: str = ""
    """The claim that says somebody's roles; nothing where the owner gives them here."""
    owner: str = ""
    analyst: str = ""
    """What that claim must contain for a role."""

    def __post_init__(self) -> None:
        for name in ("issuer", "address"):
            place = getattr(self, name)
            if not _safe(place) or (name == "address" and urllib.parse.urlsplit(place).path):
                raise InvalidValueError(name, got=place, allowed="an https address")
        if not self.client_id or not self.name:
            raise InvalidValueError("client_id", got=self.client_id, allowed="what the provider calls this service")
        if self.roles_claim and not (self.owner or self.analyst):
            raise InvalidValueError("roles", got=self.roles_claim, allowed="with what owner or analyst must contain")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the settings in a file; a secret lies in a file of its own beside it, or there is none."""
        file = Path(path)
        try:
            said = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidValueError("--oidc", got=str(path), allowed=f"a TOML file ({error})") from None
        roles = said.pop("roles", {})
        secret = said.pop("client_secret_file", "")
        words = {"issuer", "client_id", "address", "name"}
        if set(said) - words or set(roles) - {"claim", "owner", "analyst"} or not {"issuer", "client_id"} <= set(said):
            allowed = "issuer, client_id, address, client_secret_file, name, roles = { claim, owner, analyst }"
            raise InvalidValueError("--oidc", got=", ".join({*said, *roles}), allowed=allowed)
        word = (file.parent / secret).read_text(encoding="utf-8").strip() if secret else ""
        claims = {"roles_claim": roles.get("claim", ""), "owner": roles.get("owner", "")}
        return cls(**said, client_secret=word, **claims, analyst=roles.get("analyst", ""))


class OpenIdProvider:
    """One provider, as one worker knows it. Use it from any thread; it waits for the network."""

    def __init__(self, settings: OidcSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._jwt = optional("jwt", "oidc")
        self._clock = clock
        self._lock = threading.Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    # what the provider says of itself

    def metadata(self) -> dict[str, Any]:
        """Return the provider's addresses, from its discovery document."""
        with self._lock:
            if self._metadata is None or self._clock() - self._metadata[0] > _KNOWN:
                issuer = self.settings.issuer
                document = _fetched(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                places = [document.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
                safe = all(isinstance(place, str) and _safe(place) for place in places)
                if document.get("issuer") != issuer or not safe:
                    raise _refused("the discovery document is not that of the issuer, or its addresses are not safe")
                self._metadata = (self._clock(), document)
            return self._metadata[1]

    def _key(self, header: Mapping[str, Any]) -> Any:
        """Return the key that a token names; one that is not known may be new."""
        key = self._named(header, oldest=_KEYS) or self._named(header, oldest=_SOONEST)
        if key is None:
            raise _refused("no published key fits the token")
        return self._jwt.PyJWK(key, algorithm=header["alg"])

    def _named(self, header: Mapping[str, Any], *, oldest: float) -> dict[str, Any] | None:
        """Return the one published key that fits a token's header."""
        place = self.metadata()["jwks_uri"]
        with self._lock:
            if self._keys is None or self._clock() - self._keys[0] > oldest:
                published = _fetched(place).get("keys", [])
                self._keys = (self._clock(), [key for key in published if isinstance(key, dict)])
            keys = self._keys[1]
        named, algorithm = header.get("kid"), header["alg"]
        fitting = [
            key
            for key in keys
            if (named is None or key.get("kid") == named)
            and key.get("kty") == _KINDS[algorithm[:2]]
            and key.get("alg", algorithm) == algorithm
            and key.get("use", "sig") == "sig"
        ]
        return fitting[0] if len(fitting) == 1 else None

    # the way of a sign-in

    def begin(self, traffic: Traffic) -> tuple[str, str]:
        """Return where a browser is sent, and the secret that binds the sign-in to it."""
        state, nonce, verifier, browser = (secrets.token_urlsafe(32) for _ in range(4))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.address + CALLBACK,
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        place = self.metadata()["authorization_endpoint"]
        flow = {"nonce": nonce, "verifier": verifier, "browser": hashed(browser).hex(), "issuer": self.settings.issuer}
        traffic.begin_flow(hashed(state).hex(), json.dumps(flow), seconds=FLOW)
        return f"{place}{'&' if '?' in place else '?'}{urllib.parse.urlencode(asked)}", browser

    def claims(self, traffic: Traffic, query: Mapping[str, str], browser: str) -> dict[str, Any]:
        """Return what the provider says of whoever comes back, once everything about it is right."""
        stored = traffic.end_flow(hashed(query.get("state", "")).hex())
        if stored is None:
            raise _refused("the state is not known, was used before, or is too old")
        flow = json.loads(stored)
        if not hmac.compare_digest(hashed(browser).hex(), flow["browser"]):
            raise _refused("the sign-in began in another browser")
        told = query.get("iss")
        must = self.metadata().get("authorization_response_iss_parameter_supported") is True
        ours = {self.settings.issuer} if must else {self.settings.issuer, None}
        if flow["issuer"] != self.settings.issuer or told not in ours:
            raise _refused("the response is that of another provider")
        if "error" in query or not query.get("code"):
            raise _refused("the provider gave no code")
        return self.verified(self._exchanged(query["code"], flow["verifier"]), flow["nonce"])

    def _exchanged(self, code: str, verifier: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.address + CALLBACK,
            "client_id": self.settings.client_id,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self.settings.client_secret:
            pair = ":".join(map(urllib.parse.quote_plus, (self.settings.client_id, self.settings.client_secret)))
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        place, body = self.metadata()["token_endpoint"], urllib.parse.urlencode(form).encode()
        token = _fetched(place, body, headers).get("id_token")
        if not isinstance(token, str):
            raise _refused("the provider gave no ID token")
        return token

    def verified(self, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token that is right in every respect."""
        try:
            header = self._jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS or "crit" in header:
                raise _refused("the token is signed in a way that is not allowed")
            claims: dict[str, Any] = self._jwt.decode(
                token,
                key=self._key(header),
                algorithms=[header["alg"]],
                audience=self.settings.client_id,
                issuer=self.settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except self._jwt.PyJWTError as error:
            raise _refused(f"the token is not right ({type(error).__name__})") from None
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", "" if several else self.settings.client_id) != self.settings.client_id:
            raise _refused("the token was made for another client")
        shown = claims.get("nonce")
        if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), nonce.encode()):
            raise _refused("the nonce is not that of this sign-in")
        return claims

    # who that is here

    def person(self, people: People, claims: Mapping[str, Any]) -> Person:
        """Return who signs in, with the roles that the provider says, where it does."""
        name = claims.get(self.settings.name)
        if not isinstance(name, str) or not isinstance(claims["sub"], str):
            raise _refused("the token has no name")
        roles = self._roles(claims)
        try:
            with acting(f"sign-in at {urllib.parse.urlsplit(self.settings.issuer).netloc}"):
                bound = people.bind_identity(self.settings.issuer, claims["sub"], name, roles=roles)
        except (PeopleError, InvalidValueError) as error:
            raise _refused(str(error)) from None
        if bound is None:
            raise _refused("the name belongs to somebody else here, or the owner has not added it")
        return bound

    def _roles(self, claims: Mapping[str, Any]) -> frozenset[Role] | None:
        if not self.settings.roles_claim:
            return None
        said = claims.get(self.settings.roles_claim, [])
        words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
        wanted = {Role.OWNER: self.settings.owner, Role.ANALYST: self.settings.analyst}
        roles = frozenset(role for role, word in wanted.items() if word and word in words)
        if not roles:
            raise _refused("the token gives no role")
        return roles


def _safe(place: str) -> bool:
    """Return whether an address is encrypted, or this machine's own."""
    parts = urllib.parse.urlsplit(place)
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    return secure and bool(parts.hostname) and not parts.fragment and "@" not in parts.netloc


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows none: a provider's address is the one that it publishes."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse."""


def _fetched(place: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object at an address of the provider's."""
    request = urllib.request.Request(place, body, dict(headers or {"Accept": "application/json"}))  # noqa: S310 - _safe
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS) as response:
            content = json.loads(response.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise _refused(f"the provider could not be asked ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise _refused("the provider's answer is not an object")
    return content


def _refused(why: str) -> SignInError:
    """Return the one error that whoever signs in sees, and say in the log what was wrong."""
    log.warning("a sign-in by OpenID Connect was refused: %s", why)
    return SignInError(_REFUSED)
