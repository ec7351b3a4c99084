"""A secure sum over TCP: `aggregate` listens, and each party calls `join` in a process of its own.

Frames are a length of four bytes and a signed message. The aggregator waits in each step until every party that is
still connected has answered, or until the step's time is over; who has not answered by then is dropped. A party that
hears nothing in time, or something that does not verify, closes its connection and has revealed nothing more. Messages
are signed from both sides; who listens on the line learns what the aggregator learns, which is the noisy sum. A party
that listens there counts among the colluding ones.

>>> import threading
>>> from hush.distributed.messages import new_key
>>> from hush.distributed.session import Session
>>> keys, (private, public) = {name: new_key() for name in ("a", "b", "c")}, new_key()
>>> session = Session(name="ex", parties={n: k[1] for n, k in keys.items()}, aggregator=public, epsilon=1000)
>>> server = listen("127.0.0.1", 0)
>>> parties = [
...     threading.Thread(target=join, args=(session, name, keys[name][0], [7], server.getsockname())) for name in keys
... ]
>>> for party in parties:
...     party.start()
>>> aggregate(session, private, server).values.tolist()
[21]
>>> for party in parties:
...     party.join()
"""

from __future__ import annotations

import hashlib
import json
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hush.distributed.messages import Message
from hush.distributed.party import Aggregator, NoisySum, Party
from hush.distributed.session import AGGREGATOR, AggregationError, Session

STEP_SECONDS = 60.0
"""The seconds that the aggregator waits for the answers of one step."""

_MOST_STRANGERS = 64  # connections beyond the parties' own that have not introduced themselves

_GONE = "the aggregator is gone or silent; nothing more was revealed, no sum was received"

Progress = Callable[[str, int], None]
"""Called with a step's name and the number of parties that answered."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that parties can join; port 0 takes a free one."""
    try:
        return socket.create_server((host, port), backlog=512)
    except OSError as error:
        raise AggregationError(f"cannot listen on {host}:{port}: {error.strerror}; choose another port") from None


def _largest(session: Session) -> int:
    """Return an upper bound of the bytes of an honest message."""
    return 65536 + 40 * session.length + 1500 * len(session.parties)


def _readable(sockets: Iterable[socket.socket], deadline: float) -> set[socket.socket]:
    """Return the readable sockets as soon as there is one; an empty set at the deadline."""
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        ready = selector.select(max(0.0, deadline - time.monotonic()))
        return {key.fileobj for key, _ in ready if isinstance(key.fileobj, socket.socket)}


class _Line:
    """One connection that carries whole frames; reading never blocks longer than a deadline."""

    def __init__(self, connection: socket.socket, largest: int) -> None:
        self.socket, self._largest, self._buffer = connection, largest, bytearray()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Message, deadline: float) -> None:
        data = message.to_bytes()
        self.socket.settimeout(max(0.01, deadline - time.monotonic()))
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def receive(self) -> Message | None:
        """Read the bytes that have arrived; return a complete message or None, and fail if the other side is gone."""
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            data = b""
        self._buffer += data
        if len(self._buffer) >= 4:
            (size,) = struct.unpack(">I", self._buffer[:4])
            if size > self._largest:
                raise AggregationError(
                    f"a message of {size} bytes arrived; this session's have at most {self._largest}"
                )
            if len(self._buffer) >= 4 + size:
                frame = bytes(self._buffer[4 : 4 + size])
                del self._buffer[: 4 + size]
                return Message.from_bytes(frame)
        if not data:
            raise AggregationError(_GONE)
        return None

    def wait(self, deadline: float) -> Message:
        """Return the next message, or fail at the deadline; only one message is under way at a time."""
        while _readable([self.socket], deadline):
            if (message := self.receive()) is not None:
                return message
        raise AggregationError(_GONE)


