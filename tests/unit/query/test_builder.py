"""The builder asks what SQL asks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hush.query.builder import table
from hush.query.errors import QuestionError
from hush.query.sql import parse

PAIRS = [
    (
        table("visits").where("age >= ?", 30).group_by("disease").agg(n="COUNT(*)", cost="AVG(cost)"),
        "SELECT disease, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 30 GROUP BY disease",
    ),
    (
        table("visits").agg(n="COUNT(*)"),
        "SELECT COUNT(*) AS n FROM visits",
    ),
    (
        table("visits")
        .where("age > 3 OR smoker")
        .where("cost < ?", 5)
        .where("city = ?", "x' OR '1'='1")
        .agg(n="COUNT(*)"),
        "SELECT COUNT(*) AS n FROM visits WHERE (age > 3 OR smoker) AND cost < 5 AND city = 'x'' OR ''1''=''1'",
    ),
    (
        table("visits")
        .group_by("disease", decade="FLOOR(age / 10) * 10")
        .agg(n="COUNT(*)", young=("COUNT_IF(age < ?)", 18))
        .having("n > ?", 100)
        .order_by("n DESC", "disease")
        .limit(10, offset=2),
        (
            "SELECT disease, FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n, COUNT_IF(age < 18) AS young FROM visits "
            "GROUP BY disease, decade HAVING n > 100 ORDER BY n DESC, disease LIMIT 10 OFFSET 2"
        ),
    ),
    (
        table("visits").join("patients", using="patient_id").group_by("sex").agg(m="AVG(cost)"),
        "SELECT sex, AVG(cost) AS m FROM visits JOIN patients USING (patient_id) GROUP BY sex",
    ),
    (
        table("visits", "v")
        .join("patients", 1950, on="v.patient_id = p.patient_id AND p.born > ?", how="left", alias="p")
        .join("regions", on="v.region_id = regions.region_id")
        .where("v.age > ?", 4)
        .agg(m="AVG(v.cost)"),
        (
            "SELECT AVG(v.cost) AS m FROM visits v "
            "LEFT JOIN patients p ON v.patient_id = p.patient_id AND p.born > 1950 "
            "JOIN regions ON v.region_id = regions.region_id WHERE v.age > 4"
        ),
    ),
    (
        table("visits").where("age > 3").join("regions", on="visits.region_id = regions.region_id").agg(n="COUNT(*)"),
        (
            "SELECT COUNT(*) AS n FROM (SELECT * FROM visits WHERE age > 3) visits JOIN regions "
            "ON visits.region_id = regions.region_id"
        ),
    ),
    (
        table("visits").group_by("patient_id").agg(n="COUNT(*)").agg(mean="AVG(CLIP(n, 0, 20))"),
        "SELECT AVG(CLIP(n, 0, 20)) AS mean FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t",
    ),
    (
        table("visits")
        .join("regions", using="region_id")
        .where("age > 3")
        .derive(net="cost * visits.quantity", big=("population > ?", 10))
        .group_by("big", "region_id")
        .agg(s="SUM(net)"),
        (
            "SELECT big, region_id, SUM(net) AS s FROM (SELECT *, cost * quantity AS net, population > 10 AS big "
            "FROM visits JOIN regions USING (region_id) WHERE age > 3) t GROUP BY big, region_id"
        ),
    ),
    (
        table("visits")
        .join("regions", on="visits.region_id = regions.region_id")
        .derive(same="visits.region_id = regions.region_id")
        .where("region_id_1 = 3 AND same")
        .agg(n="COUNT(*)"),
        (
            "SELECT COUNT(*) AS n FROM (SELECT *, visits.region_id = regions.region_id AS same "
            "FROM visits JOIN regions ON visits.region_id = regions.region_id) t WHERE region_id_1 = 3 AND same"
        ),
    ),
    (
        table("visits").derive(net="cost - 1").where("net > 0").agg(s="SUM(net)"),
        "SELECT SUM(net) AS s FROM (SELECT *, cost - 1 AS net FROM visits) t WHERE net > 0",
    ),
    (
        table("visits")
        .select("age", c="city")
        .union_all(table("patients").select("born", "city"))
        .group_by("c")
        .agg(m="AVG(age)"),
        (
            "SELECT c, AVG(age) AS m FROM (SELECT age, city AS c FROM visits "
            "UNION ALL SELECT born, city FROM patients) t GROUP BY c"
        ),
    ),
]


@pytest.mark.parametrize(("built", "text"), PAIRS, ids=[text[:40] for _, text in PAIRS])
def test_same_question_as_sql(built, text, schema):
    assert built.question(schema) == parse(text, schema)


def test_steps_do_not_change_what_they_start_from(schema):
    start = table("visits").where("age > 3")
    first, second = start.agg(n="COUNT(*)"), start.where("age > 5").agg(n="COUNT(*)")
    assert first.question(schema) != second.question(schema)
    assert start == table("visits").where("age > 3")


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: table("visits").where("age > ?"), "1 \\? but 0 values"),
        (lambda: table("visits").where("age > 1", 5), "0 \\? but 1 values"),
        (lambda: table("visits").having("n > 1"), "comes after agg"),
        (lambda: table("visits").agg(), "at least one"),
        (lambda: table("visits").join("patients", how="full"), "one of inner"),
        (lambda: table("visits").join("patients"), "needs on= or using=.*how='cross'"),
        (lambda: table("visits").agg(n="COUNT(*)").ask(epsilon=1), "no curator"),
    ],
)
def test_mistakes_in_building(build, words):
    with pytest.raises(QuestionError, match=words):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: table("visits").where("TRUE) OR (TRUE").agg(n="COUNT(*)"),
        lambda: table("visits").where("age > 1; DROP TABLE visits").agg(n="COUNT(*)"),
        lambda: table("visits").where("age > 1 GROUP BY age").agg(n="COUNT(*)"),
        lambda: table("visits").agg(n="COUNT(*) FROM patients --"),
        lambda: table("visits").agg(n="(SELECT COUNT(*) FROM patients)"),
        lambda: table("visits").agg(n="SELECT COUNT(*) FROM patients"),
        lambda: table("visits").agg(n="COUNT(*) AS m"),
        lambda: table("visits").agg(n="COUNT(*)").order_by("n LIMIT 1"),
        lambda: table("visits").agg(n="COUNT(*)").order_by("n, n"),
        lambda: table("visits; DROP TABLE visits").agg(n="COUNT(*)"),
        lambda: table('visits" --').agg(n="COUNT(*)"),
        lambda: table("visits").agg(**{'n" FROM patients --': "COUNT(age"}),
        lambda: table("visits").where("age > 3"),
        lambda: table("visits").group_by("patient_id").agg(n="COUNT(*)"),
    ],
)
def test_no_expression_reaches_out_of_its_place(build, schema):
    with pytest.raises(QuestionError):
        build().question(schema)


def test_the_curator_is_asked(schema):
    class Curator:
        def ask(self, question, /, **options):
            return question.question(schema), options

        def explain(self, question, /, **options):
            assert question is not None
            return options

    question, options = table("visits", asker=Curator()).where("age > 3").agg(n="COUNT(*)").ask(epsilon="0.5")
    assert question == parse("SELECT COUNT(*) AS n FROM visits WHERE age > 3", schema)
    assert options == {"epsilon": "0.5"}
    assert table("visits", asker=Curator()).agg(n="COUNT(*)").explain(epsilon=1) == {"epsilon": 1}


def test_sqlglot_is_loaded_only_when_asked():
    code = "import sys, hush, hush.client, hush.query.functions; print('sqlglot' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_places_with_numbers_do_not_count_as_values() -> None:
    """A number would stand for another expression's value: the answer to another question would be charged."""
    rows = table("visits").where("age < ?", 30)
    with pytest.raises(QuestionError, match=r"has 0 \? but 1 values"):
        rows.where("age > $2", 65)
