"""The terms of a request, stated once: the parameters of questions and releases.

A request is a frozen dataclass, and each of its fields a term with a type, a default and a `Term`: how it is written,
what it means, and how it is shown. Everything else is derived from these fields: the parameters of `Curator` and
`RemoteCurator` (`takes`), the options of the command line, the JSON bodies of the API and their OpenAPI schemas, and
the settings ``SET hush.…`` of PostgreSQL's protocol. A new term is a field here, and its meaning.

>>> terms = QuestionTerms("SELECT COUNT(*) AS n FROM visits", epsilon="0.5")
>>> terms.given()
{'question': 'SELECT COUNT(*) AS n FROM visits', 'epsilon': '0.5'}
>>> [name for name, term in terms_of(RangeTerms).items() if term.kind is TermKind.COUNT]
['max_rows']

``…Terms`` say what is explained; ``…Order`` adds how it is made and charged: under a request id, and whether anew.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, fields
from enum import Enum
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar, get_args

from hush.core import InvalidValueError, Number, integer

if TYPE_CHECKING:
    from hush.query.builder import Builder

Parameters = Sequence[Any] | Mapping[str, Any]
"""The values of ``?`` or ``$name``."""
Progress = Callable[[str, float], None]
"""Called with the name of the stage and the finished part, from 0 to 1."""
LONGEST_SQL, LONGEST_TEXT, LONGEST_NAME = 50_000, 2_000, 200


class TermKind(Enum):
    """How the value of a term is written."""

    SQL = "SQL"
    VALUES = "the values of parameters"
    AMOUNT = "an exact number"
    ACCURACY = "a half-width, or one at a confidence"
    COUNT = "a whole number"
    FRACTION = "a number"
    FLAG = "true or false"
    NAME = "a name"
    NAMES = "names"
    TEXT = "a text"
    PERIOD = "a date, a time or a whole number"
    LOCAL = "a Python value, which does not travel"


@dataclass(frozen=True, slots=True)
class Term:
    """The form and the meaning of one term."""

    kind: TermKind
    help: str
    metavar: str = ""
    """The placeholder for its value in the help of the command line."""
    details: str = ""
    """Further sentences for docstrings."""
    at_least: int | None = None

    def check(self, value: Any, name: str) -> None:
        """Refuse a value of another type; limits that depend on the policy are checked where they are known."""
        match self.kind:
            case TermKind.COUNT if value is not None:
                integer(value, name, minimum=self.at_least)
            case TermKind.FLAG if not isinstance(value, bool):
                raise InvalidValueError(name, got=value, allowed="True or False")
            case TermKind.TEXT if not isinstance(value, str):
                raise InvalidValueError(name, got=value, allowed="a text")
            case TermKind.NAMES if isinstance(value, str):
                raise InvalidValueError(name, got=value, allowed="a list of names, such as ['age', 'sex']")

    def read(self, text: str, spelling: str) -> Any:
        """Return the value that a text stands for, in a setting or a form; ``spelling`` is the user's name for it.

        >>> terms_of(QuestionTerms)["accuracy"].read("50@0.99", "accuracy")
        ('50', '0.99')
        """
        match self.kind:
            case TermKind.COUNT:
                if not re.fullmatch(r"[0-9]{1,9}", text):
                    raise InvalidValueError(spelling, got=text, allowed="a whole number")
                return int(text)
            case TermKind.FRACTION:
                try:
                    return float(text)
                except ValueError:
                    raise InvalidValueError(spelling, got=text, allowed="a number") from None
            case TermKind.FLAG:
                if text.lower() not in {"true", "false", "on", "off", "1", "0"}:
                    raise InvalidValueError(spelling, got=text, allowed="true or false")
                return text.lower() in {"true", "on", "1"}
            case TermKind.NAMES:
                return [name.strip() for name in text.split(",") if name.strip()]
            case TermKind.ACCURACY:
                width, separator, confidence = text.partition("@")
                if not width or (separator and not confidence):
                    allowed = "a half-width, or one at a confidence, such as 50 or 50@0.99"
                    raise InvalidValueError(spelling, got=text, allowed=allowed)
                return width, confidence or "0.95"
            case _:
                return text


Epsilon = Annotated[Number | None, Term(TermKind.AMOUNT, "What the whole question or release costs.", "ε")]
Data = Annotated[str | None, Term(TermKind.NAME, "Which data set, where the tables' names do not tell.", "NAME")]
RowsSql = Annotated[str, Term(TermKind.SQL, "SQL that names rows: SELECT columns FROM …")]
Rows = Annotated[int | None, Term(TermKind.COUNT, "How many rows of one unit count; the policy's if not said.", "N")]
RowsOfUnit = Annotated[int, Term(TermKind.COUNT, "How many rows of one unit count.", "N")]
RequestId = Annotated[
    str | None,
    Term(
        TermKind.NAME,
        "Your own id: asked again, what was paid for comes back, free. So retries are safe.",
        "ID",
        "It comes back at its own confidence; to ask under the same id for something else is refused.",
    ),
]
BarConfidence = Annotated[float, Term(TermKind.FRACTION, "How often an error bar holds.", "P")]
Watcher = Annotated[Progress | None, Term(TermKind.LOCAL, "Is told the stage and how much of it is done.")]


_PAYMENT = {"request", "fresh", "reason", "progress"}
PRICE = {"epsilon", "accuracy", "confidence", "data", *_PAYMENT}
"""Terms that say the price, how it is paid, and where the tables are: with others of these it is the same question."""
_TEXT = {"question", "parameters", "dialect", "delta"}


@dataclass(frozen=True)
class Terms:
    """The base of all requests."""

    def __post_init__(self) -> None:
        for field in fields(self):
            term_of(field).check(getattr(self, field.name), field.name)

    def given(self, *, but: Collection[str] = ()) -> dict[str, Any]:
        """Return the terms that differ from their defaults, by name, without some."""
        terms = {}
        for field in fields(self):
            if field.name in but:
                continue
            value = getattr(self, field.name)
            # parameters may be an array, whose comparison is no truth value
            if value is not field.default and (term_of(field).kind is TermKind.VALUES or value != field.default):
                terms[field.name] = value
        return terms

    def explained(self) -> dict[str, Any]:
        """Return the given terms, without those that concern the payment."""
        return self.given(but=_PAYMENT)


def terms_of(request: type[Terms] | Terms) -> dict[str, Term]:
    """Return the terms of a request by name, in the order of its parameters."""
    return {field.name: term_of(field) for field in fields(request)}


@cache
def term_of(field: "Field[Any]") -> Term:
    """Return the `Term` in the annotation of a request's field."""
    term: Term = get_args(field.type)[1]
    return term


