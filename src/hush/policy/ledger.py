"""A policy's ledger: its place, its identity, and its creation.

A ledger that was lost must never become a fresh budget, so no question makes one. The owner makes it once, with ``hush
ledger open`` or ``hush.open(…, create=True)``. That writes the ledger's id into the policy::

    ledger_id = "3f0c…"

From then on this ledger and no other one will do, whatever path leads to the policy, wherever both were moved to and in
whose home the anchors are (:mod:`hush.ledger.chain` says what anchors notice by themselves):

=========== ================== ==========================================================================
the ledger  the policy's id    what happens
=========== ================== ==========================================================================
is there    the same, or none  it is opened, and compared with its anchor. ``hush ledger open`` adds the id
is there    another            refused: it was exchanged, or the policy is a copy that belongs to another
is not      none               questions are explained but not answered. ``hush ledger open`` makes one,
                               unless an anchor knows that one was here
is not      one                refused: it was lost, or the policy was copied or moved without it. Only
                               ``hush ledger open --new REASON`` begins anew, which the new ledger records
=========== ================== ==========================================================================

Nor does a question open the budget of a data set: under another name in the policy, spent rows would have a fresh one.
``hush ledger open`` does, and says which data sets of the ledger the policy names no longer.

Of a policy and its ledger that were copied together, both go on until the anchor sees the second history, which is
refused: there is one anchor for one id.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from hush.core import HushError
from hush.core.format import decimal
from hush.ledger import AccountExistsError, AccountView, Actor, Ledger, LedgerMissingError, LedgerRolledBackError
from hush.policy.file import Policy, PolicyBudget

log = logging.getLogger("hush.curator")
POLICY = Actor.owner("policy")
"""The actor that opens the accounts of a policy."""

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


def open_ledger(policy: Policy, *, anchor: str | None = None) -> Ledger:
    """Open a policy's ledger, which must be there.

    Nothing is opened by looking: accounts of analysts that the ledger lacks are opened by their first charge, and shown
    as new until then; those of data sets only by `make_ledger`. Of an account that is there already, the smaller of the
    ledger's budget and the policy's holds: an owner lowers a budget by writing a smaller one into the policy, and
    raises it with ``hush ledger raise``, which leaves a trace. A larger one in the policy alone changes nothing, and is
    warned of.
    """
    return _with_accounts(_opened(policy, anchor), policy)


def check_data(policy: Policy, ledger: Ledger, names: Iterable[str]) -> None:
    """Refuse data sets that the ledger has no budget for."""
    data_sets = {view.data for view in ledger.budget(POLICY)}
    lacking = [name for name in names if name not in data_sets]
    if lacking:
        raise LedgerMissingError(
            f"{policy.document.place(('data', lacking[0]))}: the ledger at {ledger.place} has no budget for "
            f"{', '.join(lacking)}, and asking opens none: rows whose budget is spent would have a fresh one under "
            "another name. The owner opens it: hush ledger open (in Python: hush.open(…, create=True))."
        )


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
    file = policy.document.file
    if policy.ledger_id != ledger.id and not name_ledger(file, ledger.id):
        log.warning(
            "The policy %s could not be changed; add this line at its top: ledger_id = %r",
            policy.document.file,
            ledger.id,
        )
    return ledger


def rehearsed(policy: Policy) -> Ledger:
    """Return a ledger with the policy's accounts that lives and dies with this process."""
    return _with_accounts(Ledger.in_memory(), policy, data=True)


def ledger_or_stand_in(policy: Policy, names: Iterable[str], *, create: bool = False) -> tuple[Ledger, bool]:
    """Return a policy's ledger, and whether it is there; if not, one that stands for it and charges nothing."""
    try:
        ledger = make_ledger(policy) if create else open_ledger(policy)
        try:
            check_data(policy, ledger, names)
        except BaseException:
            ledger.close()
            raise
    except LedgerMissingError as error:
        ledger = rehearsed(policy)
        ledger.refuse(str(error))
        return ledger, False
    return ledger, True


