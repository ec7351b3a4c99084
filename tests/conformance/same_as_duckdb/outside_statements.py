# ruff: noqa: E501 - a statement is read best in one line
"""Statements as people write them who have not read docs/sql.md: exercises, BI tools, registries, benchmarks, notebooks.

The tables are a small hospital: people, their visits and prescriptions, and two public tables. What hush answers must be
what DuckDB answers; what it refuses is listed with its reason in `test_outside_statements`.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa

PATIENTS, VISITS, PRESCRIPTIONS = 150, 700, 500
CITIES = [
    ("Aachen", "West", 250),
    ("Bonn", "West", 330),
    ("Chemnitz", "East", 245),
    ("Dresden", "East", 560),
    ("Emden", "North", 50),
]
DRUGS = [
    ("aspirin", "pain", 4),
    ("ibuprofen", "pain", 7),
    ("statin", "heart", 30),
    ("insulin", "sugar", 55),
    ("placebo", "none", 1),
]
WARDS = ["surgery", "cardiology", "emergency", "maternity"]
BOUNDS = {
    "age": (0, 110), "income": (0, 200000), "cost": (0, 5000, "0.01"), "score": (0, 100), "dose": (0, 1000),
    "day": ("2022-01-01", "2023-12-31"), "birth": ("1910-01-01", "2023-12-31"), "started": ("2022-01-01", "2023-12-31"),
    "visit_no": (0, 1000), "arrived": ("2022-01-01", "2024-01-01"),
}  # fmt: skip
VALUES = {
    "sex": ["f", "m"],
    "city": [city for city, _, _ in CITIES],
    "ward": WARDS,
    "drug": [drug for drug, _, _ in DRUGS],
}


def hospital() -> dict[str, pa.Table]:
    """Return the tables: with NULLs, people without visits, and a city and a drug that nobody has."""
    dice = random.Random(5)
    ages = [dice.choice([None, *range(18, 95)]) for _ in range(PATIENTS)]
    people = {
        "patient_id": range(PATIENTS),
        "age": ages,
        "sex": [dice.choice("fm") for _ in range(PATIENTS)],
        "city": [dice.choice(["Aachen", "Bonn", "Chemnitz", "Dresden"]) for _ in range(PATIENTS)],
        "income": [dice.choice([None, *range(10000, 90000, 500)]) for _ in range(PATIENTS)],
        "smoker": [dice.choice([True, False, False, None]) for _ in range(PATIENTS)],
        "birth": [dt.date(2023 - (age or 50), dice.randint(1, 12), dice.randint(1, 28)) for age in ages],
    }
    days = [dt.date(2022, 1, 1) + dt.timedelta(days=dice.randrange(730)) for _ in range(VISITS)]
    visits = {
        "visit_no": range(VISITS),
        "patient_id": [dice.randrange(PATIENTS - 20) for _ in range(VISITS)],
        "day": days,
        "arrived": [dt.datetime(day.year, day.month, day.day, dice.randrange(24), dice.randrange(60)) for day in days],
        "ward": [dice.choice(WARDS) for _ in range(VISITS)],
        "cost": [dice.choice([None, Decimal(dice.randrange(1000, 400000)) / 100]) for _ in range(VISITS)],
        "score": [dice.randrange(101) for _ in range(VISITS)],
    }
    prescriptions = {
        "patient_id": [dice.randrange(PATIENTS - 40) for _ in range(PRESCRIPTIONS)],
        "drug": [dice.choice(["aspirin", "ibuprofen", "statin", "insulin"]) for _ in range(PRESCRIPTIONS)],
        "dose": [dice.choice([10, 20, 50, 100, 500]) for _ in range(PRESCRIPTIONS)],
        "started": [dt.date(2022, 1, 1) + dt.timedelta(days=dice.randrange(730)) for _ in range(PRESCRIPTIONS)],
    }
    return {
        "patients": pa.table(people),
        "visits": pa.table(visits),
        "prescriptions": pa.table(prescriptions),
        "cities": pa.table(
            {
                name: list(column)
                for name, column in zip(("city", "region", "population"), zip(*CITIES, strict=True), strict=True)
            }
        ),
        "drugs": pa.table(
            {
                name: list(column)
                for name, column in zip(("drug", "class", "price"), zip(*DRUGS, strict=True), strict=True)
            }
        ),
    }


EXERCISES = """
SELECT COUNT(*) FROM patients
SELECT COUNT(*) AS total, COUNT(income) AS with_income, COUNT(*) - COUNT(income) AS missing FROM patients
SELECT MIN(day), MAX(day) FROM visits
SELECT city, COUNT(*) AS n FROM patients GROUP BY city ORDER BY n DESC, city
SELECT sex, AVG(age) AS mean_age FROM patients GROUP BY sex
SELECT DISTINCT ward FROM visits
SELECT ward, COUNT(DISTINCT patient_id) AS people FROM visits GROUP BY ward HAVING COUNT(DISTINCT patient_id) > 10
SELECT COUNT(*) FROM patients WHERE age BETWEEN 30 AND 39
SELECT COUNT(*) FROM patients WHERE city IN ('Aachen', 'Bonn') AND NOT smoker
SELECT COUNT(*) FROM patients WHERE city LIKE 'A%' OR city LIKE '%n'
SELECT COUNT(*) FROM patients WHERE smoker IS NULL
SELECT AVG(cost) FROM visits WHERE ward = 'surgery'
SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward ORDER BY total DESC LIMIT 2
SELECT p.city, COUNT(*) AS visits FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.city
SELECT p.city, COUNT(*) AS visits FROM patients p INNER JOIN visits v USING (patient_id) GROUP BY p.city ORDER BY 1
SELECT p.sex, v.ward, COUNT(*) FROM patients AS p, visits AS v WHERE p.patient_id = v.patient_id GROUP BY p.sex, v.ward
SELECT COUNT(*) FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id WHERE v.patient_id IS NULL
SELECT COUNT(*) FROM patients WHERE patient_id NOT IN (SELECT patient_id FROM visits)
SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT * FROM visits v WHERE v.patient_id = p.patient_id)
SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id AND v.ward = 'surgery')
SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) >= 5) AS frequent
SELECT AVG(LEAST(n, 50)) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) AS t
SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION SELECT patient_id FROM prescriptions) AS seen
SELECT COUNT(*) FROM (SELECT patient_id FROM visits INTERSECT SELECT patient_id FROM prescriptions) AS both_kinds
SELECT COUNT(*) FROM (SELECT patient_id FROM visits EXCEPT SELECT patient_id FROM prescriptions) AS only_visits
SELECT COUNT(*) FROM (SELECT patient_id, day FROM visits UNION ALL SELECT patient_id, started FROM prescriptions) AS events
SELECT COUNT(v.patient_id) AS visits, COUNT(DISTINCT p.patient_id) AS people FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id
SELECT p.city, COUNT(v.patient_id) AS visits FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.city ORDER BY p.city
SELECT p.city, COUNT(DISTINCT v.patient_id) * 1.0 / COUNT(DISTINCT p.patient_id) AS share_seen FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.city
SELECT CASE WHEN age < 40 THEN 'young' WHEN age < 65 THEN 'middle' ELSE 'old' END AS grp, COUNT(*) FROM patients GROUP BY grp
SELECT CASE WHEN v.patient_id IS NULL THEN 'never' ELSE 'seen' END AS status, COUNT(DISTINCT p.patient_id) AS people FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id GROUP BY 1
SELECT SUM(CASE WHEN sex = 'f' THEN 1 ELSE 0 END) AS women, SUM(CASE WHEN sex = 'm' THEN 1 ELSE 0 END) AS men FROM patients
SELECT SUM(sex = 'f') AS women, SUM(age > 65) AS old FROM patients
SELECT COUNT(*) FILTER (WHERE smoker) AS smokers, COUNT(*) FILTER (WHERE NOT smoker) AS others FROM patients
SELECT EXTRACT(YEAR FROM day) AS y, COUNT(*) FROM visits GROUP BY y ORDER BY y
SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*) AS n FROM visits GROUP BY YEAR(day), MONTH(day) ORDER BY y, m
SELECT DATE_TRUNC('month', day) AS month, SUM(cost) AS total FROM visits GROUP BY 1 ORDER BY 1
SELECT city || '-' || sex AS k, COUNT(*) FROM patients GROUP BY k
SELECT CONCAT(sex, ' ', YEAR(birth) // 50) AS k, COUNT(*) AS n FROM patients GROUP BY k HAVING n > 0.5
SELECT UPPER(LEFT(city, 1)) AS initial, COUNT(*) FROM patients GROUP BY initial
SELECT COUNT(*) FROM (patients) AS p WHERE p.age > 50
SELECT COUNT(*) FROM patients WHERE patient_id IS NOT NULL
SELECT COALESCE(city, 'unknown') AS c, COUNT(*) FROM patients GROUP BY 1
SELECT ROUND(AVG(income), -2) FROM patients
SELECT MAX(age) - MIN(age) AS span FROM patients
SELECT STDDEV(age), VARIANCE(age) FROM patients
SELECT COUNT(*) FROM patients WHERE age % 2 = 0
SELECT COUNT(DISTINCT city) FROM patients
SELECT COUNT(DISTINCT patient_id) FROM visits WHERE day BETWEEN DATE '2022-03-01' AND DATE '2022-05-31'
SELECT age // 10 * 10 AS decade, COUNT(*) FROM patients WHERE age IS NOT NULL GROUP BY decade ORDER BY decade
"""

BI_TOOLS = """
SELECT "patients"."city" AS "city", COUNT(1) AS "count" FROM "patients" GROUP BY "patients"."city" ORDER BY "count" DESC LIMIT 1000
SELECT "main"."visits"."ward" AS "ward", AVG("main"."visits"."cost") AS "avg" FROM "main"."visits" GROUP BY "main"."visits"."ward" ORDER BY "main"."visits"."ward" ASC
SELECT [ward], COUNT(*) AS [n] FROM [visits] GROUP BY [ward] ORDER BY [ward]
SELECT ward, COUNT(*) AS n FROM visits WHERE ward = "surgery" GROUP BY ward
SELECT ward, n, n * 100.0 / SUM(n) OVER () AS pct FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS t ORDER BY n DESC
SELECT ward, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM visits) AS pct FROM visits GROUP BY ward
SELECT ward, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY ward
WITH m AS (SELECT DATE_TRUNC('month', day) AS month, SUM(cost) AS total FROM visits GROUP BY 1) SELECT month, total, total > LAG(total) OVER (ORDER BY month) AS rises FROM m ORDER BY month
WITH m AS (SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM visits GROUP BY 1) SELECT month, AVG(n) OVER (ORDER BY month ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS rolling FROM m ORDER BY month
WITH m AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT ward, n, RANK() OVER (ORDER BY n DESC) AS place FROM m ORDER BY place
WITH m AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT AVG(n) AS mean, STDDEV(n) AS sd FROM m
WITH m AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT ward, (n - AVG(n) OVER ()) / STDDEV_POP(n) OVER () AS z FROM m ORDER BY ward
SELECT * FROM (SELECT city, COUNT(*) AS n FROM patients GROUP BY city) AS t WHERE n > 20 ORDER BY n DESC
SELECT city, ward, COUNT(*) FROM patients JOIN visits USING (patient_id) GROUP BY ROLLUP (city, ward)
SELECT city, sex, COUNT(*) FROM patients GROUP BY CUBE (city, sex)
SELECT city, sex, COUNT(*) AS n FROM patients GROUP BY GROUPING SETS ((city), (sex), ())
SELECT 'visits' AS what, COUNT(*) AS n FROM visits UNION ALL SELECT 'prescriptions', COUNT(*) FROM prescriptions
SELECT 'visits' AS what, COUNT(*) AS n FROM visits UNION SELECT 'prescriptions', COUNT(*) FROM prescriptions ORDER BY 1
SELECT city FROM patients WHERE sex = 'f' UNION SELECT city FROM patients WHERE sex = 'm' ORDER BY city
SELECT TIME_BUCKET(INTERVAL '1 month', day) AS bucket, COUNT(*) AS n FROM visits GROUP BY bucket ORDER BY bucket
SELECT TIME_BUCKET(INTERVAL '1 week', day) AS bucket, COUNT(*) AS n FROM visits GROUP BY bucket ORDER BY bucket
SELECT DAYNAME(day) AS weekday, COUNT(*) FROM visits GROUP BY weekday
SELECT EXTRACT(isodow FROM day) AS weekday, COUNT(*) FROM visits GROUP BY weekday ORDER BY weekday
SELECT DATE_PART('hour', arrived) AS h, COUNT(*) FROM visits GROUP BY h ORDER BY h
SELECT STRFTIME(day, '%Y-%m') AS month, COUNT(DISTINCT patient_id) AS active FROM visits GROUP BY month ORDER BY month
SELECT QUARTER(day) AS q, ward, SUM(cost) AS total FROM visits GROUP BY q, ward ORDER BY q, ward
SELECT TOP 2 ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC
SELECT COUNT(*) AS n FROM hospital.public.visits
SELECT c.region, COUNT(*) AS n FROM patients p JOIN cities c ON p.city = c.city GROUP BY c.region ORDER BY c.region
SELECT c.region, COUNT(*) * 1000.0 / MAX(c.population) AS per_thousand FROM patients p JOIN cities c ON p.city = c.city GROUP BY c.region
WITH n AS (SELECT city, COUNT(*) AS n FROM patients GROUP BY city) SELECT c.region, SUM(n.n) AS people FROM n JOIN cities c ON c.city = n.city GROUP BY c.region ORDER BY c.region
WITH n AS (SELECT city, COUNT(*) AS n FROM patients GROUP BY city) SELECT c.city, n.n / c.population AS rate FROM cities c JOIN n ON c.city = n.city ORDER BY c.city
WITH n AS (SELECT city, COUNT(*) AS n FROM patients GROUP BY city) SELECT c.city, COALESCE(n.n, 0) AS people FROM cities c LEFT JOIN n ON c.city = n.city ORDER BY c.city
SELECT c.city, c.population, COUNT(p.patient_id) AS people FROM cities c LEFT JOIN patients p ON p.city = c.city GROUP BY c.city, c.population ORDER BY c.city
SELECT c.region, COUNT(p.age) AS people FROM cities c LEFT JOIN patients p ON p.city = c.city AND p.age > 60 GROUP BY c.region
SELECT d.class, SUM(d.price) AS spent FROM prescriptions r JOIN drugs d ON d.drug = r.drug GROUP BY d.class ORDER BY spent DESC
SELECT CASE GROUPING(ward) WHEN 1 THEN 'all' ELSE ward END AS ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)
SELECT ward, MEDIAN(score) AS middle FROM visits GROUP BY ward
SELECT ward, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY score) AS middle FROM visits GROUP BY ward
SELECT QUANTILE_DISC(score, 0.9) FROM visits
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 2
SELECT ward, SUM(n) AS n FROM (SELECT ward, day, COUNT(*) AS n FROM visits GROUP BY ward, day) AS t GROUP BY ward
"""

OFFICES = """
SELECT region, COUNT(DISTINCT patient_id) AS people FROM visits NATURAL JOIN patients JOIN cities USING (city) GROUP BY region
SELECT COUNT(DISTINCT CASE WHEN ward = 'surgery' THEN patient_id END) AS operated FROM visits
SELECT COUNT(DISTINCT CASE WHEN v.score > 50 THEN v.patient_id END) AS high FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id
SELECT sex, COUNT(*) FILTER (WHERE age >= 65) * 100.0 / COUNT(*) AS percent_old FROM patients GROUP BY sex
SELECT AVG(days) FROM (SELECT patient_id, DATE_DIFF('day', MIN(day), MAX(day)) AS days FROM visits GROUP BY patient_id) AS t WHERE days BETWEEN 0 AND 730
SELECT AVG(gap) FROM (SELECT patient_id, day - LAG(day) OVER (PARTITION BY patient_id ORDER BY day, visit_no) AS gap FROM visits) AS t WHERE gap BETWEEN 0 AND 365
SELECT COUNT(DISTINCT patient_id) FROM (SELECT patient_id, day - LAG(day) OVER (PARTITION BY patient_id ORDER BY day, visit_no) AS gap FROM visits) AS t WHERE gap <= 30
SELECT ward, COUNT(*) FROM (SELECT patient_id, ward, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day, visit_no) AS r FROM visits) AS t WHERE r = 1 GROUP BY ward
SELECT first_ward, COUNT(*) AS n FROM (SELECT patient_id, ARG_MIN(ward, visit_no) AS first_ward FROM visits GROUP BY patient_id) AS t GROUP BY first_ward ORDER BY 1
SELECT AVG(first_score) FROM (SELECT patient_id, FIRST_VALUE(score) OVER (PARTITION BY patient_id ORDER BY day, visit_no) AS first_score FROM visits) AS t
SELECT AVG(last_score) FROM (SELECT patient_id, ARG_MAX(score, visit_no) AS last_score FROM visits GROUP BY patient_id) AS t
SELECT COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.patient_id WHERE v.day < p.birth + INTERVAL 30 YEAR
SELECT COUNT(*) FROM visits v JOIN prescriptions r ON v.patient_id = r.patient_id AND r.started BETWEEN v.day AND v.day + INTERVAL 30 DAY
SELECT COUNT(DISTINCT v.patient_id) FROM visits v JOIN prescriptions r ON v.patient_id = r.patient_id AND r.started >= v.day WHERE v.ward = 'cardiology' AND r.drug = 'statin'
SELECT r.drug, COUNT(DISTINCT r.patient_id) FROM prescriptions r WHERE r.patient_id IN (SELECT patient_id FROM visits WHERE ward = 'emergency') GROUP BY r.drug
SELECT n, COUNT(*) AS people FROM (SELECT patient_id, LEAST(COUNT(*), 5) AS n FROM visits GROUP BY patient_id) AS t GROUP BY n HAVING people > 0 ORDER BY n
SELECT n, COUNT(*) AS people FROM (SELECT p.patient_id, LEAST(COUNT(v.patient_id), 3) AS n FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id GROUP BY p.patient_id) AS t GROUP BY n ORDER BY n
SELECT city, AVG(LEAST(n, 20)) FROM (SELECT p.patient_id, p.city, COUNT(v.visit_no) AS n FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id GROUP BY p.patient_id, p.city) AS t GROUP BY city
SELECT COUNT(*) FROM (SELECT patient_id, ward FROM visits GROUP BY patient_id, ward HAVING COUNT(*) > 1) AS repeated
SELECT wards, COUNT(*) AS people FROM (SELECT patient_id, LEAST(COUNT(DISTINCT ward), 4) AS wards FROM visits GROUP BY patient_id) AS t GROUP BY wards HAVING people > 0 ORDER BY wards
SELECT CORR(age, income) FROM patients
SELECT REGR_SLOPE(income, age), REGR_INTERCEPT(income, age) FROM patients
SELECT sex, STDDEV_SAMP(income) AS sd FROM patients GROUP BY sex
SELECT FLOOR(income / 10000) * 10000 AS bracket, COUNT(*) AS n FROM patients WHERE income IS NOT NULL GROUP BY bracket HAVING n > 0 ORDER BY bracket
SELECT COUNT(*) FROM patients WHERE (age > 60 AND smoker) OR (age > 60 AND sex = 'm')
SELECT COUNT(*) FROM patients p JOIN visits v ON (p.patient_id = v.patient_id AND v.ward = 'surgery') OR (p.patient_id = v.patient_id AND p.age > 80)
SELECT COUNT(*) FROM patients p, visits v WHERE (p.patient_id = v.patient_id AND v.ward = 'surgery') OR (p.patient_id = v.patient_id AND p.age > 80)
SELECT COUNT(*) FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id LEFT JOIN prescriptions r ON r.patient_id = v.patient_id WHERE r.patient_id IS NULL
SELECT COUNT(*) FROM patients p FULL OUTER JOIN visits v ON v.patient_id = p.patient_id
SELECT COUNT(*) AS n, COUNT(p.patient_id) AS known FROM patients p RIGHT JOIN visits v ON v.patient_id = p.patient_id
SELECT p.sex, SUM(v.cost) / COUNT(DISTINCT p.patient_id) AS per_head FROM patients p JOIN visits v USING (patient_id) GROUP BY p.sex
SELECT COUNT(*) FROM patients WHERE (SELECT COUNT(*) FROM visits v WHERE v.patient_id = patients.patient_id) > 5
SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(cost) FROM visits w WHERE w.patient_id = v.patient_id)
SELECT COUNT(*) FROM visits v WHERE day = (SELECT MAX(day) FROM visits w WHERE w.patient_id = v.patient_id)
SELECT COUNT(*) FROM prescriptions WHERE drug IN (SELECT drug FROM drugs WHERE price > 20)
SELECT COUNT(*) FROM prescriptions r WHERE dose > (SELECT AVG(price) FROM drugs)
SELECT AVG(IF(smoker, 1, 0)) AS rate FROM patients
SELECT COUNT(*) AS n FROM patients WHERE age IS DISTINCT FROM 50
SELECT DATE_DIFF('year', birth, DATE '2023-12-31') // 20 AS g, COUNT(*) AS n FROM patients GROUP BY g HAVING n > 0 ORDER BY g
SELECT AVG(ATANH(score / 101.0)) AS fisher FROM visits
SELECT ward, GEOMEAN(score + 1) AS gm FROM visits GROUP BY ward
SELECT COUNT(*) FROM (SELECT patient_id FROM visits WHERE ward = 'surgery' INTERSECT SELECT patient_id FROM visits WHERE ward = 'emergency' EXCEPT SELECT patient_id FROM prescriptions WHERE drug = 'statin') AS t
SELECT ward, COUNT(*) FROM (SELECT patient_id, ward FROM visits UNION SELECT patient_id, drug FROM prescriptions) AS t GROUP BY ward
SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits UNION SELECT patient_id FROM prescriptions)
SELECT age, COUNT(*) AS n FROM patients WHERE age BETWEEN 40 AND 44 GROUP BY age ORDER BY age
SELECT MODE(ward) FROM visits
"""

BENCHMARKS = """
SELECT ward, SUM(cost) AS sum_cost, AVG(cost) AS avg_cost, AVG(score) AS avg_score, COUNT(*) AS count_order FROM visits WHERE day <= DATE '2023-12-01' - INTERVAL '90' DAY GROUP BY ward ORDER BY ward
SELECT SUM(cost * score) AS revenue FROM visits WHERE day >= DATE '2022-01-01' AND day < DATE '2022-01-01' + INTERVAL '1' YEAR AND score BETWEEN 5 AND 70 AND cost < 2400
SELECT c.region, EXTRACT(YEAR FROM v.day) AS y, SUM(v.cost) AS total FROM patients p, visits v, cities c WHERE p.patient_id = v.patient_id AND p.city = c.city GROUP BY c.region, y ORDER BY c.region, y DESC
SELECT 100.00 * SUM(CASE WHEN ward LIKE 's%' THEN cost ELSE 0 END) / SUM(cost) AS share FROM visits WHERE cost IS NOT NULL
SELECT c_count, COUNT(*) AS custdist FROM (SELECT p.patient_id, COUNT(v.visit_no) AS c_count FROM patients p LEFT OUTER JOIN visits v ON p.patient_id = v.patient_id AND v.ward NOT LIKE '%gency%' GROUP BY p.patient_id) AS c_orders WHERE c_count <= 20 GROUP BY c_count HAVING custdist > 0 ORDER BY custdist DESC, c_count DESC
SELECT ward, COUNT(*) AS order_count FROM visits v WHERE day >= DATE '2022-07-01' AND EXISTS (SELECT * FROM prescriptions r WHERE r.patient_id = v.patient_id AND r.started > v.day) GROUP BY ward ORDER BY ward
SELECT COUNT(*) FROM patients p JOIN cities c ON c.city = p.city WHERE c.region = 'West' AND p.income > 20000 AND NOT EXISTS (SELECT 1 FROM prescriptions r WHERE r.patient_id = p.patient_id)
WITH spending AS (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id) SELECT p.city, COUNT(*) AS big FROM spending s JOIN patients p ON p.patient_id = s.patient_id WHERE s.total > 5000 GROUP BY p.city
WITH first_visit AS (SELECT patient_id, MIN(day) AS d FROM visits GROUP BY patient_id) SELECT DATE_TRUNC('quarter', d) AS cohort, COUNT(*) AS people FROM first_visit GROUP BY cohort ORDER BY cohort
WITH first_visit AS (SELECT patient_id, MIN(day) AS d FROM visits GROUP BY patient_id) SELECT DATE_DIFF('month', f.d, v.day) AS m, COUNT(DISTINCT v.patient_id) AS people FROM visits v JOIN first_visit f USING (patient_id) WHERE DATE_DIFF('month', f.d, v.day) < 6 GROUP BY m ORDER BY m
WITH t AS (SELECT patient_id, ward, COUNT(*) AS n FROM visits GROUP BY patient_id, ward) SELECT ward, MAX(LEAST(n, 30)) AS most FROM t GROUP BY ward
WITH RECURSIVE t AS (SELECT 1) SELECT COUNT(*) FROM patients
SELECT AVG(total) FROM (SELECT patient_id, SUM(LEAST(cost, 1000)) AS total FROM visits GROUP BY patient_id HAVING total BETWEEN 0 AND 10000) AS t
SELECT COUNT(*) FROM (SELECT patient_id, SUM(score) OVER (PARTITION BY patient_id ORDER BY visit_no) AS running FROM visits) AS t WHERE running > 200
SELECT COUNT(*) FROM visits JOIN (VALUES ('surgery', 2), ('maternity', 3)) AS weights(ward, w) USING (ward)
SELECT w, COUNT(*) FROM visits v JOIN (SELECT 'surgery' AS ward, 2 AS w UNION ALL SELECT 'maternity', 3) AS x ON v.ward = x.ward GROUP BY w
SELECT s.n AS score_from, COUNT(*) FROM visits v JOIN GENERATE_SERIES(0, 90, 10) AS s(n) ON v.score BETWEEN s.n AND s.n + 9 GROUP BY s.n ORDER BY s.n
SELECT p.sex, COUNT(*) FROM patients p SEMI JOIN visits v ON v.patient_id = p.patient_id GROUP BY p.sex
SELECT COUNT(*) FROM patients ANTI JOIN visits USING (patient_id)
SELECT COUNT(*) FROM (patients p JOIN visits v ON p.patient_id = v.patient_id) JOIN prescriptions r ON r.patient_id = p.patient_id
SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, ward FROM visits) AS t
SELECT COUNT(DISTINCT (ward, score)) FROM visits
SELECT COUNT(*) FROM visits WHERE (ward, score) IN (('surgery', 50), ('maternity', 51))
SELECT COUNT(*) FROM visits TABLESAMPLE 10 PERCENT
"""

NOTEBOOKS = """
SELECT COUNT(*) AS n, AVG(CAST(smoker AS INTEGER)) AS rate FROM patients
SELECT COUNT(*) FROM patients WHERE age < (SELECT AVG(age) FROM patients)
SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)
SELECT COUNT(*) FROM patients WHERE income > (SELECT MEDIAN(income) FROM patients)
SELECT ward, COUNT(*) FROM visits WHERE score >= (SELECT AVG(score) + STDDEV(score) FROM visits) GROUP BY ward
WITH m AS (SELECT AVG(score) AS mean FROM visits) SELECT COUNT(*) FROM visits, m WHERE score > m.mean
SELECT COUNT(*) FROM patients CROSS JOIN (SELECT AVG(age) AS mean FROM patients) AS m WHERE age > mean
SELECT city, COUNT(*) FROM patients p WHERE age > (SELECT AVG(age) FROM patients q WHERE q.city = p.city) GROUP BY city
SELECT AVG(score) FROM (SELECT score, ROW_NUMBER() OVER (ORDER BY score) AS r, COUNT(*) OVER () AS c FROM visits) AS t WHERE r IN ((c + 1) // 2, (c + 2) // 2)
SELECT AVG(score) FROM (SELECT score, NTILE(4) OVER (ORDER BY score) AS q FROM visits) AS t WHERE q = 4
SELECT COUNT(*) FROM cities WHERE city NOT IN (SELECT city FROM patients)
SELECT city FROM cities EXCEPT SELECT city FROM patients
SELECT c.city FROM cities c LEFT JOIN patients p ON p.city = c.city WHERE p.city IS NULL
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY ward) AS t)
SELECT sex, AVG(age) - (SELECT AVG(age) FROM patients) AS difference FROM patients GROUP BY sex
SELECT * FROM patients LIMIT 5
SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id ORDER BY 2 DESC LIMIT 10
SELECT MAX(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) AS t
SELECT STRING_AGG(city, ',') FROM patients
SELECT COUNT(*) FROM visits v JOIN prescriptions r ON v.day = r.started
SELECT a.city, COUNT(*) FROM patients a JOIN patients b ON a.city = b.city AND a.patient_id < b.patient_id GROUP BY a.city
SELECT city, n, SUM(n) OVER (ORDER BY n DESC, city ROWS UNBOUNDED PRECEDING) AS running FROM (SELECT city, COUNT(*) AS n FROM patients GROUP BY city) AS t ORDER BY n DESC
SELECT ward, "n" FROM (SELECT ward, COUNT(*) AS "n" FROM visits GROUP BY ward) AS t ORDER BY "n" DESC LIMIT 1
SELECT IFNULL(smoker, FALSE) AS s, COUNT(*) FROM patients GROUP BY s
SELECT LENGTH(city) AS l, COUNT(*) AS n FROM patients GROUP BY l HAVING n > 0
SELECT ward, COUNT(*) AS n FROM visits WHERE MONTH(day) IN (6, 7, 8) GROUP BY ALL ORDER BY ALL
SELECT REPLACE(ward, 'y', '') AS w, COUNT(*) FROM visits GROUP BY w
SELECT COUNT(*) AS n FROM visits WHERE DAYOFWEEK(day) IN (0, 6)
SELECT score > 50 AS high, COUNT(*) FROM visits GROUP BY high
SELECT sex, smoker, COUNT(*) AS n FROM patients WHERE smoker IS NOT NULL GROUP BY sex, smoker ORDER BY sex, smoker
SELECT SUM(income) / 1000 AS k, SUM(income) / COUNT(income) AS mean FROM patients
SELECT city, AVG(income) FILTER (WHERE sex = 'f') / AVG(income) FILTER (WHERE sex = 'm') AS pay_gap FROM patients GROUP BY city
SELECT * FROM (SELECT city, sex FROM patients) PIVOT (COUNT(*) FOR sex IN ('f', 'm'))
SELECT COUNT(*) AS n FROM visits WHERE arrived >= TIMESTAMP '2022-06-01 12:00:00'
SELECT day, COUNT(*) AS n FROM visits WHERE day BETWEEN DATE '2022-01-01' AND DATE '2022-01-05' GROUP BY day ORDER BY day
SELECT toYear(day) AS y, COUNT(*) FROM visits GROUP BY y
SELECT DATE_TRUNC('hour', arrived) AS h, COUNT(*) AS n FROM visits WHERE arrived < TIMESTAMP '2022-01-02' GROUP BY h HAVING n > 0
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY score) FROM visits
"""

SECOND_LOOK = """
SELECT p.city, AVG(v.cost) FROM visits v LEFT JOIN patients p USING (patient_id) GROUP BY p.city
SELECT COUNT(*) FROM visits v LEFT JOIN prescriptions r ON r.patient_id = v.patient_id AND r.started = v.day WHERE r.drug IS NULL
SELECT p.sex, SUM(CASE WHEN v.visit_no IS NULL THEN 1 ELSE 0 END) AS never FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id GROUP BY p.sex
SELECT COUNT(DISTINCT p.patient_id) - COUNT(DISTINCT v.patient_id) AS never FROM patients p LEFT JOIN visits v ON v.patient_id = p.patient_id
SELECT ward, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM visits GROUP BY ward ORDER BY pct DESC
SELECT ward, COUNT(*) AS n, DENSE_RANK() OVER (ORDER BY COUNT(*) DESC) AS rk FROM visits GROUP BY ward
WITH a AS (SELECT ward, COUNT(*) AS n FROM visits WHERE YEAR(day) = 2022 GROUP BY ward), b AS (SELECT ward, COUNT(*) AS n FROM visits WHERE YEAR(day) = 2023 GROUP BY ward) SELECT a.ward, b.n - a.n AS growth, (b.n - a.n) * 1.0 / a.n AS rate FROM a JOIN b ON a.ward = b.ward ORDER BY growth DESC
WITH t AS (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) SELECT CASE WHEN n = 1 THEN 'once' WHEN n < 5 THEN 'some' ELSE 'many' END AS c, COUNT(*) AS people FROM t GROUP BY c
WITH t AS (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) SELECT COUNT(*) FROM t WHERE n > (SELECT AVG(LEAST(n, 30)) FROM t)
SELECT COUNT(*) FROM patients WHERE income > (SELECT AVG(income) FROM patients) * 1.5
SELECT sex, COUNT(*) FROM patients WHERE age > (SELECT AVG(age) FROM patients WHERE sex = 'f') GROUP BY sex
SELECT AVG(CASE WHEN income > (SELECT AVG(income) FROM patients) THEN 1.0 ELSE 0.0 END) AS share FROM patients
SELECT city, COUNT(*) AS n, (SELECT COUNT(*) FROM patients) AS total FROM patients GROUP BY city ORDER BY city
SELECT COUNT(*) FROM (SELECT patient_id FROM patients WHERE smoker UNION ALL SELECT patient_id FROM visits WHERE ward = 'surgery') AS t
SELECT COUNT(DISTINCT patient_id) FROM (SELECT patient_id FROM patients WHERE smoker UNION SELECT patient_id FROM visits WHERE ward = 'surgery') AS t
SELECT COUNT(*) FROM patients p WHERE p.patient_id IN (SELECT patient_id FROM visits WHERE ward = 'surgery') AND p.patient_id NOT IN (SELECT patient_id FROM prescriptions)
SELECT drug, COUNT(*) AS n FROM prescriptions GROUP BY drug HAVING n >= (SELECT MAX(n) FROM (SELECT drug, COUNT(*) AS n FROM prescriptions GROUP BY drug) AS t)
SELECT d.drug, COALESCE(n, 0) AS n FROM drugs d LEFT JOIN (SELECT drug, COUNT(*) AS n FROM prescriptions GROUP BY drug) AS c USING (drug) ORDER BY d.drug
SELECT d.class, SUM(c.n * d.price) AS spent FROM (SELECT drug, COUNT(*) AS n FROM prescriptions GROUP BY drug) AS c JOIN drugs d ON d.drug = c.drug GROUP BY d.class ORDER BY d.class
SELECT c.region, AVG(n) AS per_city FROM (SELECT city, COUNT(*) AS n FROM patients WHERE city <> 'Emden' GROUP BY city) AS t, cities c WHERE t.city = c.city GROUP BY c.region ORDER BY c.region
SELECT v.ward, COUNT(*) FROM visits v WHERE v.cost = (SELECT MAX(w.cost) FROM visits w WHERE w.patient_id = v.patient_id) GROUP BY v.ward
SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.day > v.day)
SELECT MAX(score) - MIN(score) FROM visits WHERE ward = 'surgery'
SELECT AVG(score) FROM visits v JOIN (SELECT patient_id, MAX(visit_no) AS m FROM visits GROUP BY patient_id) AS l ON l.patient_id = v.patient_id AND l.m = v.visit_no
SELECT COUNT(*) FROM patients p JOIN (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id) AS t ON t.patient_id = p.patient_id WHERE t.total > 3000 AND p.sex = 'f'
SELECT MONTH(day) AS m, COUNT(*) FILTER (WHERE ward = 'surgery') AS s, COUNT(*) FILTER (WHERE ward = 'emergency') AS e FROM visits GROUP BY m ORDER BY m
SELECT EXTRACT(DOW FROM day) AS d, COUNT(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT ward, VAR_POP(score) FROM visits GROUP BY ward
SELECT ward, SUM(cost) FILTER (WHERE score > 50) AS s FROM visits GROUP BY ward
SELECT COUNT(*) FROM visits WHERE ward NOT IN ('surgery', 'emergency')
SELECT COUNT(*) FROM patients WHERE NOT (age > 30 OR smoker)
SELECT COUNT(*) FROM patients WHERE COALESCE(smoker, FALSE) = FALSE AND age IS NOT NULL
SELECT LEFT(ward, 4) AS w, COUNT(*) FROM visits GROUP BY w
SELECT ward || ':' || YEAR(day) AS k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY k
SELECT CAST(age / 10 AS INTEGER) * 10 AS a, COUNT(*) AS n FROM patients WHERE age IS NOT NULL GROUP BY a HAVING COUNT(*) > 3 ORDER BY a
SELECT SIGN(income - 40000) AS s, COUNT(*) FROM patients WHERE income IS NOT NULL GROUP BY s ORDER BY s
SELECT GREATEST(AVG(age), 10) FROM patients
SELECT COUNT(*) FROM (SELECT DISTINCT ON (patient_id) patient_id, ward FROM visits ORDER BY patient_id, visit_no) AS t WHERE ward = 'surgery'
SELECT ward, COUNT(*) FROM (SELECT patient_id, ward, RANK() OVER (PARTITION BY patient_id ORDER BY visit_no DESC) AS r FROM visits) AS t WHERE r <= 2 GROUP BY ward
SELECT COUNT(*) FROM (SELECT patient_id, day, LEAD(day) OVER (PARTITION BY patient_id ORDER BY day, visit_no) AS nxt FROM visits) AS t WHERE nxt IS NULL
SELECT COUNT(*) FROM visits v, visits w WHERE v.patient_id = w.patient_id AND v.visit_no < w.visit_no AND v.ward = w.ward
SELECT COUNT(*) FROM patients NATURAL JOIN visits
SELECT COUNT(*) FROM visits JOIN cities ON TRUE
SELECT c.region, p.sex, COUNT(*) AS n FROM patients p JOIN cities c USING (city) GROUP BY GROUPING SETS ((c.region, p.sex), (c.region)) ORDER BY 1, 2
SELECT COALESCE(ward, 'total') AS w, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward) ORDER BY n
SELECT COUNT(*) AS n FROM patients HAVING COUNT(*) > 10
SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1
SELECT ward, AVG(cost) AS a FROM visits GROUP BY ward ORDER BY AVG(cost) DESC LIMIT 3
SELECT city, SUM(smoker::INT) AS s FROM patients GROUP BY city
SELECT AVG(score) FILTER (WHERE ward = 'surgery') - AVG(score) FILTER (WHERE ward = 'emergency') AS d FROM visits
SELECT 1.0 * SUM(CASE WHEN smoker THEN 1 END) / COUNT(*) FROM patients
SELECT COUNT(*) FROM patients WHERE birth < '1960-01-01'
SELECT COUNT(*) FROM visits WHERE day >= '2022-06-01' AND day < '2022-07-01'
SELECT YEAR(day) * 100 + MONTH(day) AS ym, COUNT(*) AS n FROM visits GROUP BY ym ORDER BY ym
SELECT COUNT(*) FROM visits WHERE DATE_DIFF('day', day, DATE '2023-12-31') <= 90
SELECT drug, AVG(dose), STDDEV(dose), MIN(dose), MAX(dose) FROM prescriptions GROUP BY drug
SELECT p.sex, r.drug, COUNT(DISTINCT p.patient_id) AS n FROM patients p JOIN prescriptions r ON p.patient_id = r.patient_id GROUP BY 1, 2 HAVING COUNT(DISTINCT p.patient_id) > 5 ORDER BY n DESC, 1, 2 LIMIT 3
SELECT COUNT(*) FROM (SELECT patient_id FROM prescriptions GROUP BY patient_id HAVING COUNT(DISTINCT drug) >= 3) AS poly
SELECT COUNT(*) FROM (SELECT patient_id FROM prescriptions WHERE drug IN ('aspirin', 'statin') GROUP BY patient_id HAVING COUNT(DISTINCT drug) = 2) AS both_drugs
SELECT CORR(score, cost) FROM visits
SELECT COUNT(*) FROM patients p LEFT JOIN prescriptions r ON r.patient_id = p.patient_id AND r.drug = 'insulin' WHERE r.patient_id IS NOT NULL
SELECT * FROM (SELECT city, sex, income FROM patients) PIVOT (COUNT(*) AS n, AVG(income) AS mean FOR sex IN ('f', 'm' AS men)) AS p ORDER BY city
"""

COLLECTIONS = {
    "exercises": EXERCISES,
    "BI tools": BI_TOOLS,
    "offices": OFFICES,
    "benchmarks": BENCHMARKS,
    "notebooks": NOTEBOOKS,
    "second look": SECOND_LOOK,
}
STATEMENTS = [(name, line) for name, lines in COLLECTIONS.items() for line in lines.strip().splitlines()]
