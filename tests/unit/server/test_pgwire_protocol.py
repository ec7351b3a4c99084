"""Bytes at the SQL door that no honest client sends: each is refused at once, and the door goes on.

Nothing here may end a worker, keep a connection waiting, or be charged.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator

import psycopg
import pytest
from pg_servers import RunningPgServer, connect, spent
from served import certificate

from hush.query.errors import QuestionError
from hush.server.pgwire import catalogue as catalogue_module
from hush.server.pgwire import server as server_module
from hush.server.pgwire.catalogue import SystemCatalogue
from hush.server.pgwire.statements import parameter_types

_SECONDS = 30.0
"""How long a reply may take on a busy machine; one that never comes ends the test."""


class Raw:
    """A client that sends whatever it is told."""

    def __init__(self, running: RunningPgServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", running.port), timeout=_SECONDS)

    def start(self, token: str, **options: str) -> str:
        said = b"".join(f"{name}\0{value}\0".encode() for name, value in {"user": "alice", **options}.items()) + b"\0"
        self.socket.sendall(struct.pack("!ii", len(said) + 8, 196608) + said)
        kind, content = self.message()
        if kind == "R":
            self.send("p", token.encode() + b"\0")
            return self.until("ZE")
        return kind + content.decode("utf-8", "replace")

    def send(self, kind: str, content: bytes = b"", length: int | None = None) -> None:
        size = len(content) + 4 if length is None else length
        self.socket.sendall(kind.encode() + struct.pack("!I", size & 0xFFFFFFFF) + content)

    def message(self) -> tuple[str, bytes]:
        head = self._exactly(5)
        return (head[:1].decode(), self._exactly(struct.unpack("!I", head[1:])[0] - 4)) if head else ("", b"")

    def until(self, ends: str) -> str:
        """Return the kinds of the messages up to one that ends a reply, and the codes of errors."""
        seen = ""
        while True:
            kind, content = self.message()
            seen += f"E{content.split(b'C')[1][:5].decode()} " if kind == "E" else kind or "."
            if not kind or kind in ends:
                return seen

    def _exactly(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            more = self.socket.recv(count - len(content))
            if not more:
                return b""
            content += more
        return content


@pytest.fixture
def raw(running: RunningPgServer, token: str) -> Iterator[Raw]:
    client = Raw(running)
    client.start(token)
    yield client
    client.socket.close()


def text(*values: str) -> bytes:
    return b"".join(value.encode() + b"\0" for value in values)


QUESTION = "SELECT COUNT(*) AS n FROM visits"
PARSED = ("P", text("", "SELECT 1") + b"\0\0")
BOUND = ("B", text("", "") + b"\0\0\0\0\0\0")
RUN = ("E", text("") + b"\0\0\0\0")
REFUSED = {
    "two statements in one": [("P", text("", "SELECT 1; SELECT 2") + b"\0\0")],
    "a question and an escape": [("P", text("", f"{QUESTION}; DROP TABLE visits") + b"\0\0")],
    "types that are not there": [("P", text("", "SELECT 1") + b"\0\x05")],
    "no end of the text": [("P", b"SELECT 1")],
    "a text that is none": [("P", b"\0\xff\xfe\0\0\0")],
    "bind before parse": [BOUND],
    "bind to another's statement": [PARSED, ("B", text("", "theirs") + b"\0" * 6)],
    "more parameters than bytes": [PARSED, ("B", text("", "") + b"\0\0\xff\xff")],
    "more formats than bytes": [PARSED, ("B", text("", "") + b"\xff\xff")],
    "a parameter beyond the message": [PARSED, ("B", text("", "") + b"\0\0\0\x01\x7f\xff\xff\xff")],
    "execute before bind": [RUN],
    "execute another's portal": [PARSED, BOUND, ("E", text("theirs") + b"\0\0\0\0")],
    "describe nothing": [("D", b"Snothing\0"), ("D", b"Pnothing\0")],
    "describe an unknown kind": [("D", b"Xnothing\0")],
    "describe without a name": [("D", b"")],
    "execute without a count": [PARSED, BOUND, ("E", text(""))],
    "close without a name": [("C", b"S")],
    "a function by its number": [("F", struct.pack("!IHHH", 2171, 0, 0, 0))],
    "a cursor that goes back": [("P", text("", "FETCH BACKWARD 1 FROM c") + b"\0\0"), BOUND, RUN],
    "a cursor over rows": [("P", text("", "DECLARE c CURSOR FOR SELECT age FROM visits") + b"\0\0"), BOUND, RUN],
    "a cursor over nothing": [("P", text("", "DECLARE c CURSOR FOR BEGIN") + b"\0\0"), BOUND, RUN],
    "another cursor's rows": [("P", text("", "FETCH ALL FROM theirs") + b"\0\0"), BOUND, RUN],
    "a call": [("P", text("", "SELECT * FROM pg_read_file($1) AS result") + b"\0\0"), ("D", b"S\0")],
    "a role": [("P", text("", "SET ROLE postgres") + b"\0\0"), BOUND, RUN],
    "another user": [("P", text("", "SET SESSION AUTHORIZATION bob") + b"\0\0"), BOUND, RUN],
    "replication": [("P", text("", "IDENTIFY_SYSTEM") + b"\0\0"), BOUND, RUN],
    "copy": [("P", text("", "COPY visits TO STDOUT") + b"\0\0"), BOUND, RUN],
    "another price by a function": [
        ("P", text("", "SELECT set_config('hush.epsilon', '9', false)") + b"\0\0"), BOUND, RUN,
    ],
}  # fmt: skip


def test_messages_out_of_order_or_without_content_are_refused(raw, running):
    """One error each, skipped up to Sync, and the connection goes on."""
    for name, sent in REFUSED.items():
        for message in sent:
            raw.send(*message)
        raw.send("S")
        said = raw.until("Z")
        if said.endswith("E42601 Z"):  # a function call ends by itself
            said += raw.until("Z") if name == "a function by its number" else ""
        assert said.count("E") == 1, (name, said)
        assert "D" not in said, name
        raw.send("Q", text("SELECT 1"))
        assert raw.until("Z").endswith("CZ"), name
    assert spent(running) == 0


FATAL = {
    "an unknown kind": ("y", b"", None),
    "a password again": ("p", b"secret\0", None),
    "a message too long": ("Q", b"", 2**16 + 1),
    "a length below its own": ("Q", b"", 3),
    "the longest length": ("Q", b"", 2**32 - 1),
    "a text without an end": ("Q", b"SELECT 1", None),
    "a text that is none": ("Q", b"\xff\xff\0", None),
}


def test_what_is_no_message_ends_its_connection(running, token):
    for name, (kind, content, length) in FATAL.items():
        client = Raw(running)
        assert client.start(token).endswith("Z")
        client.send(kind, content, length)
        assert client.until("") == "E08P01 .", name
        client.socket.close()
    with connect(running, token) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_what_belongs_to_copy_is_left_out(raw):
    for kind in "dcfH":
        raw.send(kind, b"1\t2\n")
    raw.send("S")
    assert raw.until("Z") == "Z"


def test_rows_of_a_portal_come_in_parts_and_end_with_their_transaction(raw):
    types = ("P", text("", "SELECT typname FROM pg_type LIMIT 5") + b"\0\0")
    raw.send("Q", text("BEGIN"))
    raw.until("Z")
    for message in (types, ("B", text("p", "") + b"\0" * 6), ("E", text("p") + struct.pack("!i", 2)), ("S", b"")):
        raw.send(*message)
    assert raw.until("Z") == "12DDsZ"
    raw.send("E", text("p") + struct.pack("!i", -3))  # all that is left
    raw.send("E", text("p") + struct.pack("!i", 2))
    raw.send("S")
    assert raw.until("Z") == "DDDCCZ"
    raw.send("Q", text("COMMIT"))
    raw.until("Z")
    raw.send("E", text("p") + struct.pack("!i", 2))
    raw.send("S")
    assert raw.until("Z") == "E42601 Z"


def test_a_portal_is_charged_once_however_often_it_is_executed(raw, running):
    raw.send("Q", text("SET hush.epsilon = '0.5'"))
    raw.until("Z")
    for message in (("P", text("", QUESTION) + b"\0\0"), BOUND, RUN, RUN, RUN, ("S", b"")):
        raw.send(*message)
    said = raw.until("Z")
    assert said.count("D") == 1
    assert spent(running) == 1


def test_statements_and_portals_are_bounded(raw):
    for number in range(300):
        raw.send("P", text(f"s{number}", "SELECT 1") + b"\0\0")
    raw.send("S")
    assert "E42601" in raw.until("Z")
    for number in range(300):
        raw.send("B", text(f"p{number}", "s1") + b"\0" * 6)
    raw.send("S")
    assert "E42601" in raw.until("Z")


STARTS = {
    "no name": struct.pack("!ii", 9, 196608) + b"\0",
    "names without ends": struct.pack("!ii", 13, 196608) + b"user=",
    "a name without a value": struct.pack("!ii", 14, 196608) + b"user\0\0",
    "an old version": struct.pack("!ii", 9, 131072) + b"\0",
    "a version to come": struct.pack("!ii", 9, 262144) + b"\0",
    "too long": struct.pack("!ii", 10_000, 196608) + b"x" * 9992,
    "a cancel without a key": struct.pack("!ii", 8, 80877102),
    "encryption by GSS, then nothing": struct.pack("!ii", 8, 80877104),
    "TLS asked for twice": struct.pack("!ii", 8, 80877103) * 2,
    "TLS with words before it": struct.pack("!ii", 8, 80877103) + struct.pack("!ii", 9, 196608) + b"\0",
}


@pytest.mark.parametrize("name", STARTS)
def test_odd_beginnings_end_at_once(running, token, name):
    with contextlib.closing(Raw(running).socket) as stranger:
        stranger.sendall(STARTS[name])
        stranger.shutdown(socket.SHUT_WR)
        said = b""
        while more := stranger.recv(4096):
            said += more
        assert b"Z" + struct.pack("!i", 5) not in said  # nobody is ready for a query
    with connect(running, token) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_newer_minor_version_is_told_which_one_is_spoken(running, token):
    client = Raw(running)
    said = b"user\0alice\0_pq_.wish\0on\0\0"
    client.socket.sendall(struct.pack("!ii", len(said) + 8, 196608 + 2) + said)
    kind, content = client.message()
    assert (kind, struct.unpack("!ii", content[:8])) == ("v", (196608, 1))
    assert client.message()[0] == "R"
    client.send("p", token.encode() + b"\0")
    assert client.until("Z").endswith("Z")
    client.socket.close()


def test_settings_of_the_beginning_are_checked(running, token):
    for options in ("-c hush.epsilon=0.1 -c hush.nothing=1", "--hush.max_rows=many"):
        with pytest.raises(psycopg.OperationalError, match=r"hush\."):
            connect(running, token, options=options)


def test_what_comes_in_the_clear_before_tls_is_not_read_after_it(settings, token, tmp_path):
    """Somebody on the way could write the first statements of another's session (CVE-2021-23214)."""
    running = RunningPgServer(settings, certificate(tmp_path))
    try:
        running.door._clear = False
        client = Raw(running)
        said = b"user\0alice\0\0"
        client.socket.sendall(struct.pack("!ii", 8, 80877103) + struct.pack("!ii", len(said) + 8, 196608) + said)
        assert not client.socket.recv(1).startswith(b"S")
        client.socket.close()
        with connect(running, token, sslmode="require") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        running.close()


