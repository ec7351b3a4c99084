"""``hush ledger …`` and ``hush requests``: the owner's commands for a ledger and for waiting requests."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from hush.cli.options import LedgerOptions, LedgerPlace, StoreOption, command, spread
from hush.cli.output import private_file, working
from hush.core import exact
from hush.core.format import decimal, visible
from hush.ledger import Budget, Ledger
from hush.ledger.backup import Lost
from hush.policy.file import Policy
from hush.policy.ledger import decide_request, make_ledger

ledger = typer.Typer(
    help="Open, raise, check, copy and restore the ledger: what owners do.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

EpsilonOption = Annotated[str, Option("--epsilon", metavar="ε", help="The budget's ε: a total, not an addition.")]
DeltaOption = Annotated[str | None, Option("--delta", metavar="δ", help="The budget's δ.")]
KindOption = Annotated[str, Option("--kind", help="auto, pure, renyi, zcdp or gdp: how losses add up. Fixed for ever.")]
ReasonOption = Annotated[str, Option("--reason", metavar="TEXT", help="Why; it is recorded.")]
_LOST = "What this copy does not show: nothing, an unknown amount (all budgets count as used up), or an ε."
LostOption = Annotated[str, Option("--lost", metavar="none|all|ε[,δ]", help=_LOST)]


@command(ledger, "open")
def open_(
    options: LedgerOptions,
    anew: Annotated[
        str,
        Option(
            "--new",
            metavar="REASON",
            help="Begin anew although a ledger was lost; why is recorded, the old budget is not.",
        ),
    ] = "",
) -> None:
    """Make a policy's ledger, if there is none, with its budgets; and check it.

    This is the one act that makes a ledger: no question does. The policy gets a line that names it, so that nothing is
    answered should it ever get lost. Where one was lost, put its newest copy back (hush ledger restore).
    """
    policy = options.policy_of_ledger()
    if policy is not None:
        book = make_ledger(policy, actor=options.actor, anchor=options.anchor, anew=anew)
    else:
        book = Ledger.open(options.place, anchor=options.anchor, create=options.actor, anew=anew)
    with book, working("checking every entry", quiet=options.as_json):
        report = book.verify()
    text = f"The ledger is open at {book.place}, with {report.entries} entries; anchor: {report.anchor}."
    options.tell(asdict(report), text)


@command(ledger, "add-data")
def add_data(
    name: Annotated[str, Argument(help="The data set's name.")],
    epsilon: EpsilonOption,
    delta: DeltaOption = None,
    kind: KindOption = "auto",
    *,
    options: LedgerOptions,
) -> None:
    """Add a data set with a budget for its whole life."""
    with options.opened() as book:
        book.create_data(name, _budget(epsilon, delta, kind), actor=options.actor)
    text = f"Added the data set {name} with ε = {epsilon}, δ = {delta or 0}."
    options.tell({"data": name, "epsilon": epsilon}, text)


@command(ledger, "add-analyst")
def add_analyst(
    name: Annotated[str, Argument(help="The analyst's name.")],
    data: Annotated[str, Option(metavar="NAME", help="The data set they may ask about.")],
    epsilon: Annotated[str | None, Option(metavar="ε", help="Their own ε; else the data set's binds.")] = None,
    delta: DeltaOption = None,
    kind: KindOption = "auto",
    *,
    options: LedgerOptions,
) -> None:
    """Let an analyst ask about a data set."""
    budget = None if epsilon is None else _budget(epsilon, delta, kind)
    with options.opened() as book:
        book.add_analyst(name, data=data, budget=budget, actor=options.actor)
    own = f"ε = {epsilon}, δ = {delta or 0}" if epsilon is not None else "no limit of their own"
    added = {"data": data, "analyst": name, "epsilon": epsilon}
    options.tell(added, f"{name} may ask about {data} with {own}.")


@command(ledger, "raise")
def raise_(
    data: Annotated[str, Argument(help="The data set.")],
    epsilon: EpsilonOption,
    of: Annotated[str | None, Option("--analyst", metavar="NAME", help="Raise this analyst's budget on it.")] = None,
    delta: DeltaOption = None,
    reason: ReasonOption = "",
    *,
    options: LedgerOptions,
) -> None:
    """Raise a budget to a new total. Earlier charges stay."""
    with options.opened() as book:
        book.raise_budget(data, of, epsilon=epsilon, delta=delta, actor=options.actor, reason=reason)
        holds = next(view for view in book.budget(options.actor) if (view.data, view.analyst) == (data, of))
    whose = f"{of}'s budget on {data}" if of else f"The budget of {data}"
    text = f"{whose} is now ε = {epsilon}."
    held = decimal(holds.epsilon)
    if holds.epsilon < exact(epsilon, "epsilon"):
        text += f" But {options.policy} says ε = {held}, and the smaller one holds: write the new one there too."
    options.tell({"data": data, "analyst": of, "epsilon": epsilon, "holds": held}, text)


@command(ledger, "verify")
def verify(options: LedgerPlace) -> None:
    """Check every entry: its hash, its price, the totals, the stored answers, and the anchor."""
    with working("checking every entry", quiet=options.as_json), options.opened() as book:
        report = book.verify()
    charges = f"{report.answered} answered, {report.failed} failed, {report.pending} pending"
    text = f"In order: {report.entries} entries, {report.charges} charges ({charges}), {report.accounts} budgets."
    options.tell(asdict(report), text, f"Head: {report.head}", f"Anchor: {report.anchor}")


@command(ledger, "acts")
def acts(options: LedgerOptions) -> None:
    """List the acts of owners: budgets opened and raised, copies restored."""
    with options.opened() as book:
        done = book.acts(options.actor)
    lines = [f"{act.number:>6}  {act.when[:19].replace('T', ' ')}  {act.by:<10}  {visible(str(act))}" for act in done]
    options.tell({"acts": [asdict(act) | {"text": str(act)} for act in done]}, "\n".join(lines))


@command(ledger, "export")
def export(
    file: Annotated[str, Argument(metavar="FILE", help="Where to write; - for standard output.")] = "-",
    *,
    options: LedgerOptions,
) -> None:
    """Write the whole ledger as lines of JSON: its budgets can be computed from them, and another ledger imported."""
    with options.opened() as book:
        if file == "-":
            book.export(sys.stdout, actor=options.actor)
            return
        with private_file(file, "x") as target, working("writing", quiet=options.as_json):
            count = book.export(target, actor=options.actor)
    options.tell({"entries": count, "file": file}, f"Wrote {count} entries to {file}.")


@command(ledger, "import")
def import_(
    file: Annotated[str, Argument(metavar="FILE", help="Lines written by hush ledger export.")],
    reason: ReasonOption,
    lost: LostOption,
    *,
    options: LedgerOptions,
) -> None:
    """Make a ledger from an export, at a place that has none. Recorded as an act of the owner."""
    with private_file(file, "r") as source, working("importing", quiet=options.as_json):
        book = Ledger.import_(
            source, options.place, actor=options.actor, reason=reason, lost=_lost(lost), anchor=options.anchor
        )
    with book, working("checking every entry", quiet=options.as_json):
        report = book.verify()
    options.tell(asdict(report), f"Imported: {report.entries} entries, {report.charges} charges.")


@command(ledger, "backup")
def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="Where to write; must not exist.")],
    people: StoreOption = None,
    *,
    options: LedgerOptions,
) -> None:
    """Write ledger, people and streams as they are at one moment to one file, while the service goes on.

    hush ledger restore --from FILE puts it back. The key of encrypted streams is not in it.
    """
    from hush.server.auth.people import People
    from hush.server.backup import backup as write
    from hush.server.settings import people_of

    store = People(people or people_of(options.policy))
    with closing(store), options.opened() as book, working("copying", quiet=options.as_json):
        made = write(Policy.read(options.policy), book, store, file, actor=options.actor)
    streams = sum(name.endswith(".stream") for name in made["parts"])
    text = f"Wrote {made['entries']} entries of the ledger, its people and {streams} streams to {file}."
    options.tell({"file": str(file), "entries": made["entries"], "streams": streams}, text)


@command(ledger, "restore")
def restore(
    reason: ReasonOption,
    lost: LostOption,
    source: Annotated[Path | None, Option("--from", metavar="FILE", help="A backup, to be put back whole.")] = None,
    people: StoreOption = None,
    *,
    options: LedgerOptions,
) -> None:
    """Accept a copy that its anchor does not vouch for. Recorded as an act of the owner.

    Put the newest copy in place first. Charges that the copy does not show were answered all the same: say with --lost
    how much they were, or "all" if nobody knows; budgets can be raised afterwards. With --from, ledger, people and
    streams of a backup are put where nothing lies; unless nothing was lost, streams that went on are ended.
    """
    how: dict[str, Any] = {"actor": options.actor, "reason": reason, "lost": _lost(lost), "anchor": options.anchor}
    if source is not None:
        from hush.server.backup import restore as put_back
        from hush.server.settings import people_of

        store = str(people or people_of(options.policy))
        with working("putting back, and checking every entry", quiet=options.as_json):
            restored = put_back(Policy.read(options.policy), store, source, **how)
        text = f"Restored {restored['entries']} entries, {restored['people']} people and {restored['streams']} streams"
        text += f" as of {restored['when']}; {restored['ended']} streams were ended."
        options.tell(restored, text)
        return
    book = Ledger.restore(options.place, **how)
    with book, working("checking every entry", quiet=options.as_json):
        report = book.verify()
    options.tell(asdict(report), f"Restored: {report.entries} entries; anchor: {report.anchor}.")


def _budget(epsilon: str, delta: str | None, kind: str) -> Budget:
    return Budget.parse({"epsilon": epsilon, "delta": delta or 0, "kind": kind})


def _lost(text: str) -> Lost:
    epsilon, comma, delta = text.partition(",")
    return (epsilon, delta) if comma else text


@spread
def requests(
    approve: Annotated[int | None, Option(metavar="NUMBER", help="Let this one be asked.")] = None,
    decline: Annotated[int | None, Option(metavar="NUMBER", help="Do not.")] = None,
    reason: ReasonOption = "",
    *,
    options: LedgerOptions,
) -> None:
    """List the requests to the owner, open and decided: questions above the ask_first of a policy, larger budgets.

    The owner approves or declines by number; both are recorded. An approved question may be asked once; an approved
    budget is raised in the ledger and in the policy. Nobody sees an answer here.

    Examples:

        hush requests --as alice
        hush requests --approve 12
        hush requests --decline 12 --reason "ask for counts by region instead"
    """
    who = options.actor
    with options.opened() as book:
        for number, approved in ((approve, True), (decline, False)):
            if number is None:
                continue
            how: dict[str, Any] = {"approve": approved, "actor": who, "reason": reason}
            if (policy := options.policy_of_ledger()) is not None:  # more budget is written into the policy, too
                decide_request(policy, options.policy, book, number, **how)
            else:
                book.decide(number, **how)
        waiting = book.requests(who)
    lines = [str(request) for request in waiting] or ["No question waits."]
    options.tell({"requests": [asdict(request) for request in waiting]}, *lines)
