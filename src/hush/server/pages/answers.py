"""An answer and everything that can be done with it: shown, compared, and taken away as a file, a script or a notebook.

Scripts and notebooks ask again under the same request id, which costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from starlette.responses import RedirectResponse, Response

from hush.core.format import figure
from hush.curator import together
from hush.curator.answer import CAVEATS_SHOWN, Answer
from hush.ledger import LedgerError
from hush.report.columns import AnswerColumn
from hush.report.pictures import kinds, measures, picture, plot
from hush.report.tables import MARK, cell, marks
from hush.server import dashboards
from hush.server.api import attached, number_of, whole, written
from hush.server.errors import UnknownPlaceError
from hush.server.pages.layout import show
from hush.server.routes import ANALYST, Routes, Visit

ROUTES = Routes()
FILES = ("csv", "json", "arrow", "svg")
_PAID = ("answered", "shared")
"""The outcomes of charges that have an answer."""
_SHOWN_ROWS = 200
_WORDS = {
    "MARGINALS": "marginals",
    "SYNTHETIC": "synth",
    "RANGES:": "ranges",
    "FIT": "fit",
    "STREAM": "stream",
    "DASHBOARD": "dashboard",
}
"""How the questions of whole releases begin in the ledger."""
_RECENT = 50
"""How many answers can be chosen for Compare."""
UNNOTED: Mapping[str, Any] = MappingProxyType({"notes": (), "more_notes": ()})
"""Replaces the notes of an answer that is drawn where they are written once for all of them."""


def kind_of(question: str) -> str:
    """Return which kind of whole release a question of the ledger is; nothing for another question."""
    return _WORDS.get(question.split(" ", 1)[0], "")


@ROUTES.page("GET /answers/{name}", ANALYST)
async def answer_page(visit: Visit) -> Response:
    """Show an answer again, in any of its forms; or all answers of a paid refresh of a dashboard."""
    request = visit.request
    name, _, ending = str(request.path_params["name"]).partition(".")
    if (number := number_of(name)) is None:
        raise UnknownPlaceError
    release = await visit.receipt(number)
    if kind_of(release["question"]) == "dashboard" and release["outcome"] in _PAID:
        answers = together.unpacked(await visit.stored(number))
        if ending:  # one of them as a file, by its place
            place = whole(visit.query.get("place", "1"), "place")
            if ending not in FILES or not 1 <= place <= len(answers):
                raise UnknownPlaceError
            return answer_file(answers[place - 1], f"answer-{number}-{place}", ending)
        drawn = [(answer.question, shown(answer)) for answer in answers]
        return await show(visit, "refreshed.html", data=release["data"], receipt=release, answers=drawn)
    try:
        answer = await visit.answer(number)
    except LedgerError:  # a whole release has a place of its own, which also says what else it may be
        return RedirectResponse(f"/releases/{name}", 303)
    if ending in FILES:
        return answer_file(answer, f"answer-{name}", ending)
    if ending in {"py", "ipynb"}:
        address = f"{request.url.scheme}://{request.headers.get('host', 'localhost')}"
        text = program(answer, release, address, as_notebook=ending == "ipynb")
        media = "text/x-python" if ending == "py" else "application/x-ipynb+json"
        return attached(Response(text, media_type=media), f"answer-{name}.{ending}")
    if ending:
        raise UnknownPlaceError
    return await show(
        visit,
        "answer.html",
        data=release["data"],
        answer=shown(answer, f"/answers/{name}", request.query_params),
        receipt=release,
        question=answer.question,
        again="again" in request.query_params,
        dashboards=[
            dashboard
            for dashboard in await dashboards.listed(visit)
            if dashboard.maker == visit.name and dashboard.data == release["data"]
        ],
        epsilon=figure(answer.price.epsilon, exact=True),
    )


def answer_file(answer: Answer, name: str, ending: str) -> Response:
    """Return an answer as a file."""
    response = Response(answer.chart().svg, media_type="image/svg+xml") if ending == "svg" else written(answer, ending)
    return attached(response, f"{name}.{ending}")


@ROUTES.page("GET /compare", ANALYST)
async def compare_page(visit: Visit) -> Response:
    """Show two answers beside each other, with their differences."""
    numbers = [visit.query.get(name, "") for name in ("a", "b")]
    answers: list[Answer] = []
    problem = None
    for number in map(number_of, numbers):
        if number is not None:
            try:
                answers.append(await visit.answer(number))
            except LedgerError:
                problem = {"text": f"There is no answer of yours under receipt {number}.", "pointer": ""}
    pair = answers if len(answers) == 2 else []
    charges = [charge for charge in await visit.history(_RECENT) if charge["outcome"] in _PAID]
    recent = {charge["number"]: charge["question"] for charge in charges if not kind_of(charge["question"])}
    recent |= {number: answer.question for answer in answers if (number := int(answer.receipt)) not in recent}
    by = [" and ".join(_keys(answer)) for answer in pair]
    tables = compared(*pair) if pair else []
    return await show(visit, "compare.html", numbers=numbers, by=by, tables=tables, recent=recent, problem=problem)


def compared(first: Answer, second: Answer) -> list[dict[str, Any]]:
    """Return for each measure of two answers its values for their common keys, with the differences.

    Both answers must have the same key columns, in any order. Measures of one name belong together; where no name is
    common, those in one place do. The ± of a difference is the sum of both: where each holds 19 times in 20, theirs
    holds at least 9 times in 10.
    """
    keys, others = _keys(first), _keys(second)
    if keys.keys() != others.keys():
        return []
    numbers = [
        [column for column in answer.columns if column.noisy and column.kind.numeric] for answer in (first, second)
    ]
    pairs = [(column, other) for column in numbers[0] for other in numbers[1] if column.name == other.name]
    pairs = pairs or list(zip(*numbers, strict=False))
    rows, places = (
        {tuple(columns[name][row] for name in keys): row for row in range(len(answer))}
        for columns, answer in ((keys, first), (others, second))
    )
    shared = [(key, row, places[key]) for key, row in rows.items() if key in places]
    return [
        {
            "names": list(dict.fromkeys((column.name, other.name))),
            "rows": [
                {
                    "key": ", ".join("NULL" if part is None else str(part) for part in key) or "all rows",
                    "a": cell(column, row),
                    "b": cell(other, second_row),
                    "difference": _difference(column, row, other, second_row),
                }
                for key, row, second_row in shared
            ],
        }
        for column, other in pairs
        if shared
    ]


def _difference(one: AnswerColumn, row: int, two: AnswerColumn, other: int) -> str:
    values = one.values[row], two.values[other]
    errors = [error for error in ((one.errors or ())[row], (two.errors or ())[other]) if error is not None]
    if None in values or len(errors) < 2:
        return "?"
    difference = AnswerColumn(name="d", kind=one.kind, values=(values[1] - values[0],), errors=(sum(errors),))
    return cell(difference, 0).replace(f" {MARK}", "")


def _keys(answer: Answer) -> dict[str, tuple[Any, ...]]:
    return {column.name: column.values for column in answer.columns if not column.noisy}


def shown(
    answer: Answer,
    address: str = "",
    query: Mapping[str, str] = MappingProxyType({}),
    stays: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return an answer as templates draw it.

    At an address its measure and kind of chart can be chosen by a query, of which ``stays`` stays as it is; the choices
    have a mark for what is drawn.
    """
    rows = []
    for row in range(min(len(answer), _SHOWN_ROWS)):
        cells = []
        for column in answer.columns:
            value, _, error = cell(column, row).partition(" ± ")
            quiet = column.noisy and column.values[row] is not None and not column.tells(row)
            cells.append({"value": value, "error": error, "numeric": column.kind.numeric, "quiet": quiet})
        rows.append(cells)
    names = measures(answer.columns) if len(answer) else []
    possible = kinds(answer.columns) if names else []
    chart, measure, taken = "", "", None
    if names:
        measure = query.get("measure", "") if query.get("measure") in names else names[0]
        kind = next((kind for kind in possible if kind.value == query.get("chart")), None)
        chart, taken = (
            both(answer.columns, column=measure, kind=kind),
            kind or plot(answer.columns, column=measure).kind,
        )
    return {
        "columns": answer.columns,
        "rows": rows,
        "further": max(len(answer) - _SHOWN_ROWS, 0),
        "chart": chart,
        "measures": [(name, name == measure) for name in names],
        "kinds": [(kind.value, kind is taken) for kind in possible],
        "address": address,
        "stays": stays,
        "price": str(answer.price),
        "confidence": f"{100 * answer.confidence:.6g} %",
        "receipt": answer.receipt,
        "notes": [*marks(answer.columns), *answer.caveats[:CAVEATS_SHOWN]],
        "more_notes": answer.caveats[CAVEATS_SHOWN:],
        "made_up": answer.made_up,
    }