def test_tls_that_is_broken_off_leaves_nothing_behind(settings, token, tmp_path):
    """Old versions are refused, and clients that say no more in the middle of a handshake do not hold the door."""
    running = RunningPgServer(settings, certificate(tmp_path))
    halves = []
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        for last in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"):
            client = Raw(running)
            client.socket.sendall(struct.pack("!ii", 8, 80877103))
            assert client.socket.recv(1) == b"S"
            client.socket.sendall(last)
            halves.append(client)
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(halves[0].socket)
        with connect(running, token, sslmode="require") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        running.close()
        for client in halves:
            client.socket.close()


def test_guessed_keys_cancel_nothing(running, token):
    with connect(running, token) as connection:
        process = connection.pgconn.backend_pid
        for secret in (0, 1, 2**31 - 1):
            client = Raw(running)
            client.socket.sendall(struct.pack("!iiII", 16, 80877102, process, secret))
            assert client.socket.recv(1) == b""
            client.socket.close()
        connection.execute("SET hush.epsilon = '0.5'")
        assert connection.execute(QUESTION).fetchone() is not None


def test_one_person_has_so_many_connections(running, token, monkeypatch):
    monkeypatch.setattr(server_module, "_EACH", 2)
    refused = pytest.raises(psycopg.OperationalError, match="connections")
    with connect(running, token), connect(running, token), refused:
        connect(running, token)


