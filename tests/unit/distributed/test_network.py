"""The lines of a secure sum: strangers, idle connections and messages that are no messages."""

import socket
import struct
import threading
import time

import pytest

from hush.distributed import AggregationError, Session, aggregate, join, listen, network, new_key


@pytest.fixture
def sum_of_three():
    keys, (private, public) = {name: new_key() for name in ("a", "b", "c")}, new_key()
    session = Session(
        name="lines", parties={name: key[1] for name, key in keys.items()}, aggregator=public, epsilon=1000
    )
    return session, keys, private


def joined(session, keys, address, **options):
    """Start a thread for each party, and return them with what they get."""
    results = {}

    def run(name):
        try:
            results[name] = join(session, name, keys[name][0], [5], address, seconds=20, **options)
        except AggregationError as error:
            results[name] = error

    threads = [threading.Thread(target=run, args=(name,)) for name in keys]
    for thread in threads:
        thread.start()
    return threads, results


def test_idle_strangers_and_garbage_keep_nobody_out(sum_of_three):
    session, keys, private = sum_of_three
    server = listen("127.0.0.1", 0)
    address = server.getsockname()
    strangers = [socket.create_connection(address) for _ in range(150)]
    for i, stranger in enumerate(strangers[::3]):
        stranger.sendall((b"GET / HTTP/1.1\r\n\r\n", struct.pack(">I", 2) + b"{}", b"\0")[i % 3])
    threads, results = joined(session, keys, address)
    assert aggregate(session, private, server, seconds=20).values.tolist() == [15]
    for thread in threads:
        thread.join()
    assert all(result["values"] == [15] for result in results.values())
    for stranger in strangers:
        stranger.close()


def test_a_silent_party_is_left_behind_and_an_aggregator_of_another_session_is_refused(sum_of_three):
    session, keys, private = sum_of_three
    server = listen("127.0.0.1", 0)
    threads, results = joined(session, {name: keys[name] for name in ("a", "b")}, server.getsockname())
    with pytest.raises(AggregationError, match="only 2 of 3"):
        aggregate(session, private, server, seconds=1)
    for thread in threads:
        thread.join()
    assert all("gone or silent" in str(result) for result in results.values())
    other = Session(name="other", parties=session.parties, aggregator=session.aggregator, epsilon=1000)
    server = listen("127.0.0.1", 0)
    threads, results = joined(session, keys, server.getsockname())
    with pytest.raises(AggregationError, match="only 0 of 3"):
        aggregate(other, private, server, seconds=1)
    for thread in threads:
        thread.join()
    assert all(isinstance(result, AggregationError) for result in results.values())


def test_a_party_that_leaves_at_the_deadline_is_dropped_once(sum_of_three):
    session, _, _ = sum_of_three
    with listen("127.0.0.1", 0) as server, socket.create_connection(server.getsockname()) as party:
        room = network._Room(session, server, seconds=-1)
        room.lines["a"] = network._Line(server.accept()[0], 1000)
        party.shutdown(socket.SHUT_RDWR)
        assert network._readable([room.lines["a"].socket], time.monotonic() + 20)  # it is known to be gone
        assert room.answers() == []
        assert not room.lines


def test_nobody_listens():
    server = listen("127.0.0.1", 0)
    address = server.getsockname()
    server.close()
    keys, (_, public) = {name: new_key() for name in ("a", "b")}, new_key()
    session = Session(name="s", parties={name: key[1] for name, key in keys.items()}, aggregator=public, epsilon=1)
    with pytest.raises(AggregationError, match="no aggregator answers"):
        join(session, "a", keys["a"][0], [1], address)
