"""Schemas of the API: the bodies that it takes, and the JSON that it says.

The body of a question or a release is made from its terms (`hush.curator.terms`): a field for each. A body says where
a mistake is, and shows nothing that was sent. None of the replies depends on a row but answers, which are noisy, and
values that the policy calls public.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.requests import Request

from hush.core import InvalidValueError
from hush.core.format import decimal
from hush.curator.catalogue import ColumnDescription, DescribedTables
from hush.curator.data_sets import OpenDataSet
from hush.curator.explanation import Explanation
from hush.curator.terms import (
    LONGEST_NAME,
    LONGEST_SQL,
    LONGEST_TEXT,
    FitOrder,
    QuestionOrder,
    QuestionTerms,
    TermKind,
    Terms,
    TotalsOrder,
    TotalsTerms,
    term_of,
)
from hush.ledger import AccountView, Budget
from hush.query.parameters import from_wire
from hush.query.types import Value
from hush.server.auth.credentials import LONGEST, SHORTEST
from hush.server.auth.people import LONGEST_TOKEN_DAYS, TOKEN_DAYS
from hush.server.errors import BadRequestError

Amount = str | int | float
"""A number: exact where it is text, for example "0.1" or "1/3"."""
Sql = Annotated[str, Field(max_length=LONGEST_SQL)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Label = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
_TYPES: dict[TermKind, Any] = {
    TermKind.SQL: Sql,
    TermKind.VALUES: list[Any] | dict[str, Any],
    TermKind.AMOUNT: Amount,
    TermKind.ACCURACY: Amount | list[Amount],
    TermKind.COUNT: int,
    TermKind.FRACTION: float,
    TermKind.FLAG: bool,
    TermKind.NAME: Label,
    TermKind.NAMES: Annotated[list[Label], Field(max_length=200)],
    TermKind.TEXT: Text,
    TermKind.PERIOD: str | int,
}
MOST_PRICES = 64
"""How many prices can be explained in one call."""
Model = TypeVar("Model", bound=BaseModel)


class Body(BaseModel):
    """The body of a request; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def given(self) -> dict[str, Any]:
        """Return the values that were sent, as a curator takes them; null stands for the default."""
        values = {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}
        if isinstance(values.get("accuracy"), list):
            values["accuracy"] = tuple(values["accuracy"])
        if "parameters" in values:
            values["parameters"] = from_wire(values["parameters"])
        return values


def body_of(request: type[Terms], name: str, base: type[Body] = Body) -> type[Body]:
    """Return the body of a request: a field for each of its terms that travels."""
    columns: dict[str, Any] = {}
    for field in fields(request):
        term = term_of(field)
        if term.kind is TermKind.LOCAL:
            continue
        if field.default is MISSING:
            columns[field.name] = (_TYPES[term.kind], Field(description=term.help))
        else:
            default = list(field.default) if term.kind is TermKind.VALUES else field.default
            columns[field.name] = (_TYPES[term.kind] | None, Field(default, description=term.help))
    return create_model(name, __base__=base, __doc__=request.__doc__, **columns)


class _Prices(Body):
    epsilons: Annotated[list[Amount], Field(max_length=MOST_PRICES)] = Field(
        default_factory=list, description="Several prices to be explained in one call, instead of epsilon."
    )


class OptionsBody(Body):
    """A body with options of a model's own."""

    options: dict[str, bool | int | float | str | list[Any] | None] = Field(
        default_factory=dict, description="The model's own, such as components of pca and clusters of kmeans."
    )

    def given(self) -> dict[str, Any]:
        """Return the terms and the model's own options."""
        if clash := sorted(set(self.options) & {field.name for field in fields(FitOrder)}):
            raise InvalidValueError("options", got=clash, allowed="the model's own options alone")
        terms = super().given()
        return {**terms.pop("options", {}), **terms}


QuestionBody = body_of(QuestionTerms, "QuestionBody")
ExplainBody = body_of(QuestionTerms, "ExplainBody", _Prices)
AskBody = body_of(QuestionOrder, "AskBody")
StreamBody = body_of(TotalsTerms, "StreamBody")
PaidStreamBody = body_of(TotalsOrder, "PaidStreamBody")


class PaidBody(Body):
    """Something that is made and paid for."""

    request: Label | None = Field(
        None, description="An id of your own: asked again, what was made comes back, free. So retries are safe."
    )


class EventBody(PaidBody):
    """An event that hush does not carry out itself, for example a training run elsewhere."""

    event: dict[str, Any] = Field(description="The event, as hush.accounting writes it.")
    note: Annotated[str, Field(max_length=2000, description="What it is for.")]
    data: Label | None = Field(None, description="Which data set, where there are several.")


class AdvanceBody(PaidBody):
    """How far a stream is to be released."""

    through: str | int | None = Field(None, description="The last period; all that are over, if it is not said.")


