"""What SQL means as a question."""

from __future__ import annotations

import datetime as dt
import pickle
from fractions import Fraction

import numpy as np
import pytest

from hush.query.answers.tree import Composed
from hush.query.errors import QuestionError, UnboundedError
from hush.query.expressions import Call, Literal, Op, Released
from hush.query.plan import UnplannableError, plan
from hush.query.question import AggregateKind
from hush.query.relations import ExactKind, Filter, Join, JoinKind, PerUnit, Project, Scan, UnionAll, columns
from hush.query.schema import Hop, Schema, Table, UnitPath
from hush.query.sql import parse
from hush.query.types import Kind, Type


def ask(text, schema, *values):
    return parse(text, schema, values)


def test_the_parts_of_a_question(schema):
    question = ask(
        "SELECT disease, COUNT(*) AS n, AVG(cost) FROM visits WHERE age >= 30 "
        "GROUP BY disease HAVING n > 10 ORDER BY n DESC NULLS FIRST, disease LIMIT 5 OFFSET 2",
        schema,
    )
    assert question.data == "clinic"
    assert isinstance(question.relation, Filter)
    assert [name for name, _, _ in question.relation.source.columns] == ["age", "disease", "cost"]
    assert [name for name, _ in question.keys] == ["disease"]
    assert [a.kind for a in question.aggregates] == [AggregateKind.COUNT, AggregateKind.AVG]
    assert [name for name, _ in question.outputs] == ["disease", "n", "avg_cost"]
    assert question.outputs[1][1] == Released("aggregate", 0, question.aggregates[0].type)
    assert question.having.arguments[0] == Released("aggregate", 0, question.aggregates[0].type)
    assert [(o.descending, o.nulls_first) for o in question.order] == [(True, True), (False, False)]
    assert (question.limit, question.offset) == (5, 2)
    assert question.text.startswith("SELECT disease")
    assert pickle.loads(pickle.dumps(question)) == question


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT city, COUNT(*) n FROM visits GROUP BY city",
            'select "CITY" as city, count(*) as n from VISITS group by 1',
        ),
        (
            "SELECT COUNT(*) AS n FROM visits WHERE age BETWEEN 1 AND 5",
            "SELECT COUNT(*) AS n FROM visits v WHERE v.age >= 1 AND age <= 5",
        ),
        (
            "SELECT city, age > 9 AS old, COUNT(*) AS n FROM visits GROUP BY 1, 2 ORDER BY 1 DESC, 2 DESC, 3 DESC",
            "SELECT city, age > 9 AS old, COUNT(*) AS n FROM visits GROUP BY ALL ORDER BY ALL DESC",
        ),
        (
            "SELECT city, disease, COUNT(*) AS n FROM visits GROUP BY city, disease",
            "SELECT city, disease, COUNT(*) AS n FROM visits GROUP BY (city, disease)",
        ),
        ("SELECT COUNT(*) AS n FROM visits", "SELECT COUNT(*) AS n FROM visits GROUP BY ALL"),
        (
            "SELECT AVG(CLIP(n, 0, 9)) AS m FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t",
            "SELECT AVG(CLIP(n, 0, 9)) AS m FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY ALL) t",
        ),
        ("SELECT COUNT_IF(smoker) AS n FROM visits", "SELECT COUNT(*) FILTER (WHERE smoker) AS n FROM visits"),
        (
            "SELECT MEDIAN(age) AS m FROM visits",
            "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) AS m FROM visits",
        ),
        (
            "SELECT QUANTILE(age, 0.9) AS m FROM visits",
            "SELECT PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY age DESC) AS m FROM visits",
        ),
        ("SELECT COUNT(quantity) AS n FROM visits", "SELECT COUNT(*) AS n FROM visits"),
        ("SELECT COUNT(patient_id) AS n FROM visits", "SELECT COUNT(1) AS n FROM visits"),
        (
            "SELECT COUNT(*) AS n FROM visits WHERE age > 1 AND (age < 9 AND cost > 2)",
            "SELECT COUNT(*) AS n FROM visits WHERE (age > 1 AND age < 9) AND cost > 2",
        ),
        (
            "SELECT IF(smoker, 1, 0) AS s, COUNT(*) AS n FROM visits GROUP BY s",
            "SELECT CASE WHEN smoker THEN 1 ELSE 0 END AS s, COUNT(*) AS n FROM visits GROUP BY 1",
        ),
        (
            "SELECT COUNT(*) AS n FROM visits JOIN patients USING (patient_id)",
            "SELECT COUNT(*) AS n FROM visits a JOIN patients b ON b.patient_id = a.patient_id",
        ),
        (
            "SELECT AVG(age) AS m FROM (SELECT age, cost FROM visits) t",
            "WITH t AS (SELECT cost, age FROM visits) SELECT AVG(age) AS m FROM t",
        ),
        (
            "SELECT YEAR(day) AS y, COUNT(*) n FROM visits GROUP BY y",
            "SELECT EXTRACT(year FROM day) AS y, COUNT(*) n FROM visits GROUP BY DATE_PART('year', day)",
        ),
        (
            "SELECT COUNT(*) n FROM visits WHERE day > DATE '2020-02-01'",
            "SELECT COUNT(*) n FROM visits WHERE day > '2020-02-01'",
        ),
    ],
)
def test_two_ways_to_ask_the_same(one, other, schema):
    assert ask(one, schema) == ask(other, schema)