@dataclass(frozen=True, kw_only=True)
class Order(Terms):
    """How a request is made and charged."""

    request: RequestId = None
    fresh: Annotated[
        bool, Term(TermKind.FLAG, "Ask anew, with new noise and a new charge, what was paid for before.")
    ] = False


@dataclass(frozen=True)
class QuestionTerms(Terms):
    """A question in SQL, and on which terms it is asked."""

    question: Annotated["str | Builder", Term(TermKind.SQL, "The question in SQL.", "", "Or one built with `table`.")]
    parameters: Annotated[
        Parameters,
        Term(
            TermKind.VALUES,
            'The values of ? or $name. As JSON, dates are {"date": "2026-01-31"}, times {"timestamp": …}.',
        ),
    ] = ()
    _: KW_ONLY
    epsilon: Epsilon = None
    accuracy: Annotated[
        Number | tuple[Number, Number] | None,
        Term(
            TermKind.ACCURACY,
            "Instead of ε: the half-width wanted, or one at a confidence (0.95 if not said).",
            "±[@P]",
            "As (half-width, confidence) or a number: what every COUNT and SUM must reach, and what is made of them "
            "by adding and constants.",
        ),
    ] = None
    delta: Annotated[
        Number | None,
        Term(TermKind.AMOUNT, "What private keys use of δ: a hundredth of the budget's if not said.", "δ"),
    ] = None
    confidence: Annotated[
        Number | None,
        Term(
            TermKind.AMOUNT,
            "How often an error bar holds: that of the accuracy, else 0.95.",
            "P",
            "The price does not depend on it.",
        ),
    ] = None
    max_rows: Annotated[
        int | None,
        Term(
            TermKind.COUNT,
            "Of how many rows in a group a unit counts; at most what the policy declares.",
            "N",
            "Fewer mean less noise, but what is left out is missing in the answer; `explain` shows both.",
            at_least=1,
        ),
    ] = None
    max_groups: Annotated[
        int | None,
        Term(TermKind.COUNT, "In how many groups a unit counts; at most what the policy declares.", "N", at_least=1),
    ] = None
    keys: Annotated[
        str | None,
        Term(
            TermKind.NAME,
            "public lists all public keys, private chooses those that enough units have.",
            "WHICH",
            "Without it up to 10,000 public keys are listed.",
        ),
    ] = None
    data: Data = None
    dialect: Annotated[
        str,
        Term(
            TermKind.NAME, "Whose spelling the SQL has: duckdb, bigquery, snowflake, postgres, spark or tsql.", "NAME"
        ),
    ] = "duckdb"

    def limits(self) -> dict[str, Any]:
        """Return the given terms by which a text asks another question: how much of a unit counts, and which keys."""
        return self.given(but=PRICE | _TEXT)