class DeclarationBody(Body):
    """A stream that is paid by the release, as an owner declares it."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9_-]+$")]
    question: Annotated[str, Field(max_length=50_000, description="SQL")]
    epsilon: Amount | None = Field(None, description="What one release costs.")
    total_epsilon: Amount | None = Field(None, description="Instead: what all releases cost together.")
    rho: Amount | None = Field(None, description="Instead: what one release costs in zCDP.")
    every: Label = Field(description="day, week, month or year, or several such as 14 days.")
    first: Label = Field(description="The first date, or a time with its offset.")
    releases: Annotated[int, Field(ge=1, le=10_000)]
    confidence: Amount = Field("0.95", description="How often an error bar holds.")
    delta: Amount | None = Field(None, description="What private keys may use of δ in one release.")
    late: bool = Field(True, description="Whether a missed release is made late; else it is skipped.")
    readers: Label | list[Label] = Field("analysts", description="analysts, public, or a list of names.")
    data: Label | None = Field(None, description="Which data set, where there are several.")


class BudgetRequestBody(Body):
    """A larger budget that is asked for."""

    epsilon: Amount = Field(description="The new total.")
    data: Label | None = Field(None, description="On which data set, where there are several.")
    reason: Annotated[str, Field(max_length=2000)] = Field("", description="Why, for the owner.")


class DecisionBody(Body):
    """An owner's decision on a request."""

    approve: bool
    reason: Annotated[str, Field(max_length=2000)] = Field(
        "", description="Why; it is recorded, and the analyst sees it."
    )


class TokenBody(Body):
    """A token to be made."""

    label: Annotated[str, Field(max_length=200)] = ""
    scopes: list[str] = Field(default_factory=lambda: ["read", "ask"])
    days: Annotated[float, Field(gt=0, le=LONGEST_TOKEN_DAYS)] = TOKEN_DAYS


class PasswordBody(Body):
    """A new password."""

    old: Annotated[str, Field(max_length=1000)] = ""
    new: Annotated[str, Field(min_length=SHORTEST, max_length=LONGEST)]


class PersonBody(Body):
    """Somebody to be added."""

    name: Label
    roles: Annotated[list[str], Field(min_length=1, max_length=2)]


async def read(request: Request, model: type[Model]) -> Model:
    """Return the body of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequestError("Send JSON, with content-type: application/json.", 415)
    return parse(await request.body(), model)


def parse(content: bytes, model: type[Model]) -> Model:
    """Return a body; an error names the wrong field, but never shows its value."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"])) or "the body"
        message = re.sub(r"[^\x20-\x7e]", "", first["msg"])[:200]
        raise BadRequestError(f"{path}: {message}", 400 if first["type"] == "json_invalid" else 422) from None


# replies


def data_set(data: OpenDataSet, budget: Budget) -> dict[str, Any]:
    """Return the schema and the policy of a data set, which are public."""
    schema = data.schema
    tables = [
        {
            "name": table.name,
            "public": table.public,
            **({} if table.public else {"max_rows": table.table.max_rows, "max_groups": table.table.max_groups}),
            "columns": [_column(column) for column in table.values()],
            "examples": list(table.examples),
        }
        for table in DescribedTables([schema]).values()
    ]
    return {
        "name": schema.data,
        "unit": schema.unit,
        "neighbours": schema.neighbours.value,
        "budget": {"epsilon": decimal(Fraction(budget.epsilon)), "delta": decimal(Fraction(budget.delta))},
        "tables": tables,
    }


def _column(column: ColumnDescription) -> dict[str, Any]:
    description: dict[str, Any] = {"name": column.name, "type": column.kind}
    if column.type.kind.ranged:
        description |= {"lower": _plain(column.lower), "upper": _plain(column.upper)}
    if column.type.kind.numeric and column.type.step is not None:
        description["step"] = decimal(column.type.step)
    if column.values is not None:
        description["values"] = [_plain(value) for value in column.values]
    return description


def _plain(value: Value) -> Any:
    """Return a public value as JSON: numbers as exact texts, dates in ISO's form."""
    if isinstance(value, Fraction):
        return decimal(value)
    return value.isoformat() if isinstance(value, dt.date) else value


def account(view: AccountView) -> dict[str, Any]:
    """Return the remaining part of a budget, with the exact state of its filter."""
    charged = None if view.charged is None else view.charged.to_json()
    return view.to_json() | {"state": view.account.to_json(), "charged": charged}


def explanation(explained: Any) -> dict[str, Any]:
    """Return the explanation of a question or a release: in figures, exactly, and in words."""
    content = {**explained.to_json(), "exact": explained.price.itemised_json()}
    if isinstance(explained, Explanation):
        return content | {"drawable": explained.drawable(), "lines": explained.lines()}
    return content | {"lines": str(explained).splitlines()}


# the schemas of replies, for the API's document


