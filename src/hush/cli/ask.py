"""``hush ask`` and ``hush explain``: put a question and pay for it, or see first what it would cost."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hush.cli.options import POLICY, JsonOption, PolicyOption, known_analysts, spread
from hush.cli.output import Format, FormatOption, console, print_answer, print_json, the_format, working
from hush.core import HushError, InvalidValueError
from hush.core.format import visible
from hush.core.values import dataclass

if TYPE_CHECKING:
    from hush.curator.curator import Curator, Terms
    from hush.curator.explanation import Explanation


QueryArgument = Annotated[
    str,
    typer.Argument(
        metavar="[SQL]", help="The question; @FILE reads it from a file, - (or nothing) from standard input."
    ),
]
AnalystOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="ANALYST",
        help="Who asks; needed where the policy names several.",
        autocompletion=known_analysts,
    ),
]
EpsilonOption = Annotated[str | None, typer.Option("--epsilon", metavar="ε", help="What the whole question may cost.")]
AccuracyOption = Annotated[
    str | None,
    typer.Option(
        "--accuracy", metavar="±[@P]", help="Instead of ε: the half-width wanted, at confidence P (0.95 if not said)."
    ),
]
ConfidenceOption = Annotated[
    str | None,
    typer.Option("--confidence", metavar="P", help="How often error bars hold: P of --accuracy, else 0.95."),
]
DeltaOption = Annotated[
    str | None,
    typer.Option("--delta", metavar="δ", help="What private keys take of δ: a hundredth if not said."),
]
FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the question from this file.")
]
RowsOption = Annotated[
    int | None,
    typer.Option(
        "--max-rows", metavar="N", help="Of how many rows in a group a unit counts; at most what the policy declares."
    ),
]
GroupsOption = Annotated[
    int | None,
    typer.Option(
        "--max-groups", metavar="N", help="In how many groups a unit counts; at most what the policy declares."
    ),
]
DialectOption = Annotated[
    str,
    typer.Option(
        "--dialect", metavar="NAME", help="Whose spelling the SQL has: bigquery, snowflake, postgres, spark or tsql."
    ),
]
KeysOption = Annotated[
    str | None,
    typer.Option("--keys", metavar="WHICH", help="public lists all public keys, private chooses among them."),
]
DataOption = Annotated[str | None, typer.Option("--data", metavar="NAME", help="Which data set, if it is not clear.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskerOptions:
    """Who asks, under which policy."""

    analyst: AnalystOption = None
    policy: PolicyOption = POLICY

    def opened(self) -> Curator:
        """Open what the policy protects for them."""
        from hush.curator.opening import open_policy

        return open_policy(self.policy, analyst=self.analyst)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions:
    """A question, on which terms it is asked, and who asks."""

    query: QueryArgument = "-"
    file: FileOption = None
    epsilon: EpsilonOption = None
    accuracy: AccuracyOption = None
    confidence: ConfidenceOption = None
    delta: DeltaOption = None
    max_rows: RowsOption = None
    max_groups: GroupsOption = None
    keys: KeysOption = None
    analyst: AnalystOption = None
    policy: PolicyOption = POLICY
    data: DataOption = None
    dialect: DialectOption = "duckdb"

    @property
    def text(self) -> str:
        """The question's text."""
        return question(self.query, self.file)

    @property
    def asker(self) -> AskerOptions:
        """Who asks."""
        return AskerOptions(analyst=self.analyst, policy=self.policy)

    def terms(self) -> Terms:
        """Return on which terms the question is asked."""
        return {
            "epsilon": self.epsilon,
            "accuracy": half_width(self.accuracy),
            "delta": self.delta,
            "confidence": self.confidence,
            "max_rows": self.max_rows,
            "max_groups": self.max_groups,
            "keys": self.keys,
        }


_NEEDS = {".png": ("vl_convert", "charts"), ".parquet": ("pyarrow", "arrow")}
"""What some files cannot be written without, and how it is called where hush is installed."""

