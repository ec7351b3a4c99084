"""The Ask page: a question, with its price and expected error at 25 prices before it is charged.

Looking never spends: ``GET /ask?q=…`` explains, ``POST /ask`` asks and leads to the answer's own address. A request id
in the form makes a second click, or a second try, bring the same answer for nothing.

*Before you spend* follows from the question, the policy and what is left of the budgets. No row is read and nothing is
charged. The page gets all prices at once, so that its slider moves without asking again. They are eight to a decade, so
that each is about a third higher than the one before. The highest is the remaining budget:

>>> ladder(Fraction("1.27"))[-3:], len(ladder(Fraction("1.27")))
(['0.75', '1', '1.27'], 25)

The odds are those of `hush.utility.posterior`, rounded up, for an observer who starts with even odds about one person.

>>> odds("0.1")
'Somebody who was 50 in 100 sure of a fact about one person can be at most 53 in 100 sure after this answer.'
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from hush.core import HushError, exact
from hush.core.format import figure, percent
from hush.curator.answer import Answer
from hush.curator.curator import Curator
from hush.curator.explanation import Explanation
from hush.ledger.budgets import price, takes
from hush.query.plan import Plan
from hush.query.plan.keys import Listed
from hush.query.types import Kind
from hush.report.columns import AnswerColumn
from hush.report.pictures import label
from hush.server.api import number_of
from hush.server.pages.answers import both, shown
from hush.server.pages.layout import data_set_named, rounded, show
from hush.server.pages.tables import CONDITIONS, MEASURES, summable
from hush.server.rate_limits import Rate
from hush.server.routes import ANALYST, Routes, Visit
from hush.utility import posterior

ROUTES = Routes()
PRICES = 25
ROWS = 2000
"""How many rows a group is supposed to have, unless somebody says otherwise."""
_DECADE = ("1", "1.3", "1.8", "2.4", "3.2", "4.2", "5.6", "7.5")
_SHAPE = (1.0, 1.6, 0.45, 0.22, 0.72, 1.25, 0.9, 0.35)
"""Heights of made-up bars, as parts of the rows a group is supposed to have."""
_MOST_BARS = 8
_USUAL = 25
"""The proposed price is the limit of the smaller budget over this, whatever is left: it stays while there is room."""
_MOVED = ("prices", "odds", "takes", "more", "bars", "outputs")
"""The values with which the page's script moves the slider."""


@ROUTES.page("GET /ask", ANALYST)
async def ask_page(visit: Visit, *, error: HushError | None = None, tried: Answer | None = None) -> Response:
    """Show a question, with its price and expected error before it is charged."""
    form = await visit.fields()
    question, data_set = form["q"], await data_set_named(visit, form["data"])
    preview: dict[str, Any] | None = None
    if question.strip():
        try:
            rows = number_of(form["rows"]) or 0
            terms = form["data"], form["epsilon"].strip(), rows if 0 < rows <= 10**9 else ROWS
            preview = await visit.for_nothing(Rate.EXPLANATIONS, lambda curator: before(curator, question, *terms))
        except HushError as refusal:
            error = error or refusal
    tables = [table for table in data_set["tables"] if not table["public"]] if data_set else []
    examples = tables[0]["examples"] if tables else []
    # the ε above which a question waits for the owner
    ask_first = await visit.with_policy(
        lambda opened: getattr(opened.policy.analysts.get(visit.name), "ask_first", None)
    )
    script = {} if preview is None else {name: preview[name] for name in _MOVED}
    return await show(
        visit,
        "ask.html",
        error=error,
        data="" if data_set is None else data_set["name"],
        schema=data_set,
        question=question,
        known=preview,
        prices=json.dumps(script, ensure_ascii=False) if script else "",
        dummy="" if preview is None else preview["dummy"],
        examples=[*examples[1:], *examples[:1]],  # the plain count, which shows least, comes last
        tables=tables,
        measures=MEASURES,
        summable=summable,
        conditions=CONDITIONS,
        answer=None if tried is None else shown(tried),
        ask_first="" if ask_first is None else figure(ask_first, exact=True),
        reason=form["reason"],
    )