class _Room:
    """The aggregator's connections, by party."""

    def __init__(self, session: Session, server: socket.socket, seconds: float) -> None:
        self.session, self.server, self.seconds = session, server, seconds
        self.lines: dict[str, _Line] = {}

    def gather(self) -> list[Message]:
        """Accept connections until every party has advertised, or the time is over."""
        strangers: list[_Line] = []
        first: dict[str, Message] = {}
        keys, digest = self.session.parties, self.session.digest
        deadline = time.monotonic() + self.seconds
        while len(first) < len(keys) and time.monotonic() < deadline:
            ready = _readable([self.server, *(line.socket for line in strangers)], deadline)
            for line in [line for line in strangers if line.socket in ready]:
                try:
                    if (message := line.receive()) is None:
                        continue
                    message.check("advertise", session=digest, key=keys.get(message.sender, b""))
                except AggregationError:
                    message = None
                strangers.remove(line)
                if message is not None and message.sender not in first:
                    first[message.sender], self.lines[message.sender] = message, line
                else:
                    line.socket.close()
            if self.server in ready:
                connection, _ = self.server.accept()
                strangers.append(_Line(connection, _largest(self.session)))
            if len(strangers) > _MOST_STRANGERS + len(keys):
                # Whoever has waited longest without a word makes room, so that idle connections keep nobody out.
                strangers.pop(0).socket.close()
        for line in strangers:
            line.socket.close()
        return list(first.values())

    def send(self, message: Message | Mapping[str, Message]) -> None:
        """Send everybody a message, or each party its own."""
        own = dict.fromkeys(self.lines, message) if isinstance(message, Message) else message
        for party in self.lines.keys() & own.keys():
            try:
                self.lines[party].send(own[party], time.monotonic() + self.seconds)
            except OSError:
                self.drop(party)

    def drop(self, party: str) -> None:
        self.lines.pop(party).socket.close()

    def answers(self) -> list[Message]:
        """Return one message of each party that is still there and answers in time; drop the others."""
        received: dict[str, Message] = {}
        deadline = time.monotonic() + self.seconds
        while missing := {party: line for party, line in self.lines.items() if party not in received}:
            ready = _readable((line.socket for line in missing.values()), deadline)
            for party, line in missing.items():
                if line.socket not in ready:
                    continue
                try:
                    if (message := line.receive()) is not None:
                        received[party] = message
                except AggregationError:
                    self.drop(party)
            if time.monotonic() >= deadline:
                break
        for party in self.lines.keys() - received.keys():
            self.drop(party)
        # A connection speaks for the party that introduced itself there, and for no other.
        return [message for party, message in received.items() if message.sender == party]


def aggregate(
    session: Session,
    key: bytes,
    server: socket.socket,
    *,
    seconds: float = STEP_SECONDS,
    progress: Progress = lambda _step, _answers: None,
    transcript: list[dict[str, str]] | None = None,
) -> NoisySum:
    """Run one session with the parties that join ``server``, and return the noisy sum.

    ``transcript`` takes the digests and signatures of all messages.
    """
    room = _Room(session, server, seconds)
    with server:
        aggregator = Aggregator(session, key=key)
        steps: Mapping[str, Callable[[Sequence[Message]], Any]] = {
            "keys": aggregator.roster,
            "secrets": aggregator.pieces,
            "vectors": aggregator.survivors,
            "confirmations": aggregator.confirmations,
        }
        try:
            for step, take in steps.items():
                answers = room.gather() if step == "keys" else room.answers()
                progress(step, len(answers))
                room.send(take(answers))
            answers = room.answers()
            progress("unmasking", len(answers))
            total = aggregator.unmask(answers)
            digest = hashlib.sha256(json.dumps(aggregator.transcript).encode()).hexdigest()
            body = {"values": total.values.tolist(), "survivors": list(total.survivors), "transcript": digest}
            room.send(aggregator.say("result", body))
            return total
        finally:
            if transcript is not None:
                transcript.extend(aggregator.transcript)
            for line in room.lines.values():
                line.socket.close()


def join(
    session: Session,
    name: str,
    key: bytes,
    values: Any,
    address: tuple[str, int],
    *,
    seconds: float = 4 * STEP_SECONDS,
    before_masking: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Take part in one session, and return its result: the sums, the survivors and the transcript's digest.

    ``before_masking`` is called before this party's vector leaves it: there a ledger is charged, and a session that was
    taken part in before is refused.
    """
    party = Party(session, name=name, key=key, values=values, before_masking=before_masking)
    try:
        connection = socket.create_connection(address, timeout=seconds)
    except OSError as error:
        raise AggregationError(f"no aggregator answers at {address[0]}:{address[1]}: {error}") from None
    with connection:
        line = _Line(connection, _largest(session))
        try:
            line.send(party.advertise(), time.monotonic() + seconds)
            for step in (party.share, party.mask, party.confirm, party.reveal):
                line.send(step(line.wait(time.monotonic() + seconds)), time.monotonic() + seconds)
            result = line.wait(time.monotonic() + seconds)
        except OSError:
            raise AggregationError("the connection to the aggregator broke; nothing more was revealed") from None
    if result.sender != AGGREGATOR:
        raise AggregationError("the result is not the aggregator's")
    body: dict[str, Any] = result.check("result", session=session.digest, key=session.aggregator).body
    return body
