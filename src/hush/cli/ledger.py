"""``hush ledger …`` and ``hush requests``: what owners do with a ledger, and the questions that wait for them."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import IO, Annotated, Any

import typer

from hush.cli.options import JsonOption, LedgerOptions, LedgerPlace, spread
from hush.cli.output import console, print_json, working
from hush.core import InvalidValueError, exact
from hush.core.format import decimal, visible
from hush.curator.data_sets import read_policy
from hush.ledger import Budget, Ledger
from hush.ledger.restoring import Lost
from hush.policy import raising
from hush.policy.ledger import make_ledger

_app = typer.Typer(
    help="Open, raise, check, copy and restore the ledger: what owners do.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

EpsilonOption = Annotated[str, typer.Option("--epsilon", metavar="ε", help="The budget's ε: a total, not an addition.")]
DeltaOption = Annotated[str | None, typer.Option("--delta", metavar="δ", help="The budget's δ.")]
KindOption = Annotated[
    str, typer.Option("--kind", help="auto, pure, renyi, zcdp or gdp: how losses add up. Fixed for ever.")
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")]
LostOption = Annotated[
    str,
    typer.Option(
        "--lost",
        metavar="none|all|ε[,δ]",
        help="What this copy does not show: nothing, an unknown amount (all budgets count as used up), or an ε.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(_app, name="ledger")
    app.command("requests", help=_REQUESTS_HELP, short_help="Questions that wait for the owner.")(requests)


def _done(as_json: bool, text: str, **fields: Any) -> None:
    if as_json:
        print_json(fields)
    else:
        console().print(text, markup=False)


@_app.command("open")
@spread
def open_(
    options: LedgerOptions,
    anew: Annotated[
        str,
        typer.Option(
            "--new",
            metavar="REASON",
            help="Begin anew although a ledger was lost; why is recorded, the old budget is not.",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Make a policy's ledger, if there is none, with its budgets; and check it.

    This is the one act that makes a ledger: no question does. The policy gets a line that names it, so that nothing is
    answered should it ever get lost. Where one was lost, put its newest copy back (hush ledger restore).
    """
    if options.ledger is None and options.policy.exists():
        book = make_ledger(read_policy(options.policy), actor=options.actor, anchor=options.anchor, anew=anew)
    else:
        book = Ledger.open(options.place, anchor=options.anchor, create=options.actor, anew=anew)
    with book, working("checking every entry", quiet=as_json):
        report = book.verify()
    text = f"The ledger is open at {book.place}, with {report.entries} entries; anchor: {report.anchor}."
    _done(as_json, text, **asdict(report))