def test_keys_and_functions_of_keys(schema):
    question = ask(
        "SELECT (age + 1) * 2 AS k, COUNT(*) / (age + 1) AS r FROM visits GROUP BY age + 1 HAVING age + 1 > 3", schema
    )
    ((name, key),) = question.keys
    assert name == "age + 1"
    assert key.op is Op.ADD
    assert question.outputs[0][1].arguments[0] == Released("key", 0, key.type)
    with pytest.raises(QuestionError, match="neither in GROUP BY nor inside an aggregate"):
        ask("SELECT age, COUNT(*) FROM visits GROUP BY age + 1", schema)


def test_an_aggregate_written_twice_is_asked_once(schema):
    question = ask("SELECT SUM(cost), SUM(cost) / COUNT(*), COUNT(*) FROM visits ORDER BY SUM(cost)", schema)
    assert len(question.aggregates) == 2
    assert [name for name, _ in question.outputs] == ["sum_cost", "column_2", "count"]


def test_ranges_reach_the_aggregates(schema):
    def argument(text):
        return ask(text, schema).aggregates[0].arguments[0].type

    product = argument("SELECT SUM(cost * quantity) FROM visits")
    assert (product.lower, product.upper, product.step) == (0, 50000, Fraction(1, 100))
    narrowed = argument("SELECT SUM(age) FROM visits WHERE age > 17 AND NOT age >= 66")
    assert (narrowed.lower, narrowed.upper, narrowed.nullable) == (18, 65, False)
    assert argument("SELECT SUM(income) FROM visits WHERE income BETWEEN 0 AND 9").upper == 9
    assert argument("SELECT SUM(income) FILTER (WHERE income BETWEEN 0 AND 9) FROM visits").upper == 9
    assert argument("SELECT SUM(CASE WHEN income > 0 AND income < 5 THEN income ELSE -1 END) FROM visits").lower == -1
    assert argument("SELECT AVG(x) FROM (SELECT income AS x FROM visits WHERE income IN (1, 4)) t").upper == 4
    ratio = argument("SELECT SUM(cost / quantity) FROM visits")
    assert (ratio.lower, ratio.upper, ratio.nullable) == (0, 5000, True)
    assert argument("SELECT SUM(COALESCE(age, 0)) FROM visits").nullable is False


def test_public_keys(schema):
    def values(text):
        return ask(text, schema).keys[0][1].type.values

    assert values("SELECT city, COUNT(*) FROM visits WHERE city IN ('Bern', 'Rome') GROUP BY city") == ("Bern", "Rome")
    assert values("SELECT UPPER(disease), COUNT(*) FROM visits WHERE disease <> 'Flu' GROUP BY 1") == (
        "DIABETES",
        "HEPATITIS",
        "HIV",
    )
    assert values("SELECT CASE WHEN age < 18 THEN 'a' ELSE 'b' END AS g, COUNT(*) FROM visits GROUP BY g") == ("a", "b")
    assert values("SELECT BIN(age, 0, 100, 4), COUNT(*) FROM visits GROUP BY 1") == (0, 25, 50, 75)
    assert len(values("SELECT DATE_TRUNC('month', day), COUNT(*) FROM visits GROUP BY 1")) == 60
    assert values("SELECT smoker, COUNT(*) FROM visits GROUP BY 1") == (False, True)
    decade = ask("SELECT FLOOR(age / 10) * 10 AS d, COUNT(*) FROM visits GROUP BY d", schema).keys[0][1].type
    assert (decade.kind, decade.lower, decade.upper, decade.step) == (Kind.INTEGER, 0, 120, 10)


