"""Questions that are clicked together: every choice is SQL that the curator understands, and no name becomes SQL."""

from __future__ import annotations

import re
from itertools import product
from urllib.parse import parse_qs, urlsplit

import pytest

from hush.curator.opening import open_policy
from hush.server.auth.people import People
from hush.server.pages.ask import before
from hush.server.pages.tables import CONDITIONS, MEASURES, sql, summable

VALUES = {"age": "30", "city": "Oslo", "street": "it's here", "day": "2025-03-01"}


def test_every_choice_of_the_form_is_understood(browser, people: People, clinic) -> None:
    browser.cookies.set("hush", people.begin_session("alice"))
    (data_set,) = browser.get("/tables.json").json()["data"]
    (table,) = data_set["tables"]
    names = [column["name"] for column in table["columns"]]
    page = browser.get("/ask").text
    offered = {
        name: re.findall(r'<option value="(\d+)"', re.search(rf'<select name="{name}">.*?</select>', page)[0])
        for name in ("of", "by", "where")
    }
    assert [names[int(place)] for place in offered["by"]] == ["city", "day"]
    count = 0
    with open_policy(clinic, analyst="alice") as curator:
        for measure, of, by, where in product(MEASURES, *(["", *places] for places in offered.values())):
            how = list(CONDITIONS)[count % len(CONDITIONS)] if where and names[int(where)] != "street" else "is"
            value = VALUES[names[int(where)]] if where else ""
            chosen = {"measure": measure, "of": of, "by": by, "where": where, "how": how, "value": value}
            curator.explain(sql(table, chosen), epsilon=1)
            count += 1
    assert count > 50


def test_the_form_leads_to_the_question_and_spends_nothing(browser, people: People) -> None:
    browser.cookies.set("hush", people.begin_session("alice"))
    query = {"data": "clinic", "table": "visits", "measure": "sum", "of": "0", "by": "1", "value": "x"}
    told = browser.get("/build", params=query)
    assert told.status_code == 303
    (asked,) = parse_qs(urlsplit(told.headers["location"]).query)["q"]
    assert asked == "SELECT city, SUM(age) AS total_age\nFROM visits\nGROUP BY city"
    assert browser.get(told.headers["location"]).status_code == 200
    assert browser.get("/build", params={**query, "table": "secrets"}).status_code == 404
    assert browser.get("/history.json").json() == {"releases": []}


@pytest.mark.parametrize("place", ["99", "-1", "0; DROP TABLE visits", "²", "9" * 50])
def test_a_place_that_is_none_is_left_out(place: str) -> None:
    table = {"name": 'a"b', "columns": [{"name": 'x" FROM y --', "type": "text"}]}
    assert sql(table, {"by": place}) == 'SELECT COUNT(*) AS n\nFROM "a""b"'
    asked = sql(table, {"by": "0", "where": "0", "how": "is", "value": "'; --"})
    key = '"x"" FROM y --"'
    assert asked == f"SELECT {key}, COUNT(*) AS n\nFROM \"a\"\"b\"\nWHERE {key} = '''; --'\nGROUP BY {key}"


def test_only_numbers_with_limits_are_offered_for_sums() -> None:
    columns = [{"name": "id", "type": "integer"}, {"name": "age", "type": "integer", "lower": 0}]
    columns += [{"name": "cost", "type": "decimal", "lower": None}, {"name": "day", "type": "date", "lower": 0}]
    assert summable({"columns": columns}) == [(1, "age")]


def test_only_errors_of_counts_are_told_as_parts_of_the_rows(clinic) -> None:
    count = "SELECT COUNT(*) AS n FROM visits"
    composed = "SELECT MAX(n) AS m FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city) s"
    with open_policy(clinic, analyst="alice") as curator:
        counts = [
            output["counts"] for sql in (count, composed) for output in before(curator, sql, "", "1", 2000)["outputs"]
        ]
    assert counts == [True, False]