@_app.command("add-data")
@spread
def add_data(
    name: Annotated[str, typer.Argument(help="The data set's name.")],
    epsilon: EpsilonOption,
    delta: DeltaOption = None,
    kind: KindOption = "auto",
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """Add a data set with a budget for its whole life."""
    with options.opened() as book:
        book.create_data(name, _budget(epsilon, delta, kind), actor=options.actor)
    _done(as_json, f"Added the data set {name} with ε = {epsilon}, δ = {delta or 0}.", data=name, epsilon=epsilon)


@_app.command("add-analyst")
@spread
def add_analyst(
    name: Annotated[str, typer.Argument(help="The analyst's name.")],
    data: Annotated[str, typer.Option("--data", metavar="NAME", help="The data set they may ask about.")],
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", metavar="ε", help="Their own ε; without it the data set's budget binds.")
    ] = None,
    delta: DeltaOption = None,
    kind: KindOption = "auto",
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """Let an analyst ask about a data set."""
    budget = None if epsilon is None else _budget(epsilon, delta, kind)
    with options.opened() as book:
        book.add_analyst(name, data=data, budget=budget, actor=options.actor)
    own = f"ε = {epsilon}, δ = {delta or 0}" if epsilon is not None else "no limit of their own"
    _done(as_json, f"{name} may ask about {data} with {own}.", data=data, analyst=name, epsilon=epsilon)


@_app.command("raise")
@spread
def raise_(
    data: Annotated[str, typer.Argument(help="The data set.")],
    epsilon: EpsilonOption,
    of: Annotated[
        str | None, typer.Option("--analyst", metavar="NAME", help="Raise this analyst's budget on it.")
    ] = None,
    delta: DeltaOption = None,
    reason: ReasonOption = "",
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """Raise a budget to a new total. What was spent stays spent."""
    with options.opened() as book:
        book.raise_budget(data, of, epsilon=epsilon, delta=delta, actor=options.actor, reason=reason)
        holds = next(view for view in book.budget(options.actor) if (view.data, view.analyst) == (data, of))
    whose = f"{of}'s budget on {data}" if of else f"The budget of {data}"
    text = f"{whose} is now ε = {epsilon}."
    if holds.epsilon < exact(epsilon, "epsilon"):
        held = decimal(holds.epsilon)
        text += f" But {options.policy} says ε = {held}, and the smaller one holds: write the new one there too."
    _done(as_json, text, data=data, analyst=of, epsilon=epsilon, holds=decimal(holds.epsilon))


@_app.command("verify")
@spread
def verify(
    options: LedgerPlace,
    as_json: JsonOption = False,
) -> None:
    """Check every entry: its hash, its price, the totals, the stored answers, and the anchor."""
    with working("checking every entry", quiet=as_json), options.opened() as book:
        report = book.verify()
    _done(
        as_json,
        f"In order: {report.entries} entries, {report.charges} charges ({report.answered} answered, {report.failed} "
        f"failed, {report.pending} pending), {report.accounts} budgets.\nHead: {report.head}\nAnchor: {report.anchor}",
        **asdict(report),
    )


@_app.command("acts")
@spread
def acts(
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """List what owners did: budgets opened and raised, copies restored."""
    with options.opened() as book:
        found = book.acts(options.actor)
    lines = [f"{act.number:>6}  {act.when[:19].replace('T', ' ')}  {act.by:<10}  {visible(str(act))}" for act in found]
    _done(as_json, "\n".join(lines), acts=[asdict(act) | {"text": str(act)} for act in found])


@_app.command("export")
@spread
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; - for standard output.")] = "-",
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """Write everything as lines of JSON, which can be accounted for again and imported elsewhere."""
    with options.opened() as book:
        if file == "-":
            book.export(sys.stdout, actor=options.actor)
            return
        with _file(file, "x") as target, working("writing", quiet=as_json):
            count = book.export(target, actor=options.actor)
    _done(as_json, f"Wrote {count} entries to {file}.", entries=count, file=file)


@_app.command("import")
@spread
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Lines written by hush ledger export.")],
    reason: ReasonOption,
    lost: LostOption,
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """Make a ledger from an export, at a place that has none. Recorded as an act of the owner."""
    with _file(file, "r") as source, working("importing", quiet=as_json):
        book = Ledger.import_(
            source, options.place, actor=options.actor, reason=reason, lost=_lost(lost), anchor=options.anchor
        )
    with book, working("checking every entry", quiet=as_json):
        report = book.verify()
    _done(as_json, f"Imported: {report.entries} entries, {report.charges} charges.", **asdict(report))


@_app.command("restore")
@spread
def restore(
    reason: ReasonOption,
    lost: LostOption,
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """Accept a copy that its anchor does not vouch for. Recorded as an act of the owner.

    Put the newest copy in place first. Charges that the copy does not show were answered all the same: say with --lost
    how much they were, or "all" if nobody knows; budgets can be raised afterwards.
    """
    book = Ledger.restore(options.place, actor=options.actor, reason=reason, lost=_lost(lost), anchor=options.anchor)
    with book, working("checking every entry", quiet=as_json):
        report = book.verify()
    _done(as_json, f"Restored: {report.entries} entries; anchor: {report.anchor}.", **asdict(report))


def _budget(epsilon: str, delta: str | None, kind: str) -> Budget:
    return Budget.parse({"epsilon": epsilon, "delta": delta or 0, "kind": kind})


def _lost(text: str) -> Lost:
    epsilon, comma, delta = text.partition(",")
    return (epsilon, delta) if comma else text


def _private(path: str, flags: int) -> int:
    """Open a file that, if it is new, nobody but its owner can read: an export holds all that the ledger does."""
    return os.open(path, flags, 0o600)


def _file(name: str, mode: str) -> IO[str]:
    try:
        return open(name, mode, encoding="utf-8", opener=_private)
    except OSError as error:
        allowed = "a new file that can be written" if mode == "x" else "a readable file"
        raise InvalidValueError("FILE", got=name, allowed=allowed, hint=f"{error.strerror}.") from error


_REQUESTS_HELP = """
List what waits, or waited, for the owner: questions above the ask_first of a policy, and larger budgets. The owner
approves or declines by number; both are recorded. An approved question may be asked once; an approved budget is raised
in the ledger and in the policy. Nobody sees an answer here.

Examples:

    hush requests
    hush requests --as alice
    hush requests --approve 12
    hush requests --decline 12 --reason "ask for counts by region instead"
"""


@spread
def requests(
    approve: Annotated[int | None, typer.Option("--approve", metavar="NUMBER", help="Let this one be asked.")] = None,
    decline: Annotated[int | None, typer.Option("--decline", metavar="NUMBER", help="Do not.")] = None,
    reason: ReasonOption = "",
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """List requests, and decide on them."""
    who = options.actor
    with options.opened() as book:
        for number, approved in ((approve, True), (decline, False)):
            if number is None:
                continue
            how: dict[str, Any] = {"approve": approved, "actor": who, "reason": reason}
            if options.ledger is None and options.policy.exists():  # more budget is written into the policy, too
                raising.decide(read_policy(options.policy), options.policy, book, number, **how)
            else:
                book.decide(number, **how)
        found = book.requests(who)
    if as_json:
        print_json({"requests": [asdict(request) for request in found]})
        return
    for request in found:
        console().print(str(request), markup=False, soft_wrap=True)
    if not found:
        console().print("No question waits.", markup=False)
