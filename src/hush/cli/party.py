"""``hush party`` and ``hush aggregate``: a secure sum between processes."""

from __future__ import annotations

import csv
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option

from hush.cli.options import JsonOption
from hush.cli.output import console, private_file, tell, text_of, write_text
from hush.core import HushError, InvalidValueError
from hush.core.format import decimal, figure
from hush.distributed import AggregationError, Session, join, listen, new_key
from hush.distributed import aggregate as collect
from hush.distributed.messages import public_key

_HELP = """
Take part in a secure sum: nobody sees this party's counters, only the noisy sum of all.

```sh
hush party key clinic.key                       # prints the public key to put into the session
hush party join session.json --name clinic --key clinic.key --values counts.csv --connect 127.0.0.1:7000
```
"""
_AGGREGATE_HELP = """
Run a secure sum: collect masked vectors, and release their sum only with enough noise in it.

```sh
hush party key aggregator.key
hush aggregate open flu-week-9 --party a=PUBLIC --party b=PUBLIC --key aggregator.key --epsilon 1 -o session.json
hush aggregate run session.json --key aggregator.key --listen 127.0.0.1:7000 --transcript transcript.jsonl
```
"""
party = typer.Typer(name="party", help=_HELP, no_args_is_help=True, rich_markup_mode="markdown")
aggregate = typer.Typer(name="aggregate", help=_AGGREGATE_HELP, no_args_is_help=True, rich_markup_mode="markdown")

SessionArgument = Annotated[Path, Argument(metavar="SESSION", help="The session file.")]
KeyOption = Annotated[Path, Option("--key", metavar="FILE", help="The private key, as `hush party key` wrote it.")]


@party.command("key")
def key(
    file: Annotated[Path, Argument(metavar="FILE", help="Where to write the private key; must not exist.")],
    as_json: JsonOption = False,
) -> None:
    """Make a signing key, and print its public part."""
    private, public = new_key()
    with private_file(str(file), "x") as out:
        out.write(private.hex() + "\n")
    tell({"public": public.hex(), "file": str(file)}, public.hex(), as_json=as_json)