@dataclass(frozen=True, kw_only=True)
class QuestionOrder(Order, QuestionTerms):
    """A question to be answered and paid for."""

    reason: Annotated[
        str, Term(TermKind.TEXT, "Why it is asked, for an owner who has to approve it first.", "TEXT")
    ] = ""


@dataclass(frozen=True)
class BoundingTerms(Terms):
    """How much the bounds of a table cut, and which others are proposed."""

    table: Annotated[str, Term(TermKind.NAME, "A private table whose rows belong to units.", "TABLE")]
    _: KW_ONLY
    epsilon: Annotated[Number, Term(TermKind.AMOUNT, "What both questions cost together.", "ε")]
    by: Annotated[
        str | None,
        Term(
            TermKind.NAME,
            "The column whose values are the groups: how many of its groups units lose by max_groups.",
            "COLUMN",
            "Without it, how many of their rows they lose by max_rows, in questions without groups.",
        ),
    ] = None
    quantile: Annotated[
        Number | None,
        Term(TermKind.AMOUNT, "The part of the units that the proposed bound covers: 0.95 if not said.", "P"),
    ] = None
    data: Data = None


@dataclass(frozen=True)
class RangeTerms(Terms):
    """What a release of all intervals, the distribution and all quantiles of one column is asked with."""

    question: RowsSql
    _: KW_ONLY
    epsilon: Epsilon = None
    max_rows: Rows = None
    data: Data = None


@dataclass(frozen=True)
class RangeOrder(Order, RangeTerms):
    """All ranges of a column, to be made."""


@dataclass(frozen=True)
class MarginalTerms(Terms):
    """All tables of some columns at once."""

    table: Annotated[
        str, Term(TermKind.SQL, "A table; or SQL that names rows, without columns to be crossed.", "TABLE|SQL")
    ]
    by: Annotated[Sequence[str] | None, Term(TermKind.NAMES, "The columns of the table to be crossed.", "COLUMNS")] = (
        None
    )
    _: KW_ONLY
    degree: Annotated[
        int, Term(TermKind.COUNT, "How many columns each table has.", "K", "Smaller tables are sums of these.")
    ] = 2
    epsilon: Epsilon = None
    optimise: Annotated[
        str,
        Term(
            TermKind.NAME,
            "Which error is least: the largest of a cell (max), or the mean over tables (sum) or cells (cells).",
            "max|sum|cells",
        ),
    ] = "max"
    confidence: BarConfidence = 0.95
    max_rows: Rows = None
    data: Data = None


@dataclass(frozen=True)
class MarginalOrder(Order, MarginalTerms):
    """All tables of some columns, to be made."""


@dataclass(frozen=True)
class SynthesisTerms(Terms):
    """Synthetic rows."""

    question: RowsSql
    _: KW_ONLY
    epsilon: Epsilon = None
    certify: Annotated[
        Number,
        Term(TermKind.AMOUNT, "The share of the price that buys a certificate of how good the rows are.", "SHARE"),
    ] = "0.05"
    max_rows: Rows = None
    data: Data = None


@dataclass(frozen=True, kw_only=True)
class SynthesisOrder(Order, SynthesisTerms):
    """Synthetic rows, to be made."""

    progress: Watcher = None


@dataclass(frozen=True)
class FamilyTerms(Terms):
    """Synthetic parents with synthetic children, such as patients with visits, each for half of the price."""

    parents: Annotated[
        str, Term(TermKind.SQL, "SQL with one row for each unit, among its columns the number of children.")
    ]
    children: Annotated[
        str, Term(TermKind.SQL, "SQL with the children's rows, and some columns of the parents under the same names.")
    ]
    _: KW_ONLY
    number: Annotated[str, Term(TermKind.NAME, "The parents' column that says how many children there are.", "COLUMN")]
    epsilon: Epsilon = None
    max_rows: RowsOfUnit = 1
    data: Data = None


@dataclass(frozen=True, kw_only=True)
class FamilyOrder(Order, FamilyTerms):
    """Synthetic parents with synthetic children, to be made."""

    progress: Watcher = None


