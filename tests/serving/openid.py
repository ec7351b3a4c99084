"""A small OpenID provider on this machine: discovery, keys, authorisation with PKCE, tokens. It may misbehave.

It signs with PyJWT, the library by which the service verifies. It checks what a provider must check: the client, the
address to return to, that a code is used once, and the verifier of PKCE.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT = "hush-service"
SECRET = "a secret of both"  # noqa: S105 - a test's


RSA_KEYS = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]


class Provider:
    """What the provider knows, and how it may misbehave."""

    def __init__(self) -> None:
        self.issuer = ""
        self.return_to = ""
        self.user: dict[str, Any] = {"sub": "s-1", "preferred_username": "alice", "groups": ["analysts"]}
        self.codes: dict[str, dict[str, str]] = {}
        self.requests: list[str] = []
        self.forged: Callable[[dict[str, Any]], str] | None = None
        """Makes the token instead of `signed`, of the claims that would be right."""
        self.metadata: dict[str, Any] = {}
        self.response: dict[str, str] = {}
        """What is added to the response in the browser."""
        self.keys: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey] = {}
        self.rotate("k1")

    def rotate(self, name: str) -> None:
        """Sign with a new key from now on, and publish it alone."""
        before = next(iter(self.keys.values()), None)
        self.keys = {name: RSA_KEYS[1] if before is RSA_KEYS[0] else RSA_KEYS[0]}

    def signed(self, claims: dict[str, Any]) -> str:
        name, key = next(iter(self.keys.items()))
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": name})

    def published(self) -> list[dict[str, Any]]:
        shown = []
        for name, key in self.keys.items():
            family = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
            shown.append({**json.loads(family.to_jwk(key.public_key())), "kid": name, "use": "sig"})
        return shown

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            **self.metadata,
        }

    def authorise(self, asked: dict[str, str]) -> str:
        """Return where the browser goes: somebody is signed in here, and agrees."""
        assert asked["client_id"] == CLIENT
        assert asked["response_type"] == "code"
        assert asked["redirect_uri"] == self.return_to
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{self.return_to}?{urlencode({'code': code, 'state': asked['state'], **self.response})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, str] | None:
        """Return the ID token for a code, once, to the client that holds the verifier."""
        asked = self.codes.pop(form.get("code", ""), None)
        right = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+')}".encode()).decode()
        if asked is None or authorization != f"Basic {right}" or form["redirect_uri"] != self.return_to:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.user}
        return {"token_type": "Bearer", "access_token": "-", "id_token": (self.forged or self.signed)(claims)}


@contextmanager
def running_provider() -> Iterator[Provider]:
    """Run a provider on a port of this machine."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = urlsplit(self.path)
            provider.requests.append(place.path)
            if place.path == "/.well-known/openid-configuration":
                self._say(200, provider.document())
            elif place.path == "/keys":
                self._say(200, {"keys": provider.published()})
            elif place.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", f"{provider.issuer}/keys")
                self.end_headers()
            else:
                self._say(404, {})

        def do_POST(self) -> None:
            provider.requests.append(self.path)
            length = int(self.headers["content-length"])
            form = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
            told = provider.token(form, self.headers.get("authorization", "")) if self.path == "/token" else None
            self._say(400 if told is None else 200, {"error": "invalid_grant"} if told is None else told)

        def _say(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
