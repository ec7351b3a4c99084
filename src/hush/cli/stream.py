"""``hush stream``: releases that come again and again, declared by the owner or created by an analyst."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hush.cli.ask import question, writable
from hush.cli.options import AskerOptions, PolicyOptions, actor, command
from hush.cli.output import Format, FormatOption, print_answer, print_json, the_format, warn, working
from hush.cli.releases import ExplainOption
from hush.core import HushError, InvalidValueError
from hush.core.format import percent
from hush.curator.terms import TotalsTerms
from hush.report.columns import shown

if TYPE_CHECKING:
    from hush.curator.stream_states import StateFiles
    from hush.ledger.streams import StreamDeclaration
    from hush.policy.file import Policy

_HELP = """
Releases that come again and again. A stream pays in one of two ways.

An owner declares any question with its dates, as [streams.NAME] in the policy or with options. The price of all releases
is set aside of the data set's budget. Each is then made at its date, once: by hush serve, or by hush stream run.

An analyst creates running totals: a count or sum by day, charged once for its whole life. To advance it is free.

Examples:

    hush stream declare --explain
    hush stream declare weekly --sql "SELECT COUNT(*) AS n FROM visits" --epsilon 0.1 --every week --first 2026-11-16 --releases 12
    hush stream run
    hush stream show weekly 2026-11-23 --format csv
    hush stream create "SELECT day, COUNT(*) AS n FROM visits GROUP BY day" --name daily --horizon "10 years" --epsilon 1
    hush stream advance daily
    hush stream list
    hush stream stop weekly --reason "no longer needed"
