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

A person who has signed in is known here by *issuer and subject* alone: no name at the provider chooses an account. The
two are bound to a person once: by a sign-in that began at a one-time link, which the owner gave to that person. Roles
come from a claim, at each sign-in, where the owner says which; else those that the owner gave hold. The provider cannot
be asked while a program shows a token, so what it said holds for some days (`OidcSettings.valid_days`): tokens and the
password of a bound person wait for the next sign-in after that, and at once where it gives no role.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from hush.core import InvalidValueError
from hush.core.on_demand import optional
from hush.ledger import Role
from hush.server.auth import sessions
from hush.server.auth.people import LONGEST_TOKEN_DAYS, People, Person, acting, hashed
from hush.server.errors import PeopleError, SignInError
from hush.server.settings import is_loopback
from hush.storage import Storage

log = logging.getLogger("hush.server")
ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
"""The allowed signatures of tokens: by key pairs alone, so that no public key can be taken for a shared secret."""
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
CALLBACK = "/sign-in/oidc/callback"
_LEEWAY = 30
_KNOWN = 3600.0
"""Seconds after which the provider's discovery document is fetched again."""
_KEYS = 600.0
"""Seconds after which the provider's keys are fetched again."""
_SOONEST = 10.0
"""The same for a token that names an unknown key, which may be a new key of the provider."""
_MOST_BYTES = 256 * 1024
_SECONDS = 10.0
SCHEMA = (
    "CREATE {kept} TABLE IF NOT EXISTS hush_flows (key TEXT PRIMARY KEY, content TEXT NOT NULL, until {real} NOT NULL)",
)
_REFUSED = "The sign-in did not succeed. Try again, or ask the owner."


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The address of the OpenID provider, and the roles that its tokens give."""

    issuer: str
    client_id: str
    address: str
    """The address of this service for browsers, for example https://hush.example, to which the provider sends them."""
    client_secret: str = field(default="", repr=False)
    valid_days: float = 7
    """Days after a sign-in at the provider for which tokens and password stay valid without another sign-in."""
    roles_claim: str = ""
    """The claim with the roles of a person; empty where the owner gives roles here."""
    owner: str = ""
    analyst: str = ""
    """The values in the roles claim that give the role of an owner and of an analyst."""

    def __post_init__(self) -> None:
        for name in ("issuer", "address"):
            url = getattr(self, name)
            if not _safe(url) or (name == "address" and urllib.parse.urlsplit(url).path):
                raise InvalidValueError(name, got=url, allowed="an https address")
        if not self.client_id:
            raise InvalidValueError("client_id", got=self.client_id, allowed="what the provider calls this service")
        days = self.valid_days
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= LONGEST_TOKEN_DAYS:
            raise InvalidValueError("valid_days", got=days, allowed=f"a number of days up to {LONGEST_TOKEN_DAYS}")
        if self.roles_claim and not (self.owner or self.analyst):
            raise InvalidValueError("roles", got=self.roles_claim, allowed="with what owner or analyst must contain")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the settings in a file; the client secret, if any, is read from a file of its own."""
        file = Path(path)
        try:
            toml = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidValueError("--oidc", got=str(path), allowed=f"a TOML file ({error})") from None
        roles = toml.pop("roles", {})
        secret = toml.pop("client_secret_file", "")
        needed, role_words = {"issuer", "client_id", "address"}, {"claim", "owner", "analyst"}
        if set(toml) - needed - {"valid_days"} or set(roles) - role_words or not needed <= set(toml):
            allowed = "issuer, client_id, address, client_secret_file, valid_days, roles = { claim, owner, analyst }"
            raise InvalidValueError("--oidc", got=", ".join({*toml, *roles}), allowed=allowed)
        word = (file.parent / secret).read_text(encoding="utf-8").strip() if secret else ""
        claim = roles.pop("claim", "")
        return cls(**toml, client_secret=word, roles_claim=claim, **roles)


class OpenIdProvider:
    """One provider, as one worker knows it. Use it from any thread; it waits for the network.

    Sign-ins that are under way lie in the store that all workers share.
    """

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._jwt = optional("jwt", "oidc")
        self._lock = threading.Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    # what the provider says of itself

    def metadata(self) -> dict[str, Any]:
        """Return the provider's addresses, from its discovery document."""
        with self._lock:
            if self._metadata is None or time.monotonic() - self._metadata[0] > _KNOWN:
                issuer = self.settings.issuer
                document = _fetched(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                places = [document.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
                safe = all(isinstance(endpoint, str) and _safe(endpoint) for endpoint in places)
                # OpenID Connect Discovery 1.0, 4.3: the document must name the issuer that it was fetched for.
                if document.get("issuer") != issuer or not safe:
                    raise _refused("the discovery document is not that of the issuer, or its addresses are not safe")
                self._metadata = (time.monotonic(), document)
            return self._metadata[1]

    def _published(self, oldest: float) -> list[dict[str, Any]]:
        """Return the provider's keys, fetched at most ``oldest`` seconds ago."""
        keys_url = self.metadata()["jwks_uri"]
        with self._lock:
            if self._keys is None or time.monotonic() - self._keys[0] > oldest:
                published = _fetched(keys_url).get("keys", [])
                self._keys = (time.monotonic(), [key for key in published if isinstance(key, dict)])
            return self._keys[1]

    def _key(self, header: Mapping[str, Any]) -> Any:
        """Return the one published key that fits a token's header; for an unknown one, fetch the keys again."""
        key_id, algorithm = header.get("kid"), header["alg"]
        for oldest in (_KEYS, _SOONEST):
            fitting = [
                key
                for key in self._published(oldest)
                if (key_id is None or key.get("kid") == key_id)
                and key.get("kty") == _KINDS[algorithm[:2]]
                and key.get("alg", algorithm) == algorithm
                and key.get("use", "sig") == "sig"
            ]
            if len(fitting) == 1:  # more than one is ambiguous, and so is refused
                return self._jwt.PyJWK(fitting[0], algorithm=algorithm)
        raise _refused("no published key fits the token")

    # the way of a sign-in

    def begin(self, shared: Storage, link: str) -> tuple[str, str]:
        """Return the provider's address for a browser, and the secret that binds the sign-in to this browser.

        ``link`` is the secret of a one-time link: the subject who comes back is bound to its person.
        """
        state, nonce, verifier, browser = (secrets.token_urlsafe(32) for _ in range(4))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.address + CALLBACK,
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self.metadata()["authorization_endpoint"]
        flow = {"nonce": nonce, "verifier": verifier, "browser": hashed(browser).hex(), "issuer": self.settings.issuer}
        flow["link"] = hashed(link).hex() if link else ""
        now = time.time()
        row = hashed(state).hex(), json.dumps(flow), now + sessions.FLOW.seconds
        with shared.changing():  # alone, a statement is run twice where the connection breaks
            shared.change("DELETE FROM hush_flows WHERE until < ?", now)
            shared.change("INSERT INTO hush_flows VALUES (?, ?, ?)", *row)
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urllib.parse.urlencode(parameters)}", browser

    def sign_in(self, shared: Storage, people: People, query: Mapping[str, str], browser: str) -> Person:
        """Return the person who comes back from the provider, after all checks of the response."""
        # Read and deleted in one statement: a state is valid once, on all workers together, and used up even if a later
        # check fails.
        ended = "DELETE FROM hush_flows WHERE key = ? RETURNING content, until"
        with shared.changing():
            flows = shared.rows(ended, hashed(query.get("state", "")).hex())
        if not flows or flows[0][1] <= time.time():
            raise _refused("the state is not known, was used before, or is too old")
        flow = json.loads(flows[0][0])
        if not hmac.compare_digest(hashed(browser).hex(), flow["browser"]):
            raise _refused("the sign-in began in another browser")
        issuer = query.get("iss")
        # RFC 9207: a provider that announces ``iss`` always sends it, so a response without it is not its own.
        must = self.metadata().get("authorization_response_iss_parameter_supported") is True
        ours = {self.settings.issuer} if must else {self.settings.issuer, None}
        if flow["issuer"] != self.settings.issuer or issuer not in ours:
            raise _refused("the response is that of another provider")
        if "error" in query or not query.get("code"):
            raise _refused("the provider gave no code")
        claims = self.verified(self._exchanged(query["code"], flow["verifier"]), flow["nonce"])
        return self._person(people, claims, bytes.fromhex(flow["link"]))

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
            # RFC 6749, 2.3.1: both parts are form-encoded before they are joined.
            pair = ":".join(map(urllib.parse.quote_plus, (self.settings.client_id, self.settings.client_secret)))
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        endpoint, body = self.metadata()["token_endpoint"], urllib.parse.urlencode(form).encode()
        token = _fetched(endpoint, body, headers).get("id_token")
        if not isinstance(token, str):
            raise _refused("the provider gave no ID token")
        return token

    def verified(self, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token, after all checks of signature and content."""
        try:
            header = self._jwt.get_unverified_header(token)
            # RFC 7515, 4.1.11: a token with critical extensions that are not understood must be refused.
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
        # OpenID Connect Core 1.0, 3.1.3.7: a token for several audiences must name its client in ``azp``.
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", "" if several else self.settings.client_id) != self.settings.client_id:
            raise _refused("the token was made for another client")
        token_nonce = claims.get("nonce")
        if not isinstance(token_nonce, str) or not hmac.compare_digest(token_nonce.encode(), nonce.encode()):
            raise _refused("the nonce is not that of this sign-in")
        return claims

    # who that is here

    def _person(self, people: People, claims: Mapping[str, Any], link: bytes) -> Person:
        """Return the person who is bound to the subject of a token, with the roles from the roles claim, if any."""
        subject = claims["sub"]
        printable = isinstance(subject, str) and subject.isascii() and subject.isprintable()
        if not printable or not 0 < len(subject) <= 255:
            raise _refused("the subject is not one of 1 to 255 printable ASCII characters")
        issuer, seconds = self.settings.issuer, self.settings.valid_days * 86400
        roles = None
        if self.settings.roles_claim:
            claim = claims.get(self.settings.roles_claim, [])
            words = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
            role_words = {Role.OWNER: self.settings.owner, Role.ANALYST: self.settings.analyst}
            roles = frozenset(role for role, word in role_words.items() if word and word in words)
        try:
            with acting(f"sign-in at {urllib.parse.urlsplit(issuer).netloc}"):
                return people.identified(issuer, subject, roles=roles, link=link, seconds=seconds)
        except PeopleError as error:
            raise _refused(str(error)) from None


def _safe(place: str) -> bool:
    """Return whether an address uses https, or is on this machine."""
    parts = urllib.parse.urlsplit(place)
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    return secure and bool(parts.hostname) and not parts.fragment and "@" not in parts.netloc


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: a provider's address is the one that it publishes."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse."""


def _fetched(place: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object at an address of the provider's."""
    request = urllib.request.Request(place, body, dict(headers or {"Accept": "application/json"}))  # noqa: S310 - _safe
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS) as response:
            # A longer document is cut, so it is no valid JSON and is refused.
            content = json.loads(response.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise _refused(f"the provider could not be asked ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise _refused("the provider's answer is not an object")
    return content


def _refused(why: str) -> SignInError:
    """Return the same error for every failed sign-in, and log the reason."""
    log.warning("a sign-in by OpenID Connect was refused: %s", why)
    return SignInError(_REFUSED)
