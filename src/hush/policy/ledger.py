r"""A policy's ledger: its place, its identity, and its creation.

A ledger that was lost must never become a fresh budget, so no question makes one. The owner makes it once, with ``hush
ledger open`` or ``hush.open(…, create=True)``. That writes the ledger's id into the policy::

    ledger_id = "3f0c…"

From then on this ledger and no other one will do, whatever path leads to the policy, wherever both were moved to and in
whose home the anchors are. docs/ledger.md has a table of all cases, and :mod:`hush.ledger.chain` says what anchors
notice by themselves.

Nor does a question open the budget of a data set: under another name in the policy, spent rows would have a fresh one.
``hush ledger open`` does, and says which data sets of the ledger the policy names no longer.

**More budget for an analyst.** A request for more budget (`hush.ledger.requests`) names a new total. To approve it
takes both: the ledger's account is raised, which is recorded, and the number in the policy's file is written anew.
Nothing else in the file changes, and where that cannot be made sure of, nothing is decided.

>>> raised('[analysts.ann]\ndata = ["a"]\nbudget = { epsilon = "1" }  # per year\n', "ann", Fraction("1.5"))
'[analysts.ann]\ndata = ["a"]\nbudget = { epsilon = "1.5" }  # per year\n'
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from hush.core import HushError
from hush.core.format import decimal
from hush.ledger import AccountExistsError, Actor, Budget, Ledger, LedgerMissingError, LedgerRolledBackError
from hush.ledger.errors import UnknownAccountError
from hush.policy.document import locate
from hush.policy.file import Analyst, Policy

log = logging.getLogger("hush.curator")
POLICY = Actor.owner("policy")
"""The actor that opens the accounts of a policy."""

STREAMS_KEY = "HUSH_STREAMS_KEY"
"""The environment variable that names the file of the key of streams' private states."""
_WRITTEN = "  # written by hush ledger open: no other ledger will do"


def ledger_of(policy: Policy) -> str | Path:
    """Return the path or the address of a policy's ledger."""
    where = policy.ledger or "hush.ledger"
    return where if "://" in where else policy.directory / where


def streams_of(policy: Policy, analyst: str) -> Path:
    """Return the directory of an analyst's streams, beside the ledger: nobody sees another's, nor their names."""
    location = ledger_of(policy)
    beside = policy.directory / "hush.ledger" if isinstance(location, str) else location
    return beside.with_name(beside.name + ".streams") / hashlib.sha256(analyst.encode()).hexdigest()[:32]


def open_ledger(policy: Policy, *, anchor: str | None = None, names: Iterable[str] = ()) -> Ledger:
    """Open a policy's ledger, which must be there, and must have a budget for the data sets in ``names``.

    Nothing is opened by looking: accounts of analysts that the ledger lacks are opened by their first charge, and shown
    as new until then; those of data sets only by `make_ledger`. Of an account that is there already, the smaller of the
    ledger's budget and the policy's holds: an owner lowers a budget by writing a smaller one into the policy, and
    raises it with ``hush ledger raise``, which leaves a trace. A larger one in the policy alone changes nothing, and is
    warned of.
    """
    return _with_accounts(_opened(policy, anchor), policy, names=names)


def make_ledger(policy: Policy, *, actor: Actor = POLICY, anchor: str | None = None, anew: str = "") -> Ledger:
    """Make the ledger of a policy, open its accounts and write its id into the policy's file.

    A ledger that is there already is opened, and named in the policy if it is not yet. Where one was lost, ``anew`` is
    the owner's reason to begin anew.
    """
    actor.require_owner("make a ledger")
    ledger = None
    if not anew:
        with suppress(LedgerMissingError):
            ledger = _opened(policy, anchor)
    if ledger is None:
        ledger = Ledger.open(ledger_of(policy), anchor=anchor, create=actor, anew=anew)
    _with_accounts(ledger, policy, data=True)
    file, words = policy.document.file, "The policy %s could not be changed; add this line at its top: ledger_id = %r"
    if policy.ledger_id != ledger.id and not name_ledger(file, ledger.id):
        log.warning(words, file, ledger.id)
    return ledger


def rehearsed(policy: Policy) -> Ledger:
    """Return a ledger with the policy's accounts that lives and dies with this process."""
    return _with_accounts(Ledger.in_memory(), policy, data=True)


def ledger_or_stand_in(policy: Policy, names: Iterable[str], *, create: bool = False) -> tuple[Ledger, bool]:
    """Return a policy's ledger, and whether it is there; if not, one that stands for it and charges nothing."""
    try:
        return make_ledger(policy) if create else open_ledger(policy, names=names), True
    except LedgerMissingError as error:
        ledger = rehearsed(policy)
        ledger.refuse(str(error))
        return ledger, False