"""  # noqa: E501 - a command is one line
NameArgument = Annotated[str, Argument(metavar="NAME", help="The stream's name.")]
SomeName = Annotated[str | None, Argument(metavar="NAME", help="Which one; all of the policy, if left out.")]


stream = typer.Typer(name="stream", help=_HELP, no_args_is_help=True, rich_markup_mode="markdown")


# declared streams


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationOptions:
    """A declaration in options, for a stream that is not in the policy."""

    sql: Annotated[str | None, Option(metavar="SQL", help="The question, if the policy lacks it.")] = None
    epsilon: Annotated[str | None, Option(metavar="ε", help="The price of one release.")] = None
    total_epsilon: Annotated[str | None, Option(metavar="ε", help="Instead: the price of all together.")] = None
    rho: Annotated[str | None, Option(metavar="ρ", help="Instead: the price of one in zCDP.")] = None
    confidence: Annotated[str, Option(metavar="P", help="How often an error bar holds.")] = "0.95"
    every: Annotated[str | None, Option(metavar="STEP", help="day, week, month, 14 days, …")] = None
    first: Annotated[str | None, Option(metavar="DATE", help="The first date.")] = None
    releases: Annotated[int | None, Option(metavar="N", help="How many releases.")] = None
    late: Annotated[str, Option(metavar="RULE", help="make a missed release late, or skip it.")] = "make"
    readers: Annotated[str, Option(metavar="WHO", help="analysts, public, or names with commas.")] = "analysts"
    data: Annotated[str | None, Option(metavar="NAME", help="Which data set.")] = None

    def chosen(self, policy: Policy, name: str | None) -> list[StreamDeclaration]:
        """Return the declaration in the options, or the one with this name in the policy, or all of the policy."""
        from hush.policy.streams import declared
        from hush.query.errors import did_you_mean

        if self.sql is None:
            if name is None:
                return list(policy.streams.values())
            if name not in policy.streams:
                hint = did_you_mean(name, policy.streams, otherwise="Or say it here: --sql, --epsilon, --every, …")
                raise InvalidValueError("NAME", got=name, allowed="a [streams.NAME] of the policy", hint=hint)
            return [policy.streams[name]]
        readers = self.readers if self.readers in {"analysts", "public"} else self.readers.split(",")
        return [declared(name or "", asdict(self) | {"readers": readers}, list(policy.data), policy.analysts)]


@command(stream, "declare")
def declare(
    name: SomeName = None, *, declaration: DeclarationOptions, explain: ExplainOption = False, options: PolicyOptions
) -> None:
    """Set aside the price of all releases, as the owner."""
    from hush.curator.opening import open_publisher

    with working("planning", quiet=options.as_json):
        policy, publisher = open_publisher(options.policy)
        with publisher:
            declarations = declaration.chosen(policy, name)
            if explain:
                explained = [publisher.explain(declared) for declared in declarations]
                parts: list[Any] = []
                for item in explained:
                    parts += [f"{item.declaration.name}: {item}", item.release]
                options.tell({"streams": [item.to_json() for item in explained]}, *parts)
                return
            streams = [publisher.declare(declared, actor=actor(None)) for declared in declarations]
    lines = []
    for stream in streams:
        schedule, left = stream.declaration.schedule, stream.aside.left
        text = (
            f"{percent(stream.share)} of the budget of {stream.declaration.data} is set aside for {left} releases, "
            f"every {schedule.every} from {schedule.period(0)}"
        )
        if left < schedule.slots:
            state = "and has ended" if stream.aside.ended else f"with {left} of {schedule.slots} releases to come"
            text = f"it was declared on {stream.when[:10]}, {state}; nothing more is set aside"
        lines.append(f"{stream.name}: {text}")
    shares = [{"name": stream.name, "share": float(stream.share)} for stream in streams]
    options.tell({"streams": shares}, *lines)


@command(stream, "run")
def run(name: SomeName = None, *, options: PolicyOptions) -> int:
    """Declare the streams of the policy, then make every release that is due, each once."""
    from hush.curator.declared_streams import declare_all, run_due
    from hush.curator.opening import open_publisher

    with working("releasing", quiet=options.as_json):
        policy, publisher = open_publisher(options.policy)
        with publisher:
            refused: dict[str, HushError] = declare_all(publisher, policy.streams.values())
            outcomes = run_due(publisher, only=name)
    made = [(stream, outcome) for stream, outcome in outcomes if not isinstance(outcome, HushError)]
    refused |= {stream: outcome for stream, outcome in outcomes if isinstance(outcome, HushError)}
    released = [
        {"name": stream, "period": period.period, "state": period.state, "receipt": period.receipt}
        for stream, period in made
    ]
    errors = {stream: {"code": error.code, "message": str(error)} for stream, error in refused.items()}
    lines = [f"{stream}/{period.period}: {period.state}, receipt {period.receipt}" for stream, period in made]
    options.tell({"released": released, "refused": errors}, *(lines or ["Nothing is due."]))
    for stream, error in () if options.as_json else refused.items():
        warn(f"{stream}: {error}")
    return max((error.exit_status for error in refused.values()), default=0)


# running totals


@command(stream, "create")
def create(
    terms: TotalsTerms,
    name: Annotated[str, Option("--name", metavar="NAME", help="What the stream is called.")] = "",
    *,
    explain: ExplainOption = False,
    asker: AskerOptions,
) -> None:
    """Create running totals, and pay for their whole life."""
    given = replace(terms, question=question(terms.question)).given()
    with working("planning and measuring", quiet=asker.as_json, pays=True), asker.opened() as curator:
        explained = curator.stream.explain(**given)
        if not explain:
            stream = curator.stream.create(name=name, **given)
            explained |= {"name": stream.name, "receipt": stream.receipt}
    lines = [f"{explained['periods']} periods at ε={explained['price']['epsilon']}"]
    lines += [f"  each {label}: ±{shown(error)} or less" for label, error in explained["errors"].items()]
    lines += [f"  note: {caveat}" for caveat in explained["caveats"]]
    asker.tell(explained, *lines)


@command(stream, "advance")
def advance(
    name: NameArgument,
    through: Annotated[str | None, Option(metavar="DATE", help="The last period to release.")] = None,
    *,
    asker: AskerOptions,
) -> None:
    """Release all periods that are over. Free, and never twice."""
    last = int(through) if through is not None and through.isdecimal() else through
    with working("releasing", quiet=asker.as_json), asker.opened() as curator:
        stream = curator.stream.open(name)
        before = stream.released
        released = stream.advance(last)
    content = {"name": name, "released": released, "new": released - before}
    asker.tell(content, f"{released - before} new periods, {released} altogether")


# all streams


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions(AskerOptions):
    """The reader: a named analyst; else the owner, with the running totals of the policy's only analyst."""

    def read(self) -> tuple[Policy, StateFiles, dict[str, tuple[str, ...]] | None]:
        """Return the policy, the analyst's running totals, and everybody's data sets, None for the owner."""
        from hush.curator.stream_states import StateFiles
        from hush.policy.file import Policy
        from hush.policy.ledger import streams_of

        policy = Policy.read(self.policy)
        only = next(iter(policy.analysts)) if len(policy.analysts) == 1 else None
        analyst = self.analyst if self.analyst is not None else only
        files = StateFiles(None if analyst is None else streams_of(policy, analyst), {})
        data_of = None if self.analyst is None else {name: who.data for name, who in policy.analysts.items()}
        return policy, files, data_of