@party.command("join")
def join_(
    session: SessionArgument,
    name: Annotated[str, Option(help="This party's name in the session.")],
    key: KeyOption,
    values: Annotated[Path, Option(metavar="FILE", help="The counters: whole numbers, one per line or in CSV cells.")],
    connect: Annotated[str, Option(metavar="HOST:PORT", help="Where the aggregator listens.")],
    ledger: Annotated[str | None, Option(metavar="PATH|URL", help="Charge this ledger before anything leaves.")] = None,
    data: Annotated[str | None, Option(help="The ledger's data set that the counters were made of.")] = None,
    analyst: Annotated[str | None, Option("--as", metavar="ANALYST", help="Whose account is charged.")] = None,
    seconds: Annotated[float, Option(help="How long to wait for each step.", min=1)] = 240.0,
    as_json: JsonOption = False,
) -> None:
    """Take part in one secure sum."""
    from hush.ledger import Charge, Ledger

    agreed, private = _session(session), _key(key)
    if len({ledger is None, data is None, analyst is None}) > 1:
        raise InvalidValueError("--ledger", got=ledger, allowed="given with --data and --as, or not at all")
    counters, address, tickets = _values(values), _address(connect), list[Charge]()
    before = AggregationError(
        f"session {agreed.name!r} was taken part in before, and a second time would be a second release; make one "
        "with another name"
    )
    with nullcontext() if ledger is None else Ledger.open(ledger) as book:

        def before_masking() -> None:
            """Charge the ledger before this party's vector is sent, and leave a file beside the private key."""
            if book is not None:
                # The id comes from the session: a party that joins it a second time finds its own charge.
                request, events = f"secure-sum-{agreed.digest.hex()[:32]}", [agreed.share.event]
                question = f"SECURE SUM {agreed.name!r}, {agreed.length} counters of {len(agreed.parties)} parties"
                ticket = book.reserve(request, analyst=str(analyst), data=str(data), question=question, events=events)
                if not isinstance(ticket, Charge):
                    raise before
                tickets.append(ticket)
            record = key.with_name(f"{key.name}.{agreed.digest.hex()[:32]}.taken")
            try:
                os.close(os.open(record, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                raise before from None
            except OSError as error:
                why = f"cannot write {record}, which keeps a session from being joined twice: {error}"
                raise HushError(why) from None

        try:
            result = join(agreed, name, private, counters, address, seconds=seconds, before_masking=before_masking)
        except AggregationError:
            if book is not None and tickets:
                why = "no result of the secure sum arrived; the sum may have been released all the same"
                book.failed(tickets[0], why)
            raise
        if book is not None:
            book.answered(tickets[0], json.dumps(result).encode())
    text = f"Done: the sums of {len(result['survivors'])} parties; transcript {result['transcript'][:16]}."
    tell(result, text, as_json=as_json)


@aggregate.command("open")
def open_(
    name: Annotated[str, Argument(help="A name that is used once.")],
    party: Annotated[list[str], Option(metavar="NAME=PUBLIC", help="A party; repeat for each.")],
    key: KeyOption,
    epsilon: Annotated[str, Option(metavar="ε", help="The privacy of the released sums.")],
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="Where to write the session.")],
    delta: Annotated[str | None, Option(metavar="δ", help="Leave out for pure privacy.")] = None,
    length: Annotated[int, Option(help="How many counters the vectors have.", min=1)] = 1,
    sensitivity: Annotated[int, Option(help="How much one person changes all counters together.", min=1)] = 1,
    dropouts: Annotated[int, Option(help="How many parties may drop out.", min=0)] = 0,
    colluding: Annotated[int, Option(help="How many may pool what they know with the aggregator.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Write a session: the terms that all parties agree upon beforehand. Each party checks it before joining."""
    parties = {}
    for entry in party:
        label, separator, public = entry.partition("=")
        try:
            parties[label] = bytes.fromhex(public)
        except ValueError:
            separator = ""
        if not separator:
            raise InvalidValueError("--party", got=entry, allowed="NAME=PUBLIC, the key that `hush party key` printed")
    session = Session(
        name=name, parties=parties, aggregator=public_key(_key(key)), dropouts=dropouts, colluding=colluding,
        length=length, sensitivity=sensitivity, epsilon=epsilon, delta=delta,
    )  # fmt: skip
    write_text(out, session.to_json() + "\n")
    facts = {
        "survivors": session.survivors, "honest": session.honest, "quorum": session.quorum,
        "deviation": session.share.deviation, "epsilon": decimal(session.share.epsilon),
    }  # fmt: skip
    text = (
        f"Session {name!r} of {len(parties)} parties written to {out}.\nA sum needs {session.survivors} of them; the "
        f"noise of {session.honest} alone gives ε = {facts['epsilon']}. Standard deviation on each counter: "
        f"{figure(session.share.deviation, digits=3)}."
    )
    tell({"file": str(out), **facts}, text, as_json=as_json)


@aggregate.command("run")
def run(
    session: SessionArgument,
    key: KeyOption,
    address: Annotated[str, Option("--listen", metavar="HOST:PORT", help="Where parties join.")] = "127.0.0.1:7000",
    seconds: Annotated[float, Option(help="How long to wait in each step.", min=0.1)] = 60.0,
    transcript: Annotated[Path | None, Option(metavar="FILE", help="Write digests of all messages.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one session, and print the noisy sums."""
    agreed, private, out = _session(session), _key(key), Console(quiet=True) if as_json else console()
    server, notes = listen(*_address(address)), list[dict[str, str]]()
    out.print(f"Listening on {':'.join(map(str, server.getsockname()[:2]))} for {len(agreed.parties)} parties …")

    def progress(step: str, answers: int) -> None:
        out.print(f"{step}: {answers} of {len(agreed.parties)}")

    try:
        total = collect(agreed, private, server, seconds=seconds, progress=progress, transcript=notes)
    finally:
        if transcript is not None:
            transcript.write_text("".join(json.dumps(note) + "\n" for note in notes), encoding="utf-8")
    values = total.values.tolist()
    sums = ", ".join(f"{value:,}" for value in values[:50]) + (" …" if len(values) > 50 else "")
    noise = f"standard deviation of the noise {figure(total.deviation, digits=3)}"
    content = {"values": values, "survivors": list(total.survivors), "deviation": total.deviation}
    tell(content, sums, f"the sums of {len(total.survivors)} parties; {noise}", as_json=as_json)


def _session(path: Path) -> Session:
    return Session.from_json(text_of(path, "SESSION"))


def _key(path: Path) -> bytes:
    try:
        private = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        private = b""
    if len(private) != 32:
        raise InvalidValueError("--key", got=str(path), allowed="a file that `hush party key` wrote")
    return private


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise InvalidValueError("HOST:PORT", got=text, allowed="such as 127.0.0.1:7000")
    return host.strip("[]") or "127.0.0.1", int(port)


def _values(path: Path) -> list[int]:
    """Return the counters of a CSV file of whole numbers; error messages do not quote its cells."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return [int(cell) for row in csv.reader(lines) for cell in row if cell.strip()]
    except (OSError, ValueError):
        raise InvalidValueError("--values", got=str(path), allowed="a file of whole numbers that can be read") from None
