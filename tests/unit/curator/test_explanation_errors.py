"""What `explain` says about errors before any data is read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hush.curator.opening import protect


@pytest.fixture
def curator():
    ages = [at % 100 for at in range(20_000)]
    rows = pa.table({"age": ages, "low": [0] * 20_000, "city": ["Oslo", "Bergen"] * 10_000})
    with protect(
        rows, bounds={"age": (0, 120), "low": (0, 120)}, values={"city": ["Oslo", "Bergen"]}, budget="1e9"
    ) as found:
        yield found


def errors(curator, outputs: str, epsilon="0.2"):
    return curator.explain(f"SELECT {outputs} FROM data", epsilon=epsilon).errors()


def test_constants_scale_and_shift_the_error_of_a_count(curator) -> None:
    known = errors(curator, "COUNT(*) AS n, -100 * COUNT(*) AS a, 5 - COUNT(*) / 4 AS b, CAST(COUNT(*) AS DOUBLE) AS c")
    assert (known["a"], known["b"], known["c"]) == (100 * known["n"], known["n"] / 4, known["n"])


def test_the_noise_of_a_sum_of_two_counts_is_known(curator) -> None:
    """Two Laplace noises of scale 10 add up to one with a 95 % half-width of 41."""
    halves = "COUNT(*) FILTER (WHERE age < 50) {} COUNT(*) FILTER (WHERE age >= 50) AS n"
    assert errors(curator, halves.format("+")) == errors(curator, halves.format("-")) == {"n": 41.0}
    rng = np.random.default_rng(1)
    p = 1 - np.exp(-1 / 10)
    noise = sum(rng.geometric(p, 10**6) - rng.geometric(p, 10**6) for _ in range(2))
    inside = np.mean(np.abs(noise) <= 41)
    assert 0.95 - 6 * 0.22e-3 <= inside <= 0.953 + 6 * 0.22e-3  # the draws are fixed; six standard errors


def test_what_cancels_has_no_error(curator) -> None:
    assert errors(curator, "COUNT(*) AS n, (COUNT(*) - COUNT(*)) * 3 AS nothing")["nothing"] == 0


@pytest.mark.parametrize(
    "output",
    ["SUM(age) / COUNT(*)", "COUNT(*) * COUNT(*)", "COUNT(*) / ABS(0)", "VARIANCE(age)", "ROUND(COUNT(*), 1)"],
)
def test_what_depends_on_the_data_is_said_to(curator, output: str) -> None:
    shown = curator.explain(f"SELECT {output} AS x FROM data", epsilon=1)
    assert shown.errors() == {"x": None}
    assert "\nx: depends on the data; known with the answer\n" in f"{shown}\n"


def test_what_has_no_error_is_said_to_have_none(curator) -> None:
    shown = curator.explain(
        "SELECT MODE(city) AS m, CASE WHEN COUNT(*) > 9 THEN 'a' END AS c, 5 AS k FROM data", epsilon=1
    )
    assert shown.errors() == {}
    assert "\nm: has no ±\nc: has no ±\n" in f"{shown}\n"
    assert "k:" not in str(shown)


def test_an_average_errs_at_most_so_much_over_the_rows(curator) -> None:
    """The bound holds for whatever mean there is; it is nearly met where the mean lies at a bound."""
    shown = curator.explain("SELECT AVG(age) AS mean FROM data", epsilon=1)
    bound = shown.errors_times_rows()["mean"]
    assert shown.to_json()["errors_times_rows"] == {"mean": bound}
    for column, least in (("age", 0.3), ("low", 0.75)):
        found = curator.ask(f"SELECT AVG({column}) AS mean FROM data", epsilon=1, fresh=True).columns[0].errors[0]
        assert least * bound / 20_000 <= found <= 1.25 * bound / 20_000  # simulated: 3 % off is one standard error


def test_a_quantile_is_so_many_rows_off(curator) -> None:
    shown = curator.explain("SELECT MEDIAN(age) AS m, MAX(age) AS most FROM data", epsilon="0.2")
    assert set(shown.rows_off()) == {"m"}
    rows = shown.rows_off()["m"]
    assert 38 < rows < 39 + 1  # 3.89 times a scale of 10 rows: half of ε, and a row moves the score by one of two
    assert f"m: about {rows:.0f} rows off" in str(shown)
    assert shown.to_json()["rows_off"] == {"m": rows}


@pytest.mark.parametrize(("aggregate", "most"), [("COVAR_POP", 60 * 60), ("COVAR_SAMP", 2 * 60 * 60)])
def test_error_bars_of_covariances_end_where_no_covariance_can_be(curator, aggregate: str, most: int) -> None:
    answer = curator.ask(f"SELECT {aggregate}(age, 120 - age) AS c FROM data", epsilon="0.0001", fresh=True)
    (value,), (error,) = answer.columns[0].values, answer.columns[0].errors
    assert error <= max(most - value, value + most) * (1 + 1e-12)
    sure = curator.ask(f"SELECT {aggregate}(age, 120 - age) AS c FROM data", epsilon="1e4", fresh=True)
    assert abs(sure.value() + (100**2 - 1) / 12) < 1  # ages are 0 to 99 alike; noise is smaller by a factor of 1e4


@pytest.mark.parametrize("fraction", ["0.5", "0.1"])
def test_a_quantile_takes_so_many_rows(fraction: str) -> None:
    """With so many rows, spread over a line of 10⁷ points, each of 40 answers fails with probability below 1e-9.

    Then some 10⁵ points are near each target, where the figure counts one. With a tenth of the rows the targets lie
    beyond them, and an answer knows something with probability below 1/4: more than 30 of 40 do with 1e-10.
    """
    question = f"SELECT QUANTILE(x, {fraction}) AS q FROM data"
    options = {"bounds": {"x": (0, 10**5, "0.01")}, "budget": 10**6}
    with protect(pa.table({"x": [1.0]}), **options) as curator:
        shown = curator.explain(question, epsilon="0.05")
        rows = shown.rows_needed()["q"]
        assert f"of fewer than about {float(f'{rows:.2g}'):,.0f} rows it may be anything" in str(shown)
        assert shown.to_json()["rows_needed"] == {"q": rows}
    # a tenth of the rows: of the median alone, for the other is near an end of the line
    for part in (1, 10) if fraction == "0.5" else (1,):
        with protect(pa.table({"x": np.linspace(0, 10**5, int(rows) // part)}), **options) as curator:
            half = [curator.ask(question, epsilon="0.05", fresh=True).columns[0].errors[0] for _ in range(40)]
        sure = sum(width < 10**5 / 4 for width in half)
        assert sure == 40 if part == 1 else sure <= 30


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT disease, COUNT(*) AS n, MODE(disease) AS m FROM data GROUP BY disease",
        "SELECT disease, n, SUM(n) OVER () AS s FROM (SELECT disease, COUNT(*) AS n FROM data GROUP BY disease)",
    ],
)
def test_an_explanation_knows_the_columns_of_the_answer(sql: str) -> None:
    """Of questions over answers, too: a driver that describes a statement before it runs it was told of a failure."""
    with protect({"disease": ["Flu", "HIV"] * 50}, values={"disease": ["Flu", "HIV"]}, budget=9) as curator:
        columns = curator.explain(sql, epsilon=1).columns()
        named = [label for name, _, noisy in columns for label in (name, f"{name}_error")[: 1 + noisy]]
        assert named == curator.ask(sql, epsilon=1).table.column_names