def name_ledger(path: str | Path, identity: str) -> bool:
    """Write a ledger's id into a policy's file; return whether that was possible. Nothing else in it changes."""
    file = Path(os.path.realpath(path))
    line = f'ledger_id = "{identity}"{_WRITTEN}'
    try:
        text = file.read_bytes().decode("utf-8")
        content = tomllib.loads(text)
        if "ledger_id" in content:
            changed = re.sub(r"(?m)^ledger_id[ \t]*=[^\r\n]*", line, text, count=1)
        else:
            changed = line + ("\r\n" if "\r\n" in text else "\n") + text
        # The changed text is parsed again: it is written only if nothing but the id differs.
        if tomllib.loads(changed) != {**content, "ledger_id": identity}:
            return False
        replace_file(file, changed)
    except (OSError, ValueError, RecursionError):
        return False
    return True


def replace_file(file: Path, text: str) -> None:
    """Replace a file's text atomically; the file keeps its permissions."""
    with tempfile.NamedTemporaryFile("wb", dir=file.parent, prefix=f".{file.name}-", delete=False) as new:
        try:
            new.write(text.encode())
            new.flush()
            os.fsync(new.fileno())  # the bytes are durable before the name points to them
            Path(new.name).chmod(file.stat().st_mode & 0o7777)
            Path(new.name).replace(file)
        except BaseException:
            Path(new.name).unlink(missing_ok=True)
            raise


def _opened(policy: Policy, anchor: str | None) -> Ledger:
    try:
        ledger = Ledger.open(ledger_of(policy), anchor=anchor)
        if policy.ledger_id in {None, ledger.id}:
            return ledger
        ledger.close()
        why = (
            f"{ledger.place} lies {ledger.id}. It was exchanged, or the policy belongs to another ledger. No budget is "
            "given out. Put the right one in its place; if this one is right, write its id into the policy."
        )
    except LedgerMissingError:
        if policy.ledger_id is None:
            raise
        why = (
            f"{ledger_of(policy)} there is none. It was lost, or the policy was moved or copied without it. No budget "
            "is given out. Put the newest copy in its place; to begin anew on purpose: hush ledger open --new REASON, "
            "which is recorded."
        )
    line = policy.document.place(("ledger_id",))
    raise LedgerRolledBackError(f"{line}: the policy's ledger is {policy.ledger_id}, but at {why}")


def _with_accounts(ledger: Ledger, policy: Policy, *, data: bool = False, names: Iterable[str] = ()) -> Ledger:
    """Open the accounts that a policy names and its ledger lacks; those of data sets only where ``data`` says so.

    Data sets in ``names`` that then have no budget are refused, and the ledger is closed.
    """
    with ExitStack() as undo:
        undo.callback(ledger.close)
        accounts = ledger.recorded()
        new = [name for name in policy.data if (name, "") not in accounts]
        unnamed = sorted({name for name, _ in accounts} - set(policy.data))
        if data and new and unnamed:
            warning = (
                "A budget is opened for %s. The ledger also has %s, which the policy does not name: if that is a new "
                "name for the same rows, what both reveal adds up"
            )
            log.warning(warning, ", ".join(new), ", ".join(unnamed))
        budgets = {(name, ""): data_set.budget for name, data_set in policy.data.items()}
        people = {(name, person.name): person for person in policy.analysts.values() for name in person.data}
        for (name, person), budget in [*budgets.items(), *((key, analyst.budget) for key, analyst in people.items())]:
            if name in new and not data:
                continue  # only `make_ledger` opens data sets: a renamed one would otherwise get a fresh budget
            if (name, person) not in accounts:
                # another process was quicker, or it is an analyst without a budget of their own
                with suppress(AccountExistsError):
                    if person:  # at once, or with their first charge
                        (ledger.add_analyst if data else ledger.grant)(person, data=name, budget=budget, actor=POLICY)
                    else:
                        ledger.create_data(name, budgets[name, ""], actor=POLICY)
            elif budget is not None:
                account, epsilon, delta = accounts[name, person], Fraction(budget.epsilon), Fraction(budget.delta)
                if epsilon > account.epsilon or delta > account.delta:
                    whose, option = (f"{person} on {name}", f" --analyst {person}") if person else (name, "")
                    raising = f"hush ledger raise {name}{option} --epsilon {decimal(epsilon)} --delta {decimal(delta)}"
                    warning = "The policy's budget for %s is larger than the ledger's, which holds; raise that with: %s"
                    log.warning(warning, whose, raising)
            if budget is not None:
                ledger.lower(name, person, epsilon=budget.epsilon, delta=budget.delta)
        for (name, person), analyst in people.items():
            if analyst.allowance is not None:
                ledger.allow(name, person, epsilon=analyst.allowance.epsilon, every=analyst.allowance.every)
            if analyst.ask_first is not None:
                ledger.ask_first(name, person, epsilon=analyst.ask_first)
        ledger.name_analysts(people)
        lacking = [name for name in names if name in new and not data]
        if lacking:
            raise LedgerMissingError(
                f"{policy.document.place(('data', lacking[0]))}: the ledger at {ledger.place} has no budget for "
                f"{', '.join(lacking)}, and asking opens none: rows whose budget is spent would have a fresh one under "
                "another name. The owner opens it: hush ledger open (in Python: hush.open(…, create=True))."
            )
        undo.pop_all()
    return ledger