@ROUTES.page("POST /explain", ANALYST)
async def explain(visit: Visit) -> Response:
    """Lead to the address at which a question is explained."""
    return await led_to("/ask", visit, "q data epsilon rows")


async def led_to(address: str, visit: Visit, names: str) -> Response:
    """Return the way to an address with fields of the form as its query."""
    form = await visit.fields()
    query = {name: form[name] for name in names.split() if form[name]}
    return RedirectResponse(f"{address}?{urlencode(query)}", 303)


@ROUTES.page("POST /ask", ANALYST, "ask", refused=ask_page)
async def ask(visit: Visit) -> Response:
    """Ask, and lead to the answer."""
    form = await visit.fields()
    answer = await visit.ask(
        question=form["q"],
        data=form["data"] or None,
        epsilon=form["epsilon"].strip() or None,
        fresh="fresh" in form,
        reason=form["reason"].strip(),
        request=form["request"] or None,
    )
    return RedirectResponse(f"/answers/{answer.receipt}{'?again=1' if answer.repeated else ''}", 303)


@ROUTES.page("POST /try", ANALYST, refused=ask_page)
async def try_out(visit: Visit) -> Response:
    """Answer a question from made-up rows, for nothing."""
    form = await visit.fields()
    epsilon, data = form["epsilon"].strip() or "0.1", form["data"] or None
    answer = await visit.dummy(question=form["q"], rate=Rate.TRIES, epsilon=epsilon, data=data)
    return await ask_page(visit, tried=answer)


# before you spend


def ladder(left: Fraction) -> list[str]:
    """Return the prices that can be chosen, up to the remaining budget."""
    top = left if left > 0 else Fraction(1)
    power = math.floor(math.log10(top))
    # Five decades have enough below any top: 24 steps are three of them.
    powers = [Fraction(10) ** exponent for exponent in range(power - 4, power + 1)]
    steps = [Fraction(step) * unit for unit in powers for step in _DECADE]
    return [figure(step, exact=True) for step in [*[step for step in steps if step < top][1 - PRICES :], top]]


def odds(epsilon: str) -> str:
    """Return in words how much an answer at a price can reveal about one person."""
    percent = math.ceil(100 * posterior(epsilon) - 1e-9)
    parts = f"{percent} in 100" if percent < 100 else "all but"
    return f"Somebody who was 50 in 100 sure of a fact about one person can be at most {parts} sure after this answer."


def before(curator: Curator, question: str, data: str, epsilon: str, rows: int) -> dict[str, Any]:
    """Return what is known of a question at each price; raise the refusal of a question that cannot be asked.

    ``takes`` is the share of the binding budget that each price takes, in words, and ``more`` how many questions like
    it fit. ``bars`` have for each account its remaining share, and then the share that each price takes.
    """
    named = data if data in curator.data_sets else None
    data_set, _ = curator.parse(question, (), named)
    views = [view for view in curator.budget() if view.data == data_set.schema.data]
    prices = ladder(min((view.remaining.epsilon for view in views), default=Fraction(0)))
    if epsilon and epsilon not in prices:
        wanted = exact(epsilon, "epsilon")
        prices = sorted([epsilon, *(step for step in prices if Fraction(step) != wanted)], key=Fraction)
    usual = min((view.epsilon for view in views), default=Fraction(0)) / _USUAL
    near = max((index for index, step in enumerate(prices) if Fraction(step) <= usual), default=0)
    chosen = prices.index(epsilon) if epsilon else near
    explained = curator.at_prices(question, epsilons=prices, data=named)
    outputs = _outputs(explained, rows)
    bars = [
        (1 - view.account.share_spent, *(takes(view.account, price(view.account, told.events)) for told in explained))
        for view in views
    ]
    return {
        "prices": prices,
        "chosen": chosen,
        "odds": [odds(step) for step in prices],
        "takes": [_takes(explanation) for explanation in explained],
        "more": [0 if told.outlook is None else told.outlook.more for told in explained],
        "outputs": outputs,
        "bars": [list(map(float, shares)) for shares in bars],
        "notes": explained[chosen].caveats,
        "rows": rows,
        "dummy": _dummy(explained[chosen], outputs, chosen, rows),
    }


