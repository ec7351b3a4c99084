"""``hush standing``: questions that are released again and again, each release at its date."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hush.cli.ask import writable
from hush.cli.options import POLICY, AnchorOption, AsOption, JsonOption, LedgerOption, PolicyOption, actor, opened
from hush.cli.output import FormatOption, console, print_answer, print_json, the_format, warn, working
from hush.core import HushError, InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hush.curator.publishing import Publisher
    from hush.ledger.standing import StandingQuestion
    from hush.policy.file import Policy

_HELP = """
Questions that are released again and again, at dates that are known beforehand.

A standing question stands in the policy as [standing.NAME], or is declared with options. Declaring sets aside the price
of all its releases of the data set's budget, as one plan. Each release is then charged and made at its date, once: by
hush serve, or by hush standing run, for instance every hour from cron. Ending one frees what is still set aside. The
budgets of those who read are not charged.

Examples:

    hush standing explain
    hush standing declare
    hush standing declare weekly --sql "SELECT COUNT(*) AS n FROM visits" --epsilon 0.1 --every week --first 2026-11-16 --releases 12
    hush standing run
    hush standing list
    hush standing show weekly 2026-11-23 --format csv
    hush standing end weekly --reason "no longer needed"
"""  # noqa: E501 - a command is one line
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The standing question's name.")]
SomeName = Annotated[str | None, typer.Argument(metavar="NAME", help="Which one; all of the policy, if left out.")]
SqlOption = Annotated[str | None, typer.Option("--sql", metavar="SQL", help="The question, if the policy has it not.")]
EpsilonOption = Annotated[str | None, typer.Option("--epsilon", metavar="ε", help="What one release costs.")]
TotalOption = Annotated[
    str | None, typer.Option("--total-epsilon", metavar="ε", help="Instead: what all releases cost together.")
]
RhoOption = Annotated[str | None, typer.Option("--rho", metavar="ρ", help="Instead: what one release costs in zCDP.")]
ConfidenceOption = Annotated[str, typer.Option("--confidence", metavar="P", help="How often an error bar holds.")]
EveryOption = Annotated[str | None, typer.Option("--every", metavar="STEP", help="day, week, month, 14 days, …")]
FirstOption = Annotated[str | None, typer.Option("--first", metavar="DATE", help="The first date.")]
ReleasesOption = Annotated[int | None, typer.Option("--releases", metavar="N", help="How many releases.")]
LateOption = Annotated[str, typer.Option("--late", metavar="RULE", help="make a missed release late, or skip it.")]
ReadersOption = Annotated[
    str, typer.Option("--readers", metavar="WHO", help="analysts, public, or names with commas between them.")
]
DataOption = Annotated[str | None, typer.Option("--data", metavar="NAME", help="Which data set.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    group.command("explain", help="What a standing question would cost. Sets nothing aside.")(explain)
    group.command("declare", help="Set aside the price of all releases.")(declare)
    group.command("run", help="Make every release that is due, each once; declare first what the policy names.")(run)
    group.command("list", help="List standing questions and how far they have come.")(listed)
    group.command("show", help="Show a release.")(show)
    group.command("end", help="Make no further release, and free what is set aside for them.")(end)
    app.add_typer(group, name="standing", help=_HELP, short_help="Questions released again and again.")


@contextmanager
def _publishing(policy: Path) -> Iterator[tuple[Policy, Publisher]]:
    from hush.curator.opening import open_publisher

    read, publisher = open_publisher(policy)
    with publisher:
        yield read, publisher


def _chosen(policy: Policy, name: str | None, options: Mapping[str, Any]) -> list[StandingQuestion]:
    """Return the standing questions that are meant: one of the options, one of the policy, or all of the policy."""
    from hush.ledger.schedules import Schedule
    from hush.ledger.standing import StandingQuestion
    from hush.policy.standing import unknown_reader
    from hush.query.errors import did_you_mean

    if options["sql"] is None:
        if name is None:
            return list(policy.standing.values())
        if name not in policy.standing:
            hint = did_you_mean(name, policy.standing, otherwise="Or say it here: --sql, --epsilon, --every, …")
            raise InvalidValueError("NAME", got=name, allowed="a [standing.NAME] of the policy", hint=hint)
        return [policy.standing[name]]
    for needed in ("every", "first", "releases"):
        if name is None or options[needed] is None:
            what = "NAME" if name is None else f"--{needed}"
            raise InvalidValueError(what, got=None, allowed="given with --sql", hint="See hush standing --help.")
    assert name is not None  # noqa: S101 - checked
    data = str(options["data"] or (next(iter(policy.data)) if len(policy.data) == 1 else ""))
    if data not in policy.data:
        raise InvalidValueError("--data", got=data, allowed=f"one of {', '.join(policy.data)}")
    if options["late"] not in {"make", "skip"}:
        raise InvalidValueError("--late", got=options["late"], allowed="make or skip")
    readers = options["readers"] if options["readers"] in {"analysts", "public"} else options["readers"].split(",")
    if (stranger := unknown_reader(readers, data, policy.analysts)) is not None:
        raise InvalidValueError("--readers", got=stranger, allowed=f"analysts of {data}, with commas between them")
    return [
        StandingQuestion(
            name=name,
            data=data,
            question=options["sql"],
            schedule=Schedule(first=options["first"], every=options["every"], slots=options["releases"]),
            epsilon=options["epsilon"],
            total_epsilon=options["total_epsilon"],
            rho=options["rho"],
            confidence=options["confidence"],
            late=options["late"] == "make",
            readers=readers if isinstance(readers, str) else tuple(readers),
        )
    ]


def explain(
    name: SomeName = None,
    sql: SqlOption = None,
    epsilon: EpsilonOption = None,
    total_epsilon: TotalOption = None,
    rho: RhoOption = None,
    confidence: ConfidenceOption = "0.95",
    every: EveryOption = None,
    first: FirstOption = None,
    releases: ReleasesOption = None,
    late: LateOption = "make",
    readers: ReadersOption = "analysts",
    data: DataOption = None,
    policy: PolicyOption = POLICY,
    as_json: JsonOption = False,
) -> None:
    """Say what standing questions would cost."""
    options = {**locals()}
    with working("planning", quiet=as_json), _publishing(policy) as (read, publisher):
        found = [publisher.explain_standing(question) for question in _chosen(read, name, options)]
    if as_json:
        print_json({"standing": [explained.to_json() for explained in found]})
        return
    for explained in found:
        console().print(f"{explained.question.name}: {explained}", markup=False, soft_wrap=True)
        console().print(explained.release)


def declare(
    name: SomeName = None,
    sql: SqlOption = None,
    epsilon: EpsilonOption = None,
    total_epsilon: TotalOption = None,
    rho: RhoOption = None,
    confidence: ConfidenceOption = "0.95",
    every: EveryOption = None,
    first: FirstOption = None,
    releases: ReleasesOption = None,
    late: LateOption = "make",
    readers: ReadersOption = "analysts",
    data: DataOption = None,
    policy: PolicyOption = POLICY,
    as_json: JsonOption = False,
) -> None:
    """Set aside what standing questions cost."""
    options = {**locals()}
    declared = []
    with working("planning", quiet=as_json), _publishing(policy) as (read, publisher):
        for question in _chosen(read, name, options):
            plan = publisher.declare(question, actor=actor(None))
            declared.append((plan, float(plan.share)))
    if as_json:
        print_json({"standing": [{"name": plan.question.name, "share": share} for plan, share in declared]})
        return
    for plan, share in declared:
        schedule = plan.question.schedule
        console().print(
            f"{plan.question.name}: {share:.3%} of the budget of {plan.question.data} is set aside for "
            f"{plan.aside.left} releases, every {schedule.every} from {schedule.period(0)}",
            markup=False,
            soft_wrap=True,
        )


def run(name: SomeName = None, policy: PolicyOption = POLICY, as_json: JsonOption = False) -> int:
    """Make what is due."""
    from hush.curator.publishing import declare_all, run_due

    with working("releasing", quiet=as_json), _publishing(policy) as (read, publisher):
        refused: dict[str, HushError] = declare_all(publisher, read.standing.values())
        done = run_due(publisher, only=name)
    made = [(which, outcome) for which, outcome in done if not isinstance(outcome, HushError)]
    refused |= {which: outcome for which, outcome in done if isinstance(outcome, HushError)}
    if as_json:
        print_json(
            {
                "released": [
                    {"name": which, "period": release.period, "state": release.state, "receipt": release.receipt}
                    for which, release in made
                ],
                "refused": {which: {"code": error.code, "message": str(error)} for which, error in refused.items()},
            }
        )
    else:
        for which, release in made:
            console().print(f"{which}/{release.period}: {release.state}, receipt {release.receipt}", markup=False)
        if not made:
            console().print("Nothing is due.", markup=False)
        for which, error in refused.items():
            warn(f"{which}: {error}")
    return max((error.exit_status for error in refused.values()), default=0)


def listed(
    ledger: LedgerOption = None,
    policy: PolicyOption = POLICY,
    anchor: AnchorOption = None,
    analyst: AsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List standing questions."""
    from hush.curator.standing import views

    with opened(ledger, policy, anchor) as book:
        found = views(book, analyst, None if analyst is None else _data_of(policy))
        known = {view.name.casefold() for view in found}
    undeclared = [] if analyst is not None else [name for name in _named(policy) if name.casefold() not in known]
    if as_json:
        print_json({"standing": [view.to_json() for view in found], "undeclared": undeclared})
        return
    for view in found:
        console().print(str(view), markup=False, soft_wrap=True)
        for release in view.releases:
            if release.state not in {"planned", "ended"}:
                receipt = "" if release.receipt is None else f", receipt {release.receipt}"
                console().print(f"  {release.period}: {release.state}{receipt}", markup=False)
    for name in undeclared:
        console().print(f"{name}: in the policy, not declared yet; see hush standing declare", markup=False)
    if not found and not undeclared:
        console().print("There is no standing question.", markup=False)