def both(columns: Sequence[AnswerColumn], *, wide: float = 520.0, dummy: str = "", **how: Any) -> str:
    """Return a picture for wide screens and one for phones; the style sheet hides one, also from screen readers."""
    sheets = {
        kind: picture(columns, width=width, heading=False, dummy=dummy and f"{dummy}{width:.0f}", **how)
        for kind, width in (("wide", wide), ("narrow", 340.0))
    }
    return "".join(sheet.page(classes=kind) for kind, sheet in sheets.items() if sheet is not None)


def program(answer: Answer, release: dict[str, Any], address: str, *, as_notebook: bool) -> str:
    """Return a program that shows the answer again; or a notebook, with its chart."""
    lines = release["question"].splitlines(keepends=True) or [""]
    question = "\n    ".join(json.dumps(line, ensure_ascii=False) for line in lines)
    price = answer.price.epsilon
    epsilon = text if Fraction(text := figure(price, exact=True)) == price else str(price)
    note = f"Receipt {release['number']} of {release['when'][:10]}. To run this costs nothing: the answer is kept."
    connect = (
        "import os\n\nimport hush\n\n# a token from the page Account; it is never written into a file\n"
        f'curator = hush.connect({json.dumps(address)}, token=os.environ["HUSH_TOKEN"])'
    )
    ask = (
        f"answer = curator.ask(\n    {question},\n    epsilon={json.dumps(epsilon)},\n"
        f"    data={json.dumps(release['data'])},\n    request={json.dumps(release['request'])},\n)"
    )
    if not as_notebook:
        return f'"""{note}"""\n\n{connect}\n\n{ask}\n\nprint(answer)\n'
    sources = (f"# Answer {release['number']}\n\n{note}", connect, f"{ask}\nanswer", "answer.chart()")
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code" if index else "markdown",
            "id": f"cell-{index}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
            **({"execution_count": None, "outputs": []} if index else {}),
        }
        for index, source in enumerate(sources)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)
