"""What the API takes: the bodies of its requests."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from hush.core import InvalidValueError
from hush.server.passwords import LONGEST, SHORTEST
from hush.server.people import LONGEST_TOKEN_DAYS, TOKEN_DAYS
from hush.server.problems import BadRequestError
from hush.server.service import MOST_PRICES

Amount = str | int | float
"""A number: exact where it is text, such as "0.1" or "1/3"."""
Label = Annotated[str, Field(min_length=1, max_length=200)]
Model = TypeVar("Model", bound=BaseModel)


class Body(BaseModel):
    """A body: names that nobody reads are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ExplainBody(Body):
    """A question, and on which terms it would be asked."""

    question: Annotated[str, Field(max_length=50_000, description="SQL")]
    parameters: list[Any] | dict[str, Any] = Field(
        default_factory=list,
        description='The values of ? or $name. Dates are {"date": "2026-01-31"}, times {"timestamp": …}.',
    )
    epsilon: Amount | None = Field(None, description="What the whole question may cost.")
    accuracy: Amount | list[Amount] | None = Field(
        None, description="Instead of epsilon: the half-width wanted, or [half-width, confidence]."
    )
    delta: Amount | None = Field(None, description="What private keys may use of δ.")
    confidence: Amount | None = Field(None, description="How often an error bar holds.")
    max_rows: Amount | None = Field(None, description="How many rows of a unit count in a group, at most the policy's.")
    max_groups: Amount | None = Field(None, description="In how many groups a unit counts, at most the policy's.")
    keys: Label | None = Field(None, description="How group keys are chosen, where it can be said.")
    dialect: Label | None = Field(None, description="In which dialect the SQL is written, such as bigquery.")
    data: Label | None = Field(None, description="Which data set, where the tables' names do not tell.")
    epsilons: Annotated[list[Amount], Field(max_length=MOST_PRICES)] = Field(
        default_factory=list, description="Several prices to be explained in one call, instead of epsilon."
    )

    def terms(self) -> dict[str, Any]:
        """Return on which terms a question is asked."""
        accuracy = tuple(self.accuracy) if isinstance(self.accuracy, list) else self.accuracy
        given = {
            "epsilon": self.epsilon,
            "accuracy": accuracy,
            "delta": self.delta,
            "confidence": self.confidence,
            "max_rows": self.max_rows,
            "max_groups": self.max_groups,
            "keys": self.keys,
            "dialect": self.dialect,
            "data": self.data,
        }
        return {name: value for name, value in given.items() if value is not None}


class AskBody(ExplainBody):
    """A question to be answered and paid for."""

    epsilons: Annotated[list[Amount], Field(max_length=0, exclude=True)] = Field(default_factory=list)
    reason: Annotated[str, Field(max_length=2000)] = Field("", description="Why it is asked, for the owner.")
    fresh: bool = Field(default=False, description="Ask anew, for its price, what was answered before.")
    request: Label | None = Field(
        None, description="An id of your own: asked again, the stored answer comes back, free. So retries are safe."
    )


class ReleaseBody(Body):
    """A whole release, and on which terms it would be made."""

    epsilon: Amount | None = Field(None, description="What the whole release may cost.")
    max_rows: int | None = Field(None, description="How many rows of a unit count; the policy's if not said.")
    data: Label | None = Field(None, description="Which data set, where the tables' names do not tell.")

    def how(self) -> dict[str, Any]:
        """Return the terms as a curator takes them."""
        given = self.model_dump(exclude={"request", "options"})
        return {name: value for name, value in given.items() if value is not None}


class PaidBody(Body):
    """What is made and paid for."""

    request: Label | None = Field(
        None, description="An id of your own: asked again, what was made comes back, free. So retries are safe."
    )


class Repeatable(PaidBody):
    """What comes back as it was paid for when it is asked for again."""

    fresh: bool = Field(default=False, description="Make anew, for its price, what was made before.")


class MarginalsBody(ReleaseBody):
    """All tables of some columns."""

    table: Annotated[str, Field(max_length=50_000, description="A table, or SQL that names rows.")]
    by: Annotated[list[Label], Field(max_length=200)] | None = Field(None, description="The columns of a table.")
    degree: int = Field(2, description="How many columns each table has.")
    optimise: Label = Field("max", description="max, sum or cells: the error that is least.")
    confidence: float = Field(0.95, description="How often an error bar holds.")


class PaidMarginalsBody(MarginalsBody, Repeatable):
    """All tables of some columns, to be made."""


class RowsBody(ReleaseBody):
    """A release of rows that SQL names."""

    question: Annotated[str, Field(max_length=50_000, description="SQL that names rows: SELECT columns FROM …")]


class SynthBody(RowsBody):
    """Synthetic rows."""

    certify: Amount = Field("0.05", description="The share of the price that buys a certificate.")


class PaidSynthBody(SynthBody, Repeatable):
    """Synthetic rows, to be made."""


class RangesBody(RowsBody):
    """All ranges of the one column that SQL names."""


class PaidRangesBody(RangesBody, Repeatable):
    """All ranges of a column, to be made."""


class FitBody(RowsBody):
    """A model."""

    target: Label | None = Field(None, description="The column to predict.")
    model: Label = Field("regression", description="Which model.")
    options: dict[str, bool | int | float | str | list[Any] | None] = Field(
        default_factory=dict, description="The model's own, such as components of pca and clusters of kmeans."
    )

    def how(self) -> dict[str, Any]:
        """Return the terms as a curator takes them."""
        terms = super().how()
        if clash := sorted(set(self.options) & {*type(self).model_fields, "request", "fresh"}):
            raise InvalidValueError("options", got=clash, allowed="the model's own options alone")
        return {**self.options, **terms}


class PaidFitBody(FitBody, Repeatable):
    """A model, to be fitted."""


class EventBody(PaidBody):
    """An event that hush does not carry out itself, such as a training run elsewhere."""

    event: dict[str, Any] = Field(description="The event, as hush.accounting writes it.")
    note: Annotated[str, Field(max_length=2000, description="What it is for.")]
    data: Label | None = Field(None, description="Which data set, where there are several.")


class StreamBody(RowsBody):
    """Counts or sums that keep coming."""

    horizon: Annotated[str, Field(max_length=100, description="How long, such as '10 years'.")]
    every: Label | None = Field(None, description="hour, day or week.")
    start: str | int | None = Field(None, description="The first period.")
    confidence: float = Field(0.95, description="How often an error bar holds.")


class PaidStreamBody(StreamBody, PaidBody):
    """Counts or sums that keep coming, to be begun."""

    name: Label


class AdvanceBody(PaidBody):
    """How far a stream is to be released."""

    through: str | int | None = Field(None, description="The last period; all that are over, if it is not said.")


class StandingBody(Body):
    """A question that is released again and again."""

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

    def words(self) -> dict[str, Any]:
        """Return what was said."""
        return self.model_dump()


class BudgetRequestBody(Body):
    """A larger budget that is asked for."""

    epsilon: Amount = Field(description="The new total.")
    data: Label | None = Field(None, description="On which data set, where there are several.")
    reason: Annotated[str, Field(max_length=2000)] = Field("", description="Why, for the owner.")


class DecisionBody(Body):
    """What an owner decides of a request."""

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
    """Return the body of a request; a mistake says where it is, and shows nothing of what was sent."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequestError("Send JSON, with content-type: application/json.", 415)
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        what = re.sub(r"[^\x20-\x7e]", "", first["msg"])[:200]
        raise BadRequestError(
            f"{place or 'the body'}: {what}", 400 if first["type"] == "json_invalid" else 422
        ) from None