def test_an_unforeseen_failure_ends_the_connection_alone(running, token, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise ValueError("a secret of a row")

    with connect(running, token) as connection, connect(running, token) as other:
        monkeypatch.setattr("hush.server.pgwire.statements.split", fail)
        with pytest.raises(psycopg.Error) as refused:
            connection.execute("SELECT 1", prepare=False)
        monkeypatch.undo()
        assert other.execute("SELECT 1").fetchone() == (1,)
    assert "secret" not in str(refused.value) + caplog.text
    assert "ValueError" in caplog.text


HEAVY = {
    "brackets": "SELECT a" + "[1]" * 15_000,
    "parentheses": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "sums": "SELECT 1" + "+1" * 4000,
    "points": "SELECT a" + ".a" * 4000,
    "cases": "SELECT " + "CASE WHEN true THEN " * 500 + "1" + " END" * 500,
    "unions": " UNION ALL ".join(["SELECT 1"] * 1000),
    "joins": "SELECT count(*) FROM " + ", ".join(f"pg_type t{number}" for number in range(9)),
    "long rows": f"SELECT {'||'.join('a' * 190)} FROM (SELECT '{'x' * 1000}' AS a) x, generate_series(1, 999)",
    "numbers": "SELECT count(*) FROM generate_series(1, 1000000000000)",
}


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_statements_about_the_catalogue_end_soon(name, monkeypatch):
    """Whether they are answered or not; one that went on would not end within the life of a test."""
    monkeypatch.setattr(catalogue_module, "_SECONDS", 0.1)
    with contextlib.closing(SystemCatalogue([])) as catalogue:
        parameter_types(HEAVY[name], [])
        with contextlib.suppress(QuestionError):
            assert catalogue.run(HEAVY[name]) is None
