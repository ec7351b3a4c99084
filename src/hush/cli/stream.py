"""``hush stream``: releases that come again and again, declared by the owner or created by an analyst."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hush.cli.ask import AskerOptions, DataOption, EpsilonOption, QueryArgument, question, writable
from hush.cli.options import POLICY, JsonOption, PolicyOption, actor, command
from hush.cli.output import Format, FormatOption, print_answer, print_json, tell, the_format, warn, working
from hush.cli.releases import ExplainOption, MaxRowsOption
from hush.core import HushError, InvalidValueError
from hush.core.format import percent
from hush.report.columns import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hush.curator.declared_streams import Publisher
    from hush.curator.streams import StateFiles
    from hush.ledger import Ledger
    from hush.ledger.streams import StreamDeclaration
    from hush.policy.file import Policy

_HELP = """
Releases that come again and again. A stream pays in one of two ways.

An owner declares any question with its dates, as [streams.NAME] in the policy or with options. The price of all releases
is set aside of the data set's budget, as one plan. Each release is then charged and made at its date, once: by hush
serve, or by hush stream run, for instance every hour from cron. The budgets of those who read are not charged.

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
    total_epsilon: Annotated[str | None, Option(metavar="ε", help="Instead: the price of all releases together.")] = (
        None
    )
    rho: Annotated[str | None, Option(metavar="ρ", help="Instead: the price of one in zCDP.")] = None
    confidence: Annotated[str, Option(metavar="P", help="How often an error bar holds.")] = "0.95"
    every: Annotated[str | None, Option(metavar="STEP", help="day, week, month, 14 days, …")] = None
    first: Annotated[str | None, Option(metavar="DATE", help="The first date.")] = None
    releases: Annotated[int | None, Option(metavar="N", help="How many releases.")] = None
    late: Annotated[str, Option(metavar="RULE", help="make a missed release late, or skip it.")] = "make"
    readers: Annotated[str, Option(metavar="WHO", help="analysts, public, or names with commas between them.")] = (
        "analysts"
    )
    data: Annotated[str | None, Option(metavar="NAME", help="Which data set.")] = None

    def chosen(self, policy: Policy, name: str | None) -> list[StreamDeclaration]:
        """Return the declaration in the options, or the one with this name in the policy, or all of the policy."""
        from hush.query.errors import did_you_mean

        if self.sql is not None:
            return [self._declaration(policy, name, self.sql)]
        if name is None:
            return list(policy.streams.values())
        if name not in policy.streams:
            hint = did_you_mean(name, policy.streams, otherwise="Or say it here: --sql, --epsilon, --every, …")
            raise InvalidValueError("NAME", got=name, allowed="a [streams.NAME] of the policy", hint=hint)
        return [policy.streams[name]]

    def _declaration(self, policy: Policy, name: str | None, sql: str) -> StreamDeclaration:
        from hush.ledger.streams import Schedule, StreamDeclaration
        from hush.policy.streams import unknown_reader

        needed = {"NAME": name, "--every": self.every, "--first": self.first, "--releases": self.releases}
        for option, value in needed.items():
            if value is None:
                raise InvalidValueError(option, got=None, allowed="given with --sql", hint="See hush stream --help.")
        data = self.data or (next(iter(policy.data)) if len(policy.data) == 1 else "")
        if data not in policy.data:
            raise InvalidValueError("--data", got=data, allowed=f"one of {', '.join(policy.data)}")
        if self.late not in {"make", "skip"}:
            raise InvalidValueError("--late", got=self.late, allowed="make or skip")
        readers = self.readers if self.readers in {"analysts", "public"} else tuple(self.readers.split(","))
        if (stranger := unknown_reader(readers, data, policy.analysts)) is not None:
            raise InvalidValueError("--readers", got=stranger, allowed=f"analysts of {data}, with commas between them")
        return StreamDeclaration(
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


@contextmanager
def _publishing(policy: Path) -> Iterator[tuple[Policy, Publisher]]:
    from hush.curator.opening import open_publisher

    read, publisher = open_publisher(policy)
    with publisher:
        yield read, publisher


@command(stream, "declare")
def declare(
    name: SomeName = None,
    *,
    options: DeclarationOptions,
    explain: ExplainOption = False,
    policy: PolicyOption = POLICY,
    as_json: JsonOption = False,
) -> None:
    """Set aside the price of all releases, as the owner."""
    with working("planning", quiet=as_json), _publishing(policy) as (read, publisher):
        declarations = options.chosen(read, name)
        if explain:
            explained = [publisher.explain(declaration) for declaration in declarations]
        else:
            streams = [publisher.declare(declaration, actor=actor(None)) for declaration in declarations]
    if explain:
        told: list[Any] = [part for item in explained for part in (f"{item.declaration.name}: {item}", item.release)]
        tell({"streams": [item.to_json() for item in explained]}, *told, as_json=as_json)
        return
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
    tell({"streams": shares}, *lines, as_json=as_json)


@command(stream, "run")
def run(name: SomeName = None, policy: PolicyOption = POLICY, as_json: JsonOption = False) -> int:
    """Declare the streams of the policy, then make every release that is due, each once."""
    from hush.curator.declared_streams import declare_all, run_due

    with working("releasing", quiet=as_json), _publishing(policy) as (read, publisher):
        refused: dict[str, HushError] = declare_all(publisher, read.streams.values())
        outcomes = run_due(publisher, only=name)
    made = [(stream, outcome) for stream, outcome in outcomes if not isinstance(outcome, HushError)]
    refused |= {stream: outcome for stream, outcome in outcomes if isinstance(outcome, HushError)}
    released = [
        {"name": stream, "period": period.period, "state": period.state, "receipt": period.receipt}
        for stream, period in made
    ]
    errors = {stream: {"code": error.code, "message": str(error)} for stream, error in refused.items()}
    lines = [f"{stream}/{period.period}: {period.state}, receipt {period.receipt}" for stream, period in made]
    tell({"released": released, "refused": errors}, *(lines or ["Nothing is due."]), as_json=as_json)
    for stream, error in () if as_json else refused.items():
        warn(f"{stream}: {error}")
    return max((error.exit_status for error in refused.values()), default=0)


# running totals


@command(stream, "create")
def create(
    query: QueryArgument = "-",
    name: Annotated[str, Option(metavar="NAME", help="What the stream is called.")] = "",
    horizon: Annotated[str, Option(metavar="LENGTH", help="How long, such as '10 years'.")] = "",
    epsilon: EpsilonOption = None,
    every: Annotated[str | None, Option(metavar="PERIOD", help="hour, day or week.")] = None,
    start: Annotated[str | None, Option(metavar="DATE", help="The first period.")] = None,
    max_rows: MaxRowsOption = None,
    *,
    asker: AskerOptions,
    data: DataOption = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Create running totals, and pay for their whole life."""
    terms: dict[str, Any] = {"horizon": horizon, "epsilon": epsilon, "every": every, "start": start}
    terms |= {"max_rows": max_rows, "data": data}
    text = question(query)
    with working("planning and measuring", quiet=as_json, pays=True), asker.opened() as curator:
        explained = curator.stream.explain(text, **terms)
        if not explain:
            stream = curator.stream.create(text, name=name, **terms)
            explained |= {"name": stream.name, "receipt": stream.receipt}
    lines = [f"{explained['periods']} periods at ε={explained['price']['epsilon']}"]
    lines += [f"  each {label}: ±{shown(error)} or less" for label, error in explained["errors"].items()]
    lines += [f"  note: {caveat}" for caveat in explained["caveats"]]
    tell(explained, *lines, as_json=as_json)


@command(stream, "advance")
def advance(
    name: NameArgument,
    through: Annotated[str | None, Option(metavar="DATE", help="The last period to release.")] = None,
    *,
    asker: AskerOptions,
    as_json: JsonOption = False,
) -> None:
    """Release all periods that are over. Free, and never twice."""
    last = int(through) if through is not None and through.isdecimal() else through
    with working("releasing", quiet=as_json), asker.opened() as curator:
        stream = curator.stream.open(name)
        before = stream.released
        released = stream.advance(last)
    content = {"name": name, "released": released, "new": released - before}
    tell(content, f"{released - before} new periods, {released} altogether", as_json=as_json)


# all streams


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions(AskerOptions):
    """The reader: a named analyst; else the owner, with the running totals of the policy's only analyst."""

    def read(self) -> tuple[Policy, StateFiles]:
        """Return the policy, and the running totals of the analyst."""
        from hush.curator.data_sets import read_policy
        from hush.curator.streams import StateFiles
        from hush.policy.ledger import streams_of

        policy = read_policy(self.policy)
        only = next(iter(policy.analysts)) if len(policy.analysts) == 1 else None
        analyst = self.analyst if self.analyst is not None else only
        return policy, StateFiles(None if analyst is None else streams_of(policy, analyst), {})

    @contextmanager
    def ledger(self, policy: Policy) -> Iterator[tuple[Ledger, str | None, dict[str, tuple[str, ...]] | None]]:
        """Open the ledger; yield it with the reader and each analyst's data sets, both None for the owner."""
        from hush.policy.ledger import open_ledger

        data_of = {name: person.data for name, person in policy.analysts.items()}
        with open_ledger(policy) as ledger:
            yield ledger, self.analyst, None if self.analyst is None else data_of


@command(stream, "list")
def listed(*, reader: ReaderOptions, as_json: JsonOption = False) -> None:
    """List streams and how far they have come."""
    from hush.curator.declared_streams import declared_views
    from hush.curator.streams import own_views

    policy, files = reader.read()
    with reader.ledger(policy) as (ledger, analyst, data_of):
        views = own_views(files) + declared_views(ledger, analyst, data_of)
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
    tell(content, *(lines or ["There is no stream."]), as_json=as_json)


@command(stream, "show")
def show(
    name: NameArgument,
    period: Annotated[str, Argument(metavar="DATE", help="Which release of a declared stream.")] = "latest",
    output: Annotated[Path | None, Option(metavar="FILE", help="Save as .csv, .json, .parquet.")] = None,
    form: FormatOption = None,
    *,
    reader: ReaderOptions,
    as_json: JsonOption = False,
) -> None:
    """Show the released numbers."""
    from hush.curator.declared_streams import declared_release

    chosen = the_format(form, as_json=as_json)
    writable(output, "--output", (".csv", ".json", ".parquet"))
    policy, files = reader.read()
    if name in files.names():
        with reader.opened() as curator:
            stream = curator.stream.open(name)
            answer, content = stream.answer, stream.to_json()
    else:
        with reader.ledger(policy) as (ledger, analyst, data_of):
            answer = declared_release(ledger, name, period, analyst, data_of)[1]
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
    as_json: JsonOption = False,
) -> None:
    """Make no further release; the part still set aside is free again."""
    policy, files = reader.read()
    left = 0
    if name in files.names():
        with reader.opened() as curator:
            curator.stream.open(name).stop()
    else:
        with reader.ledger(policy) as (ledger, analyst, _):
            left = ledger.streams.find(name).aside.left
            ledger.streams.stop(name, actor=actor(analyst), reason=reason)
    free = f"; what was set aside for {left} releases is free again" if left else ""
    tell({"name": name, "ended": True, "freed": left}, f"{name} has ended{free}", as_json=as_json)