@command(stream, "list")
def listed(reader: ReaderOptions) -> None:
    """List streams and how far they have come."""
    from hush.curator.declared_streams import declared_views
    from hush.curator.streams import own_views
    from hush.policy.ledger import open_ledger

    policy, files, data_of = reader.read()
    with open_ledger(policy) as ledger:
        views = own_views(files) + declared_views(ledger, reader.analyst, data_of)
    known = {view.name.casefold() for view in views if view.pays == "each release"}
    undeclared = [] if reader.analyst is not None else [name for name in policy.streams if name.casefold() not in known]
    lines = []
    for view in views:
        lines.append(str(view))
        for release in view.releases or ():
            if release.state not in {"planned", "ended"}:
                receipt = "" if release.receipt is None else f", receipt {release.receipt}"
                lines.append(f"  {release.period}: {release.state}{receipt}")
    lines += [f"{name}: in the policy, not declared yet; see hush stream declare" for name in undeclared]
    content = {"streams": [view.to_json() for view in views], "undeclared": undeclared}
    reader.tell(content, *(lines or ["There is no stream."]))


@command(stream, "show")
def show(
    name: NameArgument,
    period: Annotated[str, Argument(metavar="DATE", help="Which release of a declared stream.")] = "latest",
    output: Annotated[Path | None, Option(metavar="FILE", help="Save as .csv, .json, .parquet.")] = None,
    form: FormatOption = None,
    *,
    reader: ReaderOptions,
) -> None:
    """Show the released numbers."""
    from hush.curator.declared_streams import declared_release
    from hush.policy.ledger import open_ledger

    chosen = the_format(form, as_json=reader.as_json)
    writable(output, "--output", (".csv", ".json", ".parquet"))
    policy, files, data_of = reader.read()
    if name in files.names():
        with reader.opened() as curator:
            stream = curator.stream.open(name)
            answer, content = stream.answer, stream.to_json()
    else:
        with open_ledger(policy) as ledger:
            answer = declared_release(ledger, name, period, reader.analyst, data_of)[1]
            content = answer.to_json()
    if chosen is Format.JSON:
        print_json(content)
    else:
        print_answer(answer, chosen)
    if output is not None:
        answer.save(output)


@command(stream, "stop")
def stop(
    name: NameArgument,
    reason: Annotated[str, Option(metavar="TEXT", help="Why a declared stream is stopped.")] = "",
    *,
    reader: ReaderOptions,
) -> None:
    """Make no further release; the part still set aside is free again."""
    from hush.policy.ledger import open_ledger

    policy, files, _ = reader.read()
    left = 0
    if name in files.names():
        with reader.opened() as curator:
            curator.stream.open(name).stop()
    else:
        with open_ledger(policy) as ledger:
            left = ledger.streams.find(name).aside.left
            ledger.streams.stop(name, actor=actor(reader.analyst), reason=reason)
    free = f"; what was set aside for {left} releases is free again" if left else ""
    reader.tell({"name": name, "ended": True, "freed": left}, f"{name} has ended{free}")