def test_joins(schema):
    question = ask(
        "SELECT p.sex, r.name, SUM(v.cost) FROM visits v "
        "LEFT JOIN patients p ON v.patient_id = p.patient_id AND p.born > v.age "
        "AND p.city = v.city LEFT JOIN regions r USING (region_id) GROUP BY p.sex, r.name",
        schema,
    )
    outer = question.relation
    inner = outer.left
    assert isinstance(outer, Join)
    assert isinstance(inner, Join)
    assert inner.kind is JoinKind.LEFT
    assert [(left.name, right.name) for left, right in inner.on] == [("city", "city_2")]
    assert inner.where.op is Op.GREATER
    assert [(left.name, right.name) for left, right in outer.on] == [("region_id", "region_id_2")]
    assert not set(columns(outer.left)) & set(columns(outer.right))
    assert question.keys[0][1].type.nullable


@pytest.mark.parametrize("kind", ["", "LEFT", "RIGHT", "SEMI", "ANTI"])
def test_using_a_foreign_key_is_the_join_on_it(kind):
    """Where the key leads to the unit, it joins on the unit, too."""
    order, whole = Hop(column="order", table="orders", key="order"), Type(Kind.INTEGER, True, step=Fraction(1))
    tables = (
        Table(name="orders", columns={"total": whole}, unit=UnitPath(column="customer"), keys={"order": whole}),
        Table(
            name="items",
            columns={"price": whole},
            unit=UnitPath(column="customer", hops=(order,)),
            keys={"order": whole},
        ),
    )
    shop = Schema(data="shop", tables={table.name: table for table in tables}, unit="customer")
    text = f"SELECT COUNT(*) AS n FROM orders o {kind} JOIN items i "
    assert ask(text + 'USING ("order")', shop) == ask(text + 'ON o."order" = i."order"', shop)
    with pytest.raises(QuestionError, match="joined on the unit, too"):
        ask(text.replace("orders", "(SELECT customer, total AS price FROM orders)") + "USING (price)", shop)


def test_a_join_says_what_belongs_together(schema):
    crossed = [ask(f"SELECT COUNT(*) FROM visits{sign}regions", schema).relation for sign in (", ", " CROSS JOIN ")]
    assert crossed[0] == crossed[1]
    for sign in ("JOIN", "INNER JOIN", "JOIN tests USING (patient_id) JOIN", "JOIN regions r USING (region_id) JOIN"):
        with pytest.raises(
            QuestionError, match=r"A JOIN needs ON or USING; got (INNER )?JOIN regions.*CROSS JOIN pairs"
        ):
            ask(f"SELECT COUNT(*) FROM visits {sign} regions", schema)
    with pytest.raises(QuestionError, match="needs ON or USING; got LEFT JOIN regions"):
        ask("SELECT COUNT(*) FROM visits LEFT JOIN regions", schema)
    nested = "SELECT COUNT(*) FROM visits JOIN (regions JOIN regions AS r) ON TRUE"
    with pytest.raises(QuestionError):
        ask(nested, schema)


def test_within_a_unit(schema):
    question = ask(
        "SELECT AVG(total) FROM (SELECT patient_id, disease, SUM(cost) FILTER (WHERE age > 3) AS total, COUNT(*) AS n "
        "FROM visits GROUP BY 1, 2 HAVING SUM(cost) FILTER (WHERE age > 3) <= 99) t WHERE n < 4",
        schema,
    )
    node = question.relation
    assert isinstance(node, Filter)
    assert isinstance(node.source, Project)
    assert isinstance(node.source.source, Filter)
    per_unit = node.source.source.source
    assert isinstance(per_unit, PerUnit)
    assert [name for name, _ in per_unit.keys] == ["disease_2"]
    assert {aggregate.kind for _, aggregate in per_unit.aggregates} == {ExactKind.SUM, ExactKind.COUNT}
    total = question.aggregates[0].arguments[0].type
    assert (total.lower, total.upper, total.nullable) == (0, 99, False)
    with pytest.raises(UnboundedError, match="Column n in AVG"):
        ask("SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t", schema)