def _takes(explanation: Explanation) -> str:
    """Return in words the share that a question takes, and the share that is left then."""
    outlook = explanation.outlook
    if outlook is None:
        return "free"
    share = percent(outlook.takes, taken=True)
    if not outlook.more:
        return f"takes {share} of {outlook.whose}: more than the {percent(outlook.left)} that is left"
    return f"takes {share} of {outlook.whose}; {percent(outlook.left - outlook.takes)} is left then"


def _outputs(explained: Sequence[Explanation], rows: int) -> list[dict[str, Any]]:
    """Return the noisy numbers of a question, each with its error at each price for groups as large as supposed.

    An error is None where it depends on the data. For averages it is a bound; for counts it is told as a part, too.
    """
    tables = [{**told.errors(), **told.errors_if_settled()} for told in explained]
    times = [told.errors_times_rows() for told in explained]
    first, outputs = explained[0], []
    kinds = dict(first.plan.question.outputs) if isinstance(first.plan, Plan) else {}
    for name in tables[0]:
        average, counts = name in times[0], name in kinds and kinds[name].type.kind is Kind.INTEGER
        errors = [bounds[name] / rows for bounds in times] if average else [table[name] for table in tables]
        words, parts = [], []
        for error in errors:
            part = 0.0 if error is None else 100 * error / rows
            mark = "≤ about" if average else "±"
            words.append("known with the answer" if error is None else f"{mark} {rounded(error)}")
            parts.append("" if error is None or not counts else f"{part:,.0f} %" if part >= 10 else f"{part:.2g} %")
        outputs.append({"name": name, "errors": errors, "words": words, "parts": parts, "counts": counts})
    return outputs


def _keys(explanation: Explanation) -> AnswerColumn:
    """Return some keys of the answer: public ones as they are, others made up."""
    name, values, plan = " ", tuple(f"group {number}" for number in range(1, 6)), explanation.plan
    if isinstance(plan, Plan) and not plan.question.keys:
        values = ("all rows",)
    elif isinstance(plan, Plan):
        name, domains = plan.question.keys[0][0], plan.exact_query.domains
        for shown_as, output in plan.question.outputs:
            if (getattr(output, "source", ""), getattr(output, "index", None)) == ("key", 0):
                name = shown_as
        if domains is not None and isinstance(domains[0], Listed):
            values = tuple(
                label(value if not isinstance(value, Fraction) else int(value) if value == int(value) else float(value))
                for value in domains[0].values[:_MOST_BARS]
            )
    return AnswerColumn(name=name, kind=Kind.TEXT, values=values)


def _dummy(explanation: Explanation, outputs: Sequence[dict[str, Any]], chosen: int, rows: int) -> str:
    """Return hatched bars of made-up heights with the error bars that the chosen price would have."""
    output = next((output for output in outputs if output["errors"][chosen] is not None), None)
    if output is None:
        return ""
    error, name, counts, keys = output["errors"][chosen], output["name"], output["counts"], _keys(explanation)
    scale = rows if counts else max(error * 3, 1.0)
    heights = tuple(round(scale * height, 2) for height in _SHAPE[: len(keys.values)])
    errors = (error,) * len(heights)
    bars = AnswerColumn(name=name, kind=Kind.DECIMAL, values=heights, errors=errors, counts=counts)
    return both([keys, bars], dummy="hatch")
