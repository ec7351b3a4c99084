"""The way of one question, in a notebook and from a policy."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from itertools import product
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served import protected_elsewhere

from hush.accounting import LaplaceEvent
from hush.core import BudgetExceededError, HushError, InvalidValueError
from hush.curator.answer import Answer, Money
from hush.curator.opening import open_policy, protect
from hush.ledger import Actor, Budget, Ledger, RequestConflictError
from hush.policy.ledger import rehearsed
from hush.query.errors import QuestionError
from hush.query.plan import UnplannableError
from hush.query.types import Kind
from hush.report.columns import AnswerColumn

ROWS = 3000


def frame() -> pa.Table:
    return pa.table(
        {
            "id": [at // 3 for at in range(ROWS)],
            "age": [at % 80 for at in range(ROWS)],
            "city": [("Oslo", "Bergen")[at % 2] for at in range(ROWS)],
            "street": [f"street {at % 5}" for at in range(ROWS)],
        }
    )


PROTECTED = {
    "unit": "id",
    "bounds": {"age": (0, 100)},
    "values": {"city": ["Oslo", "Bergen", "Tromsø"]},
    "budget": {"epsilon": 50, "delta": "1e-5"},
    "max_rows": 3,
    "max_groups": 2,
}


@pytest.fixture
def local():
    """A curator in this process, for tests that look inside."""
    with protect(frame(), **PROTECTED) as made:
        yield made


@pytest.fixture(params=["local", "remote"])
def curator(request: pytest.FixtureRequest, tmp_path):
    """A curator in this process, and one behind a service: they do the same."""
    if request.param == "local":
        yield request.getfixturevalue("local")
    else:
        with protected_elsewhere(tmp_path, frame(), **PROTECTED) as made:
            yield made


@pytest.fixture(params=["local", "remote"])
def protected(request: pytest.FixtureRequest, tmp_path):
    """Protect a frame, here or behind a service."""
    return protect if request.param == "local" else partial(protected_elsewhere, tmp_path)


def test_public_keys_all_appear_with_their_noisy_zero(curator) -> None:
    answer = curator.ask("SELECT city, COUNT(*) AS n FROM data GROUP BY city", epsilon=10)
    assert answer.columns[0].values == ("Oslo", "Bergen", "Tromsø")
    oslo, bergen, tromsø = answer.columns[1].values
    assert abs(oslo - 1500) < 60
    assert abs(bergen - 1500) < 60
    assert abs(tromsø) < 60
    assert answer.table.column_names == ["city", "n", "n_error"]
    assert answer.to_pandas().shape == answer.to_polars().shape == (3, 3)


def test_private_keys_are_chosen_and_sorted(curator) -> None:
    answer = curator.ask("SELECT street, COUNT(*) AS n FROM data GROUP BY street", epsilon=5)
    shown = answer.columns[0].values
    assert list(shown) == sorted(shown)
    assert set(shown) <= {f"street {at}" for at in range(5)}
    assert answer.price.delta > 0


def test_private_keys_need_a_delta() -> None:
    with protect(frame(), unit="id", budget=1) as curator, pytest.raises(UnplannableError, match="delta"):
        curator.ask("SELECT street, COUNT(*) FROM data GROUP BY street", epsilon="0.5")


def test_explain_reads_and_spends_nothing(local, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = local.data_sets["data"].engine
    monkeypatch.setattr(engine.connection, "_connection", None)
    shown = local.explain("SELECT city, COUNT(*) AS n, AVG(age) AS mean FROM data GROUP BY city", epsilon="0.5")
    assert str(shown.price) == "ε=0.5"
    assert sum((epsilon for _, epsilon, _ in shown.price.items), Fraction(0)) == Fraction(1, 2)
    assert shown.errors()["n"] > 0
    assert shown.errors()["mean"] is None
    assert local.history() == []


def test_the_price_is_charged_exactly_and_the_budget_ends(protected) -> None:
    with protected(frame(), unit="id", budget="1", max_rows=3) as curator:
        for _ in range(10):
            curator.ask("SELECT COUNT(*) FROM data", epsilon="0.1", fresh=True)
        with pytest.raises(BudgetExceededError):
            curator.ask("SELECT COUNT(*) FROM data", epsilon="0.0001")
        assert curator.budget()[0].remaining.epsilon == 0


@pytest.mark.parametrize(
    "question",
    [
        "SELECT city, COUNT(*), SUM(age), AVG(age), VARIANCE(age) FROM data GROUP BY city",
        "SELECT MEDIAN(age), MIN(age), MAX(age), MODE(city) FROM data",
        "SELECT COUNT(DISTINCT id), COUNT(DISTINCT street), CORR(age, age + 1) FROM data",
    ],
)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_whatever_is_asked_costs_the_epsilon_it_names(question: str, neighbours: str) -> None:
    with protect(
        frame(),
        unit="id",
        bounds={"age": (0, 100)},
        values={"city": ["Oslo", "Bergen"]},
        budget=1,
        max_rows=3,
        max_groups=2,
        neighbours=neighbours,
    ) as curator:
        curator.ask(question, epsilon="0.75")
        assert curator.budget()[0].remaining.epsilon == Fraction(1, 4)


def test_a_request_asked_again_gives_the_same_answer_for_nothing(curator) -> None:
    one = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon=1, request="r1")
    before = curator.budget()[0].spent
    two = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon=1, request="r1")
    assert two.columns == one.columns
    assert two.receipt == one.receipt
    assert curator.budget()[0].spent == before


def test_a_request_asked_again_with_other_values_is_another_question(curator) -> None:
    text = "SELECT COUNT(*) AS n FROM data WHERE age >= ? AND city = ?"
    one = curator.ask(text, [30, "Oslo"], epsilon=1, request="r1")
    assert curator.ask(text, (30.0, "Oslo"), epsilon=1, request="r1").receipt == one.receipt
    for values in ([70, "Oslo"], [30, "Bergen"], ["30", "Oslo"], [30, None]):
        with pytest.raises(HushError):
            curator.ask(text, values, epsilon=1, request="r1")
    built = curator.table("data").agg(n=("COUNT_IF(age >= ?)", 30))
    built.ask(epsilon=1, request="r2")
    with pytest.raises(RequestConflictError):
        curator.table("data").agg(n=("COUNT_IF(age >= ?)", 70)).ask(epsilon=1, request="r2")
    assert [release.question.split("\n")[1:] for release in curator.history()] == [
        ["-- $1 = 30"],
        ["-- $1 = 30", '-- $2 = "Oslo"'],
    ]


def test_absurd_prices_are_refused_and_not_charged(curator) -> None:
    prices = [{"epsilon": price} for price in ("1e-160", "1e-1000", "1e20", "1e400")]
    for key, options in product(("city", "street"), [*prices, {"epsilon": 1, "delta": "1e-1000"}]):
        with pytest.raises(InvalidValueError):
            curator.ask(f"SELECT {key}, COUNT(*) AS n FROM data GROUP BY {key}", **options)
    assert not curator.history()


def test_builder_and_sql_are_the_same_question(local) -> None:
    built = local.table("data").where("age >= ?", 30).group_by("city").agg(n="COUNT(*)")
    asked = local.explain("SELECT city, COUNT(*) AS n FROM data WHERE age >= 30 GROUP BY city", epsilon=1).plan
    assert built.explain(epsilon=1).plan.exact_query == asked.exact_query


def test_accuracy_instead_of_epsilon(curator) -> None:
    question = "SELECT COUNT(*) AS n FROM data"
    shown = curator.explain(question, accuracy=(20, "0.95"))
    assert shown.errors()["n"] <= 20
    # three rows a unit: P(|X| > t) = e^{-t·ε/3}, so ε is close to 3·ln(20)/20
    assert 0.40 < float(shown.price.epsilon) < 0.46
    with pytest.raises(UnplannableError, match="epsilon"):
        curator.explain("SELECT AVG(age) FROM data", accuracy=(1, "0.95"))
    with pytest.raises(UnplannableError, match="which share is not"):
        curator.explain("SELECT COUNT(*) FILTER (WHERE age > 9) / COUNT(*) AS share FROM data", accuracy=20)


def test_accuracy_of_what_is_made_of_counts_and_sums(curator) -> None:
    for output in ("2 * COUNT(*)", "COUNT(*) - COUNT(*) FILTER (WHERE age > 30)", "(SUM(age) + COUNT(*)) / 100 - 3"):
        question = f"SELECT {output} AS v, COUNT(*) AS n FROM data"
        shown = curator.explain(question, accuracy=20)
        assert shown.errors()["v"] <= 20
        assert max(shown.errors().values()) > 15  # and it costs no more than it must
        answer = curator.ask(question, accuracy=20)
        assert answer.columns[0].errors[0] <= 20


def test_accuracy_over_several_answers(curator) -> None:
    first, second = (f"SELECT city, {what} FROM data GROUP BY 1" for what in ("COUNT(*) AS n", "SUM(age) AS s"))
    for sql in (
        f"SELECT a.city, n, s, s - 3 AS d FROM ({first}) AS a JOIN ({second}) AS b ON a.city = b.city",
        f"{first} UNION ALL SELECT 'all', COUNT(*) FROM data",
        "SELECT city, COUNT(*) AS n FROM data GROUP BY ROLLUP (city)",
    ):
        widths = curator.explain(sql, accuracy=(60, "0.9")).errors().values()
        assert 55 < max(width for width in widths if width is not None) <= 60, sql
    with pytest.raises(UnplannableError, match="which share is not"):
        curator.explain(f"SELECT n / SUM(n) OVER () AS share FROM ({first})", accuracy=60)
    ranked = f"SELECT city, n, RANK() OVER (ORDER BY city) AS r FROM ({first}) WHERE n > 5"
    with pytest.raises(UnplannableError, match="noise decides which rows"):
        curator.explain(ranked, accuracy=60)


def test_either_a_price_or_an_accuracy(curator) -> None:
    question = "SELECT COUNT(*) AS n FROM data"
    for given, words in (({}, "neither"), ({"epsilon": 1, "accuracy": 5}, "both")):
        with pytest.raises(InvalidValueError, match=f"or accuracy in its place. Got '{words}'.* Say for instance"):
            curator.explain(question, **given)
    with pytest.raises(InvalidValueError, match="request"):
        curator.ask(question, epsilon=1, request="")


def test_accuracy_is_reached_by_sums_that_share_a_count(curator) -> None:
    for others in ("COUNT(*) AS n, AVG(age) AS m", "AVG(age) AS m", "COUNT(age) AS n"):
        shown = curator.explain(f"SELECT SUM(age) AS s, {others} FROM data", accuracy=(5000, "0.95"))
        assert max(width for name, width in shown.errors().items() if name != "m") <= 5000
        assert shown.errors()["s"] >= 4990  # three digits of ε
        answer = curator.ask(f"SELECT SUM(age) AS s, {others} FROM data", accuracy=(5000, "0.95"))
        assert answer.columns[0].errors[0] == shown.errors()["s"]


def test_three_aggregates_of_a_column_cost_two_vectors(local) -> None:
    shown = local.explain("SELECT COUNT(age), SUM(age), AVG(age) FROM data", epsilon=1)
    (noise,) = shown.plan.noises  # at the price of one
    assert len(noise.statistics) == 2


def test_having_order_and_limit_see_noisy_values(curator) -> None:
    answer = curator.ask(
        "SELECT city, COUNT(*) AS n FROM data GROUP BY city HAVING COUNT(*) > 700 ORDER BY n DESC LIMIT 1", epsilon=20
    )
    assert len(answer) == 1
    assert answer.columns[1].values[0] > 700


def test_answers_travel(curator, tmp_path) -> None:
    answer = curator.ask("SELECT city, COUNT(*) AS n, AVG(age) AS mean FROM data GROUP BY city", epsilon=5)
    assert Answer.from_bytes(answer.to_bytes()) == answer
    for suffix in ("csv", "json", "parquet", "html"):
        answer.save(tmp_path / f"answer.{suffix}")
    read = json.loads((tmp_path / "answer.json").read_text())
    assert read["columns"] == ["city", "n", "mean"]
    assert read["errors"][0][0] is None
    assert pq.read_table(tmp_path / "answer.parquet").num_rows == 3
    assert "±" in str(answer) == repr(answer)
    assert "Oslo" in answer._repr_html_()
    assert "Oslo" in answer.chart().svg
    from rich.console import Console

    with (tmp_path / "out.txt").open("w") as out:
        Console(file=out).print(answer)


@pytest.mark.parametrize("total", [20, 2000])
def test_counts_that_were_moved_up_from_zero_can_be_shown(total: int) -> None:
    count = AnswerColumn(name="n", kind=Kind.INTEGER, values=(0, 2), errors=(6.0, 6.0), counts=True)
    nothing = Money(epsilon=Fraction(0), delta=Fraction(0))
    fixed = Answer(columns=(count,), confidence=0.95, price=nothing).nonnegative(total=total)
    assert [type(error) for error in fixed.columns[0].errors] == [float, float]
    assert str(total // 2 - 1) in str(fixed).replace(",", "")


def test_bad_prices_and_bad_questions_cost_nothing(curator) -> None:
    for epsilon in (0, -1, "x", float("nan"), None):
        with pytest.raises(InvalidValueError):
            curator.ask("SELECT COUNT(*) FROM data", epsilon=epsilon)
    for question in ("SELECT COUNT(*) FROM dat", "SELECT SUM(street) FROM data", "SELEC", "SELECT 1", ""):
        with pytest.raises(QuestionError):
            curator.ask(question, epsilon=1)
    assert curator.history() == []


def test_empty_tables() -> None:
    empty = frame().slice(0, 0)
    with protect(empty, unit="id", bounds={"age": (0, 100)}, values={"city": ["Oslo"]}, budget=100) as curator:
        answer = curator.ask(
            "SELECT COUNT(*), SUM(age), AVG(age), MEDIAN(age), MIN(age), STDDEV(age), MODE(city) FROM data", epsilon=1
        )
        assert len(answer) == 1
        assert len(curator.ask("SELECT city, COUNT(*) FROM data GROUP BY city", epsilon=1)) == 1


def test_accounts_that_another_process_opened_meanwhile(monkeypatch) -> None:
    ledger = Ledger.in_memory()
    ledger.create_data("clinic", {"epsilon": 1}, actor=Actor.owner("another process"))
    monkeypatch.setattr(Ledger, "in_memory", lambda: ledger)
    monkeypatch.setattr(Ledger, "budget", lambda *_: [])  # what this process read before that
    budget = Budget(epsilon=1)
    alice = SimpleNamespace(name="alice", data=("clinic",), budget=budget, allowance=None, ask_first=None)
    policy = SimpleNamespace(data={"clinic": SimpleNamespace(budget=budget)}, analysts={"alice": alice})
    for _ in range(2):
        assert rehearsed(policy) is ledger
    ledger.reserve("q", analyst="alice", data="clinic", question="q", events=LaplaceEvent(scale=4))
    monkeypatch.undo()
    left = {view.analyst: view.remaining.epsilon for view in ledger.budget(Actor.owner("another process"))}
    assert left == {None: Fraction(3, 4), "alice": Fraction(3, 4)}


def test_from_a_policy(tmp_path) -> None:
    pq.write_table(frame(), tmp_path / "visits.parquet")
    (tmp_path / "regions.csv").write_text("name,region\nOslo,east\nBergen,west\n")
    (tmp_path / "hush.toml").write_text(
        """
        [data.clinic]
        unit = "id"
        budget = { epsilon = "4", delta = "1e-7" }
        [data.clinic.tables.visits]
        source = "visits.parquet"
        max_rows = 3
        max_groups = 2
        columns.age = { type = "integer", lower = 0, upper = 120 }
        columns.city = { type = "text", values = ["Oslo", "Bergen"] }
        [data.clinic.tables.regions]
        source = "regions.csv"
        public = true
        columns.name = { type = "text" }
        columns.region = { type = "text" }
        [analysts.alice]
        data = ["clinic"]
        budget = { epsilon = "1", delta = "1e-8" }
        """
    )
    question = "SELECT r.region, COUNT(*) AS n FROM visits v JOIN regions r ON v.city = r.name GROUP BY r.region"
    with open_policy(tmp_path / "hush.toml", analyst="alice", create=True) as curator:
        answer = curator.ask(question, epsilon="0.5")
        assert answer.columns[0].values == ("east", "west")
        spent = {(view.data, view.analyst): view.spent.epsilon for view in curator.budget()}
    with open_policy(tmp_path / "hush.toml") as again:  # the ledger remembers
        assert {(view.data, view.analyst): view.spent.epsilon for view in again.budget()} == spent
        with pytest.raises(BudgetExceededError):
            again.ask(question, epsilon="0.9")
    with pytest.raises(HushError):
        open_policy(tmp_path / "hush.toml", analyst="mallory")


def test_the_median_of_nobody_says_that_next_to_nothing_is_known() -> None:
    frame = pa.table({"g": ["full"] * 5000, "x": [at % 100 for at in range(5000)]})
    wide, narrow = 0, 0
    with protect(frame, bounds={"x": (0, 10_000, 1)}, values={"g": ["full", "none"]}, budget=10**6) as curator:
        for _ in range(50):
            full, none = curator.ask("SELECT g, MEDIAN(x) AS m FROM data GROUP BY g", epsilon=1, fresh=True).rows()
            narrow += full["m_error"] < 100
            wide += none["m_error"] > 2000
    assert narrow >= 48
    assert wide >= 32  # of draws that saw no row, five in six come in the wrong order