def test_unions(schema):
    question = ask(
        "SELECT city, COUNT(DISTINCT who) FROM (SELECT patient_id AS who, city, age FROM visits UNION ALL "
        "SELECT patient_id, city, born * 1.5 FROM patients) t WHERE age < 50 GROUP BY city",
        schema,
    )
    union = question.relation.source
    assert isinstance(union, UnionAll)
    assert [name for name, _ in union.columns] == ["city", "age"]
    assert [type_.kind for _, type_ in union.columns] == [Kind.TEXT, Kind.DECIMAL]
    assert all(set(columns(source)) == {"city", "age"} for source in union.sources)
    assert question.aggregates[0].kind is AggregateKind.COUNT_UNITS


def test_a_union_may_hold_constants(schema):
    names = "SELECT name FROM regions UNION SELECT 'x'"
    question = ask(f"SELECT COUNT(*) FROM visits JOIN ({names}) AS t ON city = t.name", schema)
    assert isinstance(question.relation, Join)
    assert set(columns(question.relation.right)) == {question.relation.on[0][1].name}


def test_only_what_is_used_is_read(schema):
    assert ask("SELECT COUNT(*) FROM (SELECT * FROM visits) t", schema).relation == Scan(
        table="visits", public=False, columns=()
    )


def test_units_by_path_have_a_name(schema):
    question = ask("SELECT COUNT(DISTINCT patient_id), AVG(result) FROM tests JOIN patients USING (patient_id)", schema)
    assert question.aggregates[0].kind is AggregateKind.COUNT_UNITS


def test_rows_as_units():
    table = Table(name="t", columns={"x": Type(Kind.INTEGER, True, Fraction(0), Fraction(9), Fraction(1))})
    schema = Schema(data="d", tables={"t": table})
    assert ask("SELECT SUM(x) FROM t", schema).aggregates
    twice = ask("SELECT SUM(x) FROM (SELECT x FROM t UNION ALL SELECT x FROM t) s", schema)
    with pytest.raises(UnplannableError, match="read only once"):
        plan(twice, schema, epsilon=1)
    with pytest.raises(QuestionError, match="every row is a unit"):
        ask("SELECT COUNT(*) FROM t a JOIN t b ON a.x = b.x", schema)
    assert isinstance(ask("SELECT AVG(n) FROM (SELECT x, COUNT(*) AS n FROM t GROUP BY x) s", schema), Composed)


def test_parameters(schema):
    by_place = parse("SELECT COUNT(*) AS n FROM visits WHERE age > ? AND city = ? LIMIT ?", schema, [30, "Bern", 5])
    by_name = parse(
        "SELECT COUNT(*) AS n FROM visits WHERE age > $a AND city = $c LIMIT $l", schema, {"l": 5, "a": 30, "c": "Bern"}
    )
    assert (
        by_place
        == by_name
        == parse("SELECT COUNT(*) AS n FROM visits WHERE age > 30 AND city = 'Bern' LIMIT 5", schema)
    )
    # by place in the text, not in the tree
    swapped = parse("FROM visits SELECT SUM(age + ?) AS s WHERE age > ?", schema, [1, 2])
    assert swapped.aggregates[0].arguments[0].arguments[1].value == 1
    typed = parse(
        "SELECT COUNT(*) FROM visits WHERE day > ? AND smoker = ? AND cost > ? AND age > ?",
        schema,
        (dt.date(2021, 1, 1), True, 0.1, np.int64(3)),
    )
    literals = [part.arguments[1].value for part in _conjuncts(typed.relation.condition)]
    assert literals == [dt.date(2021, 1, 1), True, Fraction(1, 10), 3]
    assert all(isinstance(part.arguments[1], Literal) for part in _conjuncts(typed.relation.condition))


def _conjuncts(condition):
    if isinstance(condition, Call) and condition.op is Op.AND:
        return [*_conjuncts(condition.arguments[0]), condition.arguments[1]]
    return [condition]