_TEXT, _NUMBER, _COUNT, _FLAG = ({"type": name} for name in ("string", "number", "integer", "boolean"))
_OPTIONAL = {"type": ["string", "null"]}
_OBJECT: dict[str, Any] = {"type": "object"}


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _object(texts: str = "", optional: Mapping[str, Any] = MappingProxyType({}), /, **others: Any) -> dict[str, Any]:
    """Return an object with fields of text, others, and some that may be missing."""
    properties = {**dict.fromkeys(texts.split(), _TEXT), **others}
    return {"type": "object", "required": list(properties), "properties": {**properties, **optional}}


_TEXTS, _OBJECTS, _ROWS = _list(_TEXT), _list(_OBJECT), _list({"type": "array"})
_AMOUNT = _object("epsilon delta", {"share": _NUMBER})
_ERRORS = {"confidence": _NUMBER, "caveats": _TEXTS}
_EXPLANATION = _object("keys", price=_AMOUNT, items=_OBJECTS, errors=_OBJECT, lines=_TEXTS, **_ERRORS)
_PAID = {"events": _OBJECTS, "price": _OBJECTS, "share": _NUMBER, "shares": _OBJECT}
_RELEASE = _object("request analyst data when question of outcome", number=_COUNT, **_PAID)
_STATE = _one_of("waiting", "approved", "declined", "used")
_ASKED = {"number": _COUNT, "state": _STATE, "epsilon": _OPTIONAL, "wanted": _OPTIONAL}
_REQUEST = _object("analyst data when question reason by why", **_ASKED)
_PERIOD = _object("period slot state", receipt={"type": ["integer", "null"]})
_DECLARED = {"first": _TEXT, "late": _FLAG, "readers": {"anyOf": [_TEXT, _TEXTS]}, "declared": _TEXT}
_DECLARED |= {"share": _NUMBER, "left": _COUNT, "releases": _list(_PERIOD)}
_PROGRESS = {"periods": _COUNT, "released": _COUNT, "ended": _FLAG, "receipt": _OPTIONAL}
_PAYS = _one_of("each release", "once")
_STREAM = _object("name data question epsilon every", _DECLARED, pays=_PAYS, confidence=_NUMBER, **_PROGRESS)
_BUDGET = {"analyst": _OPTIONAL, "budget": _AMOUNT, "spent": _object(share=_NUMBER), "remaining": _AMOUNT}
_ACCOUNT = _object("data", **_BUDGET, set_aside=_NUMBER, pending=_COUNT, state=_OBJECT)
_DATA_SET = _object("name neighbours", unit=_OPTIONAL, budget=_AMOUNT, tables=_OBJECTS)
_PLACE = _object("request", running=_FLAG, ahead=_COUNT, seconds=_NUMBER)
_MADE = _one_of("marginals", "synthetic", "family", "ranges", "model")
_LEFT = {"anyOf": [_AMOUNT, {"type": "null"}]}


def _with(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], **more}}


REPLIES: dict[str, Any] = {
    "Problem": _object("type title code detail", status=_COUNT),
    "Document": _OBJECT,
    "Health": _object("status"),
    "Me": _object("name", roles=_TEXTS, scopes=_TEXTS, sessions=_OBJECTS),
    "DataSets": _object(data=_list(_DATA_SET)),
    "Explained": {"anyOf": [_EXPLANATION, _object(explanations=_list(_EXPLANATION))]},
    "Answer": _object("receipt", columns=_TEXTS, rows=_ROWS, errors=_ROWS, price=_AMOUNT, remaining=_LEFT, **_ERRORS),
    "Accounts": _object(accounts=_list(_ACCOUNT)),
    "Releases": _object(releases=_list(_RELEASE)),
    "Receipt": _with(_RELEASE, hash=_TEXT),
    "Queue": _object(questions=_list(_PLACE), limit=_NUMBER),
    "Cancelled": _object("cancelled"),
    "ReleaseExplained": _object(price=_AMOUNT, caveats=_TEXTS, exact=_OBJECT, lines=_TEXTS),
    "Made": _object("receipt", release=_MADE, price={}),
    "Recorded": _object("receipt", remaining=_AMOUNT),
    "Streams": _object(streams=_list(_STREAM)),
    "Stream": _STREAM,
    "AdvancedStream": _with(_STREAM, due=_COUNT),
    "StreamExplained": _object(price=_AMOUNT, periods=_COUNT, errors=_OBJECT, **_ERRORS),
    "DeclarationExplained": _object("name epsilon", share=_NUMBER, fitting=_COUNT, fits=_FLAG, release=_OBJECT),
    "Requests": _object(requests=_list(_REQUEST)),
    "Request": _REQUEST,
    "Tokens": _object(tokens=_list(_object("id label created expires", scopes=_TEXTS))),
    "NewToken": _object("id label created expires token", scopes=_TEXTS),
    "People": _object(people=_list(_object("name", roles=_TEXTS))),
    "Link": _object("link", {"name": _TEXT}),
}