def show(
    name: NameArgument,
    period: Annotated[str, typer.Argument(metavar="DATE", help="Which release.")] = "latest",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Save as .csv, .json, .parquet.")
    ] = None,
    form: FormatOption = None,
    ledger: LedgerOption = None,
    policy: PolicyOption = POLICY,
    anchor: AnchorOption = None,
    analyst: AsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a release: what was paid for can always be seen again."""
    from hush.curator.standing import published

    chosen = the_format(form, as_json=as_json)
    writable(output, "--output", (".csv", ".json", ".parquet"))
    with opened(ledger, policy, anchor) as book:
        data_of = None if analyst is None else _data_of(policy)
        answer = published(book, name, period, analyst, data_of)[2]
    print_answer(answer, chosen)
    if output is not None:
        answer.save(output)


def end(
    name: NameArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")] = "",
    ledger: LedgerOption = None,
    policy: PolicyOption = POLICY,
    anchor: AnchorOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a standing question."""
    with opened(ledger, policy, anchor) as book:
        left = book.standing.find(name).aside.left
        book.standing.end(name, actor=actor(None), reason=reason)
    if as_json:
        print_json({"name": name, "ended": True, "freed": left})
    else:
        console().print(f"{name} has ended; what was set aside for {left} releases is free again", markup=False)


def _data_of(policy: Path) -> dict[str, tuple[str, ...]]:
    """Return the data sets of each analyst of a policy."""
    from hush.curator.data_sets import read_policy

    return {name: person.data for name, person in read_policy(policy).analysts.items()}


def _named(policy: Path) -> list[str]:
    """Return what a policy names, if there is one."""
    from hush.curator.data_sets import read_policy

    return list(read_policy(policy).standing) if policy.exists() else []