@dataclass(frozen=True)
class FitTerms(Terms):
    """A private model of the rows that SQL names. The model's own options are no terms: `takes_options`."""

    question: RowsSql
    _: KW_ONLY
    target: Annotated[
        str | None, Term(TermKind.NAME, "The column to predict; left out for moments, pca and kmeans.", "COLUMN")
    ] = None
    model: Annotated[
        str, Term(TermKind.NAME, "regression, classification, linear, naive_bayes, moments, pca or kmeans.", "NAME")
    ] = "regression"
    epsilon: Epsilon = None
    max_rows: RowsOfUnit = 1
    data: Data = None


@dataclass(frozen=True)
class FitOrder(Order, FitTerms):
    """A model, to be fitted."""


@dataclass(frozen=True)
class TotalsTerms(Terms):
    """Running totals: a count or sum that keeps coming, paid once for its whole life."""

    question: Annotated[
        str,
        Term(
            TermKind.SQL,
            "SELECT day, COUNT(*) AS n FROM … GROUP BY day, or SUM of a bounded column.",
            details="Further public keys may be grouped by.",
        ),
    ]
    _: KW_ONLY
    horizon: Annotated[str, Term(TermKind.NAME, "How long it lasts, such as '10 years' or '400 days'.", "LENGTH")]
    epsilon: Epsilon = None
    every: Annotated[
        str | None,
        Term(TermKind.NAME, "day, week or hour, period for whole numbers; the time column's step if not said.", "STEP"),
    ] = None
    start: Annotated[
        object, Term(TermKind.PERIOD, "The first period; the lower bound of the time column if not said.", "PERIOD")
    ] = None
    max_rows: Annotated[
        int | None,
        Term(TermKind.COUNT, "How many rows of a unit count over the whole life; the policy's if not said.", "N"),
    ] = None
    confidence: BarConfidence = 0.95
    data: Data = None


@dataclass(frozen=True, kw_only=True)
class TotalsOrder(TotalsTerms):
    """Running totals, to be begun."""

    name: Annotated[str, Term(TermKind.NAME, "What the stream is called.", "NAME")]
    request: RequestId = None


Given = ParamSpec("Given")
Request = TypeVar("Request")
Asker = TypeVar("Asker")
Result = TypeVar("Result")


def takes(
    request: Callable[Given, Request],
) -> Callable[[Callable[[Asker, Request], Result]], Callable[Concatenate[Asker, Given], Result]]:
    """Give a method that takes a request the parameters of the request's terms, in types, signature and docstring.

    >>> class Echo:
    ...     @takes(RangeTerms)
    ...     def explain(self, terms: RangeTerms) -> str:
    ...         '''Return the SQL.'''
    ...         return terms.question
    >>> Echo().explain("SELECT age FROM visits", epsilon="0.5")
    'SELECT age FROM visits'
    >>> signature(Echo.explain)
    <Signature (self, question, *, epsilon=None, max_rows=None, data=None)>
    """

    def decorate(method: Callable[[Asker, Request], Result]) -> Callable[Concatenate[Asker, Given], Result]:
        @wraps(method)
        def call(asker: Asker, /, *arguments: Given.args, **terms: Given.kwargs) -> Result:
            return method(asker, request(*arguments, **terms))

        _describe(call, request)
        return call

    return decorate


def takes_options(
    request: type[Request],
) -> Callable[[Callable[[Asker, Request, dict[str, Any]], Result]], Callable[Concatenate[Asker, ...], Result]]:
    """Do the same as `takes`, and pass other keywords to the method as options."""
    names = terms_of(request).keys()  # type: ignore[arg-type]

    def decorate(
        method: Callable[[Asker, Request, dict[str, Any]], Result],
    ) -> Callable[Concatenate[Asker, ...], Result]:
        @wraps(method)
        def call(asker: Asker, /, *arguments: Any, **given: Any) -> Result:
            terms = {name: value for name, value in given.items() if name in names}
            options = {name: value for name, value in given.items() if name not in names}
            return method(asker, request(*arguments, **terms), options)

        _describe(call, request, Parameter("options", Parameter.VAR_KEYWORD))
        return call

    return decorate


def _describe(method: Any, request: Any, *further: Parameter) -> None:
    """Set the signature of a method to the terms of a request, and list these in its docstring."""
    parameters = [parameter.replace(annotation=Parameter.empty) for parameter in signature(request).parameters.values()]
    method.__signature__ = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *parameters, *further])
    lines = ["Parameters", "----------"]
    for name, term in terms_of(request).items():
        lines += [
            name,
            fill(f"{term.help} {term.details}".strip(), 100, initial_indent="    ", subsequent_indent="    "),
        ]
    lines += [f"{parameter.name}\n    The model's own, such as ``components`` of pca." for parameter in further]
    method.__doc__ = f"{cleandoc(method.__doc__ or '')}\n\n" + "\n".join(lines)