_ASK_HELP = """
Ask a question in SQL and get noisy answers with error bars. The price is charged before any data is read.

Examples:

    hush ask "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease" --epsilon 0.5
    hush ask -f question.sql --accuracy 50@0.99 --as alice
    echo "SELECT AVG(cost) AS mean FROM visits" | hush ask - --epsilon 0.1 --json
    hush ask -f question.sql --epsilon 0.5 --chart answer.svg
    hush ask -f question.sql --epsilon 0.5 --dummy

The same question asked again, in whatever spelling, brings back the answer that was paid for, free of charge; --fresh
asks anew. With --dummy the question is tried on made-up rows: free, and marked as such.

Exit status: 0 answered, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("ask", help=_ASK_HELP, short_help="Ask a question, and pay for it.")(ask)
    app.command("explain", help=_EXPLAIN_HELP, short_help="What a question would cost.")(explain)


@spread
def ask(
    options: QuestionOptions,
    request: Annotated[
        str | None,
        typer.Option("--request", metavar="ID", help="Your own id: asked again, the stored answer comes back, free."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask anew, and pay anew, what was answered before.")] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, where the owner has to approve the question first.")
    ] = "",
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    format_: FormatOption = None,
    dummy: Annotated[
        bool, typer.Option("--dummy", help="Try it on made-up rows: free, and no answer about anybody.")
    ] = False,
    chart: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Save a chart (.svg, .png, .html, .json).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Save the answer (.csv, .json, .parquet).")
    ] = None,
) -> None:
    """Ask a question."""
    form = the_format(format_, as_json=as_json, as_csv=as_csv)
    text, data, dialect = options.text, options.data, options.dialect
    writable(chart, "--chart", (".svg", ".png", ".html", ".json"))
    writable(output, "--output", (".csv", ".json", ".parquet"))
    asked = options.terms()
    with (
        working("asking", quiet=form is not Format.TABLE, pays=True),
        options.asker.opened() as real,
        real.dummy() if dummy else nullcontext(real) as curator,
    ):
        if chart is not None:
            drawable(curator.explain(text, data=data, dialect=dialect, **asked), chart)
        answer = curator.ask(text, data=data, request=request, fresh=fresh, reason=reason, dialect=dialect, **asked)
    print_answer(answer, form)  # it is paid for, so it is shown before anything else can go wrong
    try:
        if output is not None:
            answer.save(output)
        if chart is not None:
            answer.chart().save(chart)
    except HushError as error:
        print(f"error: the answer is above, but not in the file: {visible(str(error))}", file=sys.stderr)
        raise typer.Exit(2) from None


def writable(path: Path | None, option: str, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that could not be written, before the question is paid for."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise InvalidValueError(option, got=str(path), allowed=f"a file name ending in {', '.join(suffixes)}")
    if not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidValueError(option, got=str(path), allowed="a file in a folder that can be written to")
    module, extra = _NEEDS.get(path.suffix.lower(), ("", ""))
    if module and find_spec(module) is None:
        hint = f"Install what it needs: pip install 'hush[{extra}]'."
        raise InvalidValueError(option, got=str(path), allowed="a file that can be written here", hint=hint)


def drawable(explained: Explanation, path: Path) -> None:
    """Refuse a chart of a question that has none, before it is paid for."""
    if not explained.drawable():
        raise InvalidValueError(
            "--chart",
            got=str(path),
            allowed="left out where no result is a noisy number, as the answer could not be drawn",
            hint="Add one to the question, such as COUNT(*). Nothing was charged.",
        )


def question(query: str, file: Path | None = None) -> str:
    """Return the question's text from the argument, a file or standard input."""
    if file is not None:
        if query != "-":
            raise InvalidValueError("--file", got=f"{file} and a question", allowed="one of the two")
        query = f"@{file}"
    if query == "-":
        return sys.stdin.read()
    if query.startswith("@"):
        path = Path(query[1:])
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise InvalidValueError("SQL", got=query, allowed="@ and a text file that can be read") from None
    if len(query.split()) == 1 and Path(query).is_file():
        raise InvalidValueError("SQL", got=query, allowed="a question", hint=f"To read it from the file: @{query}")
    return query


def half_width(accuracy: str | None) -> tuple[str, str] | None:
    """Return (±, confidence) from ``50`` or ``50@0.99``."""
    if accuracy is None:
        return None
    width, at, confidence = accuracy.partition("@")
    if not width or (at and not confidence):
        allowed = "a half-width, or one at a confidence, such as 50 or 50@0.99"
        raise InvalidValueError("--accuracy", got=accuracy, allowed=allowed)
    return width, confidence or "0.95"


_EXPLAIN_HELP = """
Say what a question would cost and how far off its answers would be. Reads no data and spends nothing.

Examples:

    hush explain "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease" --epsilon 0.5
    hush explain -f question.sql --accuracy 50@0.99 --json

Exit status: 0 it can be asked, 2 the question or the policy is not right. Whether the budget suffices is not looked at.
"""


@spread
def explain(
    options: QuestionOptions,
    as_json: JsonOption = False,
) -> None:
    """Explain a question."""
    with working("planning", quiet=as_json), options.asker.opened() as curator:
        asked = options.terms()
        explanation = curator.explain(options.text, data=options.data, dialect=options.dialect, **asked)
    if as_json:
        print_json(explanation.to_json())
    else:
        console().print(str(explanation), markup=False)