def check_identity(policy: Policy, ledger: Ledger) -> None:
    """Refuse a ledger that is not the one which the policy names."""
    if policy.ledger_id is not None and policy.ledger_id != ledger.id:
        raise LedgerRolledBackError(
            f"{policy.document.place(('ledger_id',))}: the policy's ledger is {policy.ledger_id}, but at "
            f"{ledger.place} lies {ledger.id}. It was exchanged, or the policy belongs to another ledger. No budget is "
            "given out. Put the right one in its place; if this one is right, write its id into the policy."
        )


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
    except LedgerMissingError:
        if policy.ledger_id is None:
            raise
        raise LedgerRolledBackError(
            f"{policy.document.place(('ledger_id',))}: the policy's ledger is {policy.ledger_id}, but at "
            f"{ledger_of(policy)} there is none. It was lost, or the policy was moved or copied without it. No budget "
            "is given out. Put the newest copy in its place; to begin anew on purpose: hush ledger open --new REASON, "
            "which is recorded."
        ) from None
    try:
        check_identity(policy, ledger)
    except HushError:
        ledger.close()
        raise
    return ledger


def _with_accounts(ledger: Ledger, policy: Policy, *, data: bool = False) -> Ledger:
    """Open the accounts that a policy names and its ledger lacks; those of data sets only where ``data`` says so."""
    try:
        _open_accounts(ledger, policy, data=data)
    except BaseException:
        ledger.close()
        raise
    return ledger


def _open_accounts(ledger: Ledger, policy: Policy, *, data: bool) -> None:
    accounts = {(view.data, view.analyst): view for view in ledger.budget(POLICY)}
    new = [name for name in policy.data if (name, None) not in accounts]
    unnamed = sorted({name for name, _ in accounts} - set(policy.data))
    if data and new and unnamed:
        log.warning(
            "A budget is opened for %s. The ledger also has %s, which the policy does not name: if that is a new name "
            "for the same rows, what both reveal adds up",
            ", ".join(new),
            ", ".join(unnamed),
        )
    budgets: dict[tuple[str, str | None], PolicyBudget | None] = {
        (name, None): data_set.budget for name, data_set in policy.data.items()
    }
    budgets |= {(name, person.name): person.budget for person in policy.analysts.values() for name in person.data}
    for (name, person), budget in budgets.items():
        if name in new and not data:
            continue  # only `make_ledger` opens data sets: a renamed one would otherwise get a fresh budget
        if (name, person) not in accounts:
            _open_account(ledger, name, person, budget, at_once=data)
        elif budget is not None:
            _warn_of_larger(accounts[name, person], budget)
        if budget is not None:
            ledger.lower(name, person, epsilon=budget.epsilon, delta=budget.delta)
    for analyst in policy.analysts.values():
        for name in analyst.data:
            if analyst.allowance is not None:
                ledger.allow(name, analyst.name, epsilon=analyst.allowance.epsilon, every=analyst.allowance.every)
            if analyst.ask_first is not None:
                ledger.ask_first(name, analyst.name, epsilon=analyst.ask_first)
    ledger.name_analysts((name, person) for name, person in budgets if person is not None)


def _open_account(ledger: Ledger, name: str, person: str | None, budget: PolicyBudget | None, *, at_once: bool) -> None:
    """Open an account that a policy names: at once, or an analyst's with their first charge."""
    with suppress(AccountExistsError):  # another process was quicker, or an analyst without a budget of their own
        if person is None:
            if budget is not None:
                ledger.create_data(name, _budget(budget), actor=POLICY)
        elif at_once:
            ledger.add_analyst(person, data=name, budget=None if budget is None else _budget(budget), actor=POLICY)
        else:
            ledger.grant(person, data=name, budget=None if budget is None else _budget(budget), actor=POLICY)


def _warn_of_larger(view: AccountView, budget: PolicyBudget) -> None:
    """Warn of a budget that is larger in the policy than in the ledger, which holds."""
    if budget.epsilon <= view.epsilon and budget.delta <= view.delta:
        return
    log.warning(
        "The policy's budget for %s is larger than the ledger's, which holds; raise that with: "
        "hush ledger raise %s%s --epsilon %s --delta %s",
        view.data if view.analyst is None else f"{view.analyst} on {view.data}",
        view.data,
        "" if view.analyst is None else f" --analyst {view.analyst}",
        decimal(budget.epsilon),
        decimal(budget.delta),
    )


def _budget(budget: PolicyBudget) -> dict[str, Fraction]:
    return {"epsilon": budget.epsilon, "delta": budget.delta}
