"""``hush standing``: questions that are released again and again, each release at its date."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hush.cli.ask import writable
from hush.cli.options import POLICY, JsonOption, LedgerOptions, LedgerPlace, PolicyOption, actor, spread
from hush.cli.output import FormatOption, console, print_answer, print_json, the_format, warn, working
from hush.core import HushError, InvalidValueError
from hush.core.values import dataclass
from hush.ledger.shares import percent

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingWords:
    """A standing question in options, for one that is not in the policy."""

    sql: Annotated[str | None, typer.Option("--sql", metavar="SQL", help="The question, if the policy has it not.")] = (
        None
    )
    epsilon: Annotated[str | None, typer.Option("--epsilon", metavar="ε", help="What one release costs.")] = None
    total_epsilon: Annotated[
        str | None, typer.Option("--total-epsilon", metavar="ε", help="Instead: what all releases cost together.")
    ] = None
    rho: Annotated[str | None, typer.Option("--rho", metavar="ρ", help="Instead: what one release costs in zCDP.")] = (
        None
    )
    confidence: Annotated[str, typer.Option("--confidence", metavar="P", help="How often an error bar holds.")] = "0.95"
    every: Annotated[str | None, typer.Option("--every", metavar="STEP", help="day, week, month, 14 days, …")] = None
    first: Annotated[str | None, typer.Option("--first", metavar="DATE", help="The first date.")] = None
    releases: Annotated[int | None, typer.Option("--releases", metavar="N", help="How many releases.")] = None
    late: Annotated[str, typer.Option("--late", metavar="RULE", help="make a missed release late, or skip it.")] = (
        "make"
    )
    readers: Annotated[
        str, typer.Option("--readers", metavar="WHO", help="analysts, public, or names with commas between them.")
    ] = "analysts"
    data: Annotated[str | None, typer.Option("--data", metavar="NAME", help="Which data set.")] = None

    def chosen(self, policy: Policy, name: str | None) -> list[StandingQuestion]:
        """Return the standing questions that are meant: that of the options, one of the policy, or all of these."""
        from hush.query.errors import did_you_mean

        if self.sql is not None:
            return [self._question(policy, name, self.sql)]
        if name is None:
            return list(policy.standing.values())
        if name not in policy.standing:
            hint = did_you_mean(name, policy.standing, otherwise="Or say it here: --sql, --epsilon, --every, …")
            raise InvalidValueError("NAME", got=name, allowed="a [standing.NAME] of the policy", hint=hint)
        return [policy.standing[name]]

    def _question(self, policy: Policy, name: str | None, sql: str) -> StandingQuestion:
        from hush.ledger.schedules import Schedule
        from hush.ledger.standing import StandingQuestion
        from hush.policy.standing import unknown_reader

        needed = {"NAME": name, "--every": self.every, "--first": self.first, "--releases": self.releases}
        for option, value in needed.items():
            if value is None:
                raise InvalidValueError(option, got=None, allowed="given with --sql", hint="See hush standing --help.")
        data = self.data or (next(iter(policy.data)) if len(policy.data) == 1 else "")
        if data not in policy.data:
            raise InvalidValueError("--data", got=data, allowed=f"one of {', '.join(policy.data)}")
        if self.late not in {"make", "skip"}:
            raise InvalidValueError("--late", got=self.late, allowed="make or skip")
        readers = self.readers if self.readers in {"analysts", "public"} else tuple(self.readers.split(","))
        if (stranger := unknown_reader(readers, data, policy.analysts)) is not None:
            raise InvalidValueError("--readers", got=stranger, allowed=f"analysts of {data}, with commas between them")
        return StandingQuestion(
            name=name or "",
            data=data,
            question=sql,
            schedule=Schedule(first=self.first or "", every=self.every or "", slots=self.releases or 0),
            epsilon=self.epsilon,
            total_epsilon=self.total_epsilon,
            rho=self.rho,
            confidence=self.confidence,
            late=self.late == "make",
            readers=readers,
        )


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


@spread
def explain(
    name: SomeName = None, *, words: StandingWords, policy: PolicyOption = POLICY, as_json: JsonOption = False
) -> None:
    """Say what standing questions would cost."""
    with working("planning", quiet=as_json), _publishing(policy) as (read, publisher):
        found = [publisher.explain_standing(question) for question in words.chosen(read, name)]
    if as_json:
        print_json({"standing": [explained.to_json() for explained in found]})
        return
    for explained in found:
        console().print(f"{explained.question.name}: {explained}", markup=False, soft_wrap=True)
        console().print(explained.release)


@spread
def declare(
    name: SomeName = None, *, words: StandingWords, policy: PolicyOption = POLICY, as_json: JsonOption = False
) -> None:
    """Set aside what standing questions cost."""
    with working("planning", quiet=as_json), _publishing(policy) as (read, publisher):
        plans = [publisher.declare(question, actor=actor(None)) for question in words.chosen(read, name)]
    if as_json:
        print_json({"standing": [{"name": plan.question.name, "share": float(plan.share)} for plan in plans]})
        return
    for plan in plans:
        schedule, left = plan.question.schedule, plan.aside.left
        said = (
            f"{percent(plan.share)} of the budget of {plan.question.data} is set aside for {left} releases, every "
            f"{schedule.every} from {schedule.period(0)}"
        )
        if left < schedule.slots:
            state = "and has ended" if plan.aside.ended else f"with {left} of {schedule.slots} releases to come"
            said = f"it was declared on {plan.when[:10]}, {state}; nothing more is set aside"
        console().print(f"{plan.question.name}: {said}", markup=False, soft_wrap=True)


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


@spread
def listed(options: LedgerOptions, as_json: JsonOption = False) -> None:
    """List standing questions."""
    from hush.curator.standing import views

    analyst, policy = options.analyst, options.policy
    with options.opened() as book:
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


@spread
def show(
    name: NameArgument,
    period: Annotated[str, typer.Argument(metavar="DATE", help="Which release.")] = "latest",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Save as .csv, .json, .parquet.")
    ] = None,
    form: FormatOption = None,
    *,
    options: LedgerOptions,
    as_json: JsonOption = False,
) -> None:
    """Show a release: what was paid for can always be seen again."""
    from hush.curator.standing import published

    chosen = the_format(form, as_json=as_json)
    writable(output, "--output", (".csv", ".json", ".parquet"))
    analyst = options.analyst
    with options.opened() as book:
        answer = published(book, name, period, analyst, None if analyst is None else _data_of(options.policy))[2]
    print_answer(answer, chosen)
    if output is not None:
        answer.save(output)


@spread
def end(
    name: NameArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")] = "",
    *,
    place: LedgerPlace,
    as_json: JsonOption = False,
) -> None:
    """End a standing question."""
    with place.opened() as book:
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