@pytest.mark.parametrize(
    ("text", "parameters", "words"),
    [
        ("age > ?", [], r"Parameter 1 is missing; got 0\. Pass a value"),
        ("age > ?", [1, 2], r"uses 1 parameters; got 2\. Leave the last 1 of them out"),
        ("age > $low", {"lov": 1}, "Did you mean 'lov'"),
        ("age > ?", [float("nan")], "finite"),
        ("age > ?", [object()], "must be a number"),
        ("age > ?", [b"x"], "must be a number"),
        ("age > ?", ["x"], "text"),
        ("at > ?", [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], "time zone"),
        ("age > ?", [None], "IS NULL"),
        ("age > ?", "x", "list for"),
        ("city = ?", ["\ud800"], "not text"),
        ("age > ?", [10**400], "between 1e-300 and 1e300"),
    ],
)
def test_bad_parameters(text, parameters, words, schema):
    with pytest.raises(QuestionError, match=words):
        parse(f"SELECT COUNT(*) FROM visits WHERE {text}", schema, parameters)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT diseese, COUNT(*) FROM visits GROUP BY 1", "no column 'diseese' here. Did you mean 'disease'"),
        ("SELECT COUNT(*) FROM visit", "no table 'visit'. Did you mean 'visits'"),
        ("SELECT SUMM(age) FROM visits", "no function SUMM here. Did you mean 'SUM'"),
        ("SELECT cuont(*) FROM visits", "no function cuont here. Did you mean 'COUNT'"),
        ("SELECT To_Char(day, 'YYYY'), COUNT(*) FROM visits GROUP BY 1", "no function To_Char here. Use STRFTIME"),
        ("SELECT COUNT(unnest(age)) FROM visits", "There is no function unnest here"),
        ("SELECT string_agg(city, ',') FROM visits", "no aggregate string_agg here. Ask for GROUP BY"),
        ("SELECT any_value(age) FROM visits", "no aggregate any_value here"),
        ("SELECT weekday(day), COUNT(*) FROM visits GROUP BY 1", "no function weekday here"),
        ("SELECT COUNT(*) FROM visits v WHERE w.age > 1", "no table 'w' in FROM"),
        (
            "SELECT COUNT(*) FROM visits JOIN patients USING (patient_id) WHERE city = 'x'",
            "visits.city or patients.city",
        ),
        ("SELECT COUNT(*) FROM (SELECT *, age AS cost FROM visits) t", "Two results are called 'cost'"),
        ("SELECT COUNT(*) FROM visits WHERE cost // 2 = 1", "// needs whole numbers; got cost"),
        ("SELECT COUNT(*) FROM visits WHERE day + INTERVAL (age) DAY > day", "constant whole number of years"),
        ("SELECT COUNT(*) FROM visits WHERE day + INTERVAL 1.5 DAY > day", "constant whole number of years"),
        ("SELECT COUNT(*) FROM visits WHERE day + INTERVAL 'soon' > day", "constant whole number of years"),
        ("SELECT COUNT(*) FROM visits WHERE day + INTERVAL 999999 YEAR > day", "from -120000 to 120000 as its months"),
        ("SELECT COUNT(*) FROM visits WHERE age + INTERVAL 1 DAY > day", "needs date or timestamp; got age"),
        ("SELECT COUNT(*) FROM visits WHERE day = INTERVAL 1 DAY", "beside a date"),
        ("SELECT COUNT(*) FROM visits WHERE DATE_DIFF('eon', day, at) > 1", "counted years, quarters"),
        ("SELECT COUNT(*) FROM visits WHERE city LIKE 'a!' ESCAPE '!'", "ends with its ESCAPE"),
        ("SELECT COUNT(*) FROM visits WHERE city LIKE 'a' ESCAPE 'é'", "one ASCII character"),
        ("SELECT COUNT(*) FROM visits WHERE city LIKE '!%%%%%%%' ESCAPE '!'", "at most 5 '%'"),
        ("SELECT SUM(disease) FROM visits", "needs numbers; disease is text"),
        ("SELECT SUM(age + disease) FROM visits", r"\+ needs numbers; got disease, which is text"),
        ("SELECT COUNT(*) FROM visits WHERE disease = 3", "disease is text and 3 is integer"),
        ("SELECT COUNT(*) FROM visits WHERE age = NULL", "IS NULL"),
        (
            "SELECT COUNT(*) FROM visits WHERE REGEXP_FULL_MATCH(city, 'a)|(?:b')",
            "has parentheses that do not match",
        ),
        (
            "SELECT SUM(k) FROM (SELECT patient_id, COUNT(DISTINCT age) OVER (PARTITION BY patient_id) k FROM visits)",
            r"DISTINCT age\) is not available as a window over rows. Take it in a subquery that groups by patient_id",
        ),
        ("SELECT COUNT(*) FROM visits WHERE age", "A condition is needed; age is integer"),
        ("SELECT COUNT(*) FROM visits WHERE day > 'yesterday'", "'yesterday' is not a date"),
        ("SELECT SUM(income * age) FROM visits", "Column income in SUM"),
        ("SELECT SUM(CLIP(income, 5, 1)) FROM visits", "lower bound that is not above"),
        ("SELECT QUANTILE(age, 1.5) FROM visits", "between 0 and 1"),
        ("SELECT QUANTILE(age, cost) FROM visits", "between 0 and 1"),
        ("SELECT COUNT(*) AS n, SUM(age) AS N FROM visits", "Two results are called"),
        ("SELECT COUNT(*) FROM visits GROUP BY 7", "number 7 does not exist"),
        ("SELECT COUNT(*) FROM visits LIMIT -1", "whole number"),
        ("SELECT COUNT(*) FROM visits HAVING age > 3", "would show single rows"),
        ("SELECT COUNT(*) FROM visits ORDER BY age", "would show single rows"),
        ("SELECT 1 FROM visits", "no aggregate"),
        ("SELECT FROM visits GROUP BY disease", "names no results"),
        ("SELECT COUNT(*) FROM (SELECT FROM visits) t", "names no results"),
        ("SELECT NULL, COUNT(*) FROM visits GROUP BY 1", "one group"),
        ("SELECT COUNT(*) FROM visits GROUP BY 'x'", "one group"),
        ("SELECT SUM(NULL) FROM visits", "about nothing"),
        ("SELECT COUNT(*) FROM visits WHERE NULL", "never true"),
        ("SELECT COUNT(*)", "no FROM"),
        ("", "empty"),
        ("-- nothing", "empty"),
        ("SELECT COUNT(* FROM visits", "line 1"),
        ("SELECT COUNT(*) FROM visits WHERE city = 'x", "not closed"),
        ("SELECT AVG(age) FROM (SELECT patient_id + 1 AS x, age FROM visits) t", "protected unit"),
        ("SELECT COUNT(DISTINCT patient_id) FROM (SELECT age FROM visits) t", "no column 'patient_id'"),
    ],
)
def test_what_a_refusal_says(text, words, schema):
    with pytest.raises(QuestionError, match=words) as caught:
        parse(text, schema)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "WITH t(who, years) AS (SELECT patient_id, age FROM visits) SELECT AVG(years), COUNT(DISTINCT who) FROM t",
        "WITH t(who) AS (SELECT patient_id, age AS years FROM visits) SELECT AVG(years), COUNT(DISTINCT who) FROM t",
        "WITH t(a) AS (SELECT patient_id, age FROM visits) SELECT AVG(years), COUNT(DISTINCT who) FROM t x(who, years)",
        "SELECT AVG(x.years), COUNT(DISTINCT who) FROM (SELECT patient_id, age FROM visits) AS x(who, years)",
    ],
)
def test_columns_are_renamed_after_the_alias(schema, text):
    question = ask(text, schema)
    assert [a.kind for a in question.aggregates] == [AggregateKind.AVG, AggregateKind.COUNT_UNITS]
    assert columns(question.relation)[question.aggregates[0].arguments[0].name].upper == 120


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "WITH t(a, b, c) AS (SELECT patient_id, age FROM visits) SELECT COUNT(*) FROM t",
            "has 2 columns; got 3 names",
        ),
        ("WITH t(a, b, c) AS (SELECT age FROM visits) SELECT COUNT(*) FROM visits", "has 1 columns; got 3 names"),
        ("SELECT COUNT(*) FROM (SELECT patient_id, age FROM visits) x(a, A)", "Two columns of 'x' have one name"),
        ("SELECT COUNT(*) FROM visits AS v(a, b)", "cannot be renamed.*subquery"),
        ("SELECT COUNT(*) FROM (VALUES (1)) AS v(a)", "reads public tables only"),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM visits) GROUP BY ROLLUP (n)", "List the keys"),
        ("SELECT ANY_VALUE(city) FROM visits", "no aggregate ANY_VALUE"),
        ("SELECT age, COUNT(*) + age AS n FROM visits GROUP BY city", "'age' is neither in GROUP BY"),
        ("SELECT age + COUNT(*) AS n FROM visits GROUP BY ALL", "would show single rows"),
    ],
)
def test_refused_with_the_nearest_form(schema, text, message):
    with pytest.raises(QuestionError, match=message):
        ask(text, schema)


def test_a_whole_constant_beyond_64_bits_is_a_decimal(schema):
    question = ask(
        "SELECT CASE WHEN age > 40 THEN 9223372036854775808 ELSE 1 END AS k, COUNT(*) FROM visits GROUP BY k", schema
    )
    assert question.keys[0][1].type.kind is Kind.DECIMAL
