"""Secure sums between real processes, any of which can be killed at any moment of the protocol."""

from __future__ import annotations

import multiprocessing
import os
import signal

from hush.distributed import AggregationError, Session, aggregate, join, listen, new_key
from hush.distributed import network as lines

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["hush.distributed", "hush.accounting.pairs", "numpy"])


def die_at(kind, after, passed=0):
    """Let this process kill itself when it sends a message of a kind: before or after it, once some have passed."""
    send, sent = lines._Line.send, []

    def send_or_die(line, message, deadline):
        if message.kind == kind:
            if not after and len(sent) == passed:
                os.kill(os.getpid(), signal.SIGKILL)
            sent.append(kind)
        send(line, message, deadline)
        if message.kind == kind and after and len(sent) == passed + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    lines._Line.send = send_or_die


def tell_when_there(pipe):
    """Tell when this process has sent its first message, whether or not it is read yet."""
    send = lines._Line.send

    def send_and_tell(line, message, deadline):
        send(line, message, deadline)
        if message.kind == "advertise":
            pipe.send("there")

    lines._Line.send = send_and_tell


def party(pipe, text, name, key, values, address, death):
    """Run a party, and send its result, or why there is none."""
    tell_when_there(pipe)
    if death:
        die_at(*death)
    try:
        pipe.send(join(Session.from_json(text), name, key, values, address, seconds=60))
    except AggregationError as error:
        pipe.send(str(error))


def aggregator(pipe, text, key, server, seconds, death):
    """Run the aggregator on a socket that was opened for it."""
    if death:
        die_at(*death)
    try:
        total = aggregate(Session.from_json(text), key, server, seconds=seconds)
        pipe.send({"values": total.values.tolist(), "survivors": list(total.survivors)})
    except AggregationError as error:
        pipe.send(str(error))


class Processes:
    """One session whose parties and aggregator are processes; ``values`` are each party's counters."""

    def __init__(self, values, **session):
        self.values = values
        self.keys = {f"party-{i:03}": new_key() for i in range(len(values))}
        self.private, public = new_key()
        self.session = Session(
            name="processes", parties={name: key[1] for name, key in self.keys.items()}, aggregator=public,
            length=len(values[0]), **session,
        )  # fmt: skip

    def run(self, *, deaths=None, aggregator_death=None, seconds=10, absent=()):
        """Run all, and return what the aggregator and each party got: a result, a refusal, or None for the dead."""
        server = listen("127.0.0.1", 0)
        address, text = server.getsockname(), self.session.to_json()
        pipes, processes = {}, []

        def start(label, target, *arguments):
            pipes[label], other = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(target=target, args=(other, *arguments))
            process.start()
            other.close()
            processes.append(process)

        def heard(label):
            try:
                return pipes[label].recv()
            except EOFError:
                return None

        for (name, key), row in zip(self.keys.items(), self.values, strict=True):
            if name not in absent:
                start(name, party, text, name, key[0], list(row), address, (deaths or {}).get(name))
        # All who come are there before the aggregator's time begins, however busy the machine.
        there = [name for name in pipes if heard(name) == "there"]
        start("aggregator", aggregator, text, self.private, server, seconds, aggregator_death)
        server.close()
        results = {label: heard(label) if label in there else None for label in list(pipes)[:-1]}
        total = heard("aggregator")
        for process in processes:
            process.join()
        self.killed = sum(process.exitcode == -signal.SIGKILL for process in processes)
        return total, results