_EPSILON = re.compile(r"""(epsilon[ \t]*=[ \t]*)("[^"]*"|'[^']*'|[0-9][0-9_.eE+-]*)""")


class PolicyEditError(HushError):
    """The policy's file cannot be changed safely, so nothing was decided."""


def decide_request(
    policy: Policy, path: str | Path, ledger: Ledger, number: int, *, approve: bool, actor: Actor, reason: str = ""
) -> bool:
    """Decide on a request; return whether the policy's file was changed and must be read again."""
    request = next((entry for entry in ledger.requests(actor) if entry.number == number), None)
    changed = False
    if approve and request is not None and request.state == "waiting" and request.wanted is not None:
        total, analyst = Fraction(request.wanted), policy.analysts.get(request.analyst)
        if analyst is None or analyst.budget is None:
            raise PolicyEditError(f"The policy gives {request.analyst} no budget of their own; decline the request.")
        if Fraction(analyst.budget.epsilon) < total:
            changed = bool(raised(_text(path), request.analyst, total))
            _keep_others(analyst, analyst.budget, request.data, ledger, actor)
    ledger.decide(number, approve=approve, actor=actor, reason=reason)
    if changed and request is not None and request.wanted is not None:
        # After the ledger: should this fail, the policy's smaller budget binds, and is safe. The file is read again,
        # because another owner may have changed something else in it meanwhile.
        replace_file(Path(path), raised(_text(path), request.analyst, Fraction(request.wanted)))
    return changed


def _keep_others(analyst: Analyst, budget: Budget, data: str, ledger: Ledger, actor: Actor) -> None:
    """Refuse to raise the analyst's budget on any data set but ``data``; the policy has one number for all.

    Accounts that are not open yet are opened as the policy is now. One that only the policy keeps smaller cannot stay.
    """
    accounts = {name: account for (name, person), account in ledger.recorded().items() if person == analyst.name}
    other_data = [name for name in analyst.data if name != data]
    for name in other_data:
        if name in accounts and accounts[name].epsilon > Fraction(budget.epsilon):
            raise PolicyEditError(
                f"The policy's number for {analyst.name} is also that on {name!r}, where the ledger holds more, so it "
                "would be raised there, too. Write the number by hand if it shall, then approve the request again."
            )
    for name in other_data:
        if name not in accounts:
            with suppress(AccountExistsError, UnknownAccountError):  # no budget of their own there, or no data set yet
                ledger.add_analyst(analyst.name, data=name, budget=budget, actor=actor)


def _text(path: str | Path) -> str:
    return Path(path).read_bytes().decode("utf-8")


def raised(text: str, analyst: str, epsilon: Fraction) -> str:
    """Return a policy's text in which an analyst's budget has a new ε, and nothing else is different."""
    expected: dict[str, Any] = tomllib.loads(text)
    expected["analysts"][analyst]["budget"]["epsilon"] = decimal(epsilon)
    lines, number = text.split("\n"), locate(text).get(("analysts", analyst, "budget", "epsilon"), 1)
    lines[number - 1] = _EPSILON.sub(lambda match: f'{match[1]}"{decimal(epsilon)}"', lines[number - 1], count=1)
    changed = "\n".join(lines)
    # Found by a pattern, so proven by the parser: only a text with this one difference is returned.
    if tomllib.loads(changed) == expected:
        return changed
    raise PolicyEditError(
        f'The budget of {analyst} cannot be found in the policy\'s file. Write epsilon = "{decimal(epsilon)}" there '
        "by hand, then approve the request again."
    )
