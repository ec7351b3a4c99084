"""A mistake of the caller's is told in a sentence, never in a traceback from somewhere inside."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hush
from hush.core import HushError
from hush.curator.answer import Answer
from hush.curator.curator import Curator
from hush.curator.session import ClosedError

ROWS = 60
FRAME = pa.table(
    {
        "id": list(range(ROWS)),
        "age": [at % 90 for at in range(ROWS)],
        "cost": [at / 7 for at in range(ROWS)],
        "city": ["a", "b"] * (ROWS // 2),
        "paid": [True, False] * (ROWS // 2),
        "day": [dt.date(2024, 1, 1) + dt.timedelta(at) for at in range(ROWS)],
        "at": [dt.datetime(2024, 1, 1) + dt.timedelta(at) for at in range(ROWS)],
        "took": [dt.timedelta(at) for at in range(ROWS)],
        "clock": [dt.time(1)] * ROWS,
    }
)
COUNT = "SELECT COUNT(*) AS n FROM data"


def protect(source: object = FRAME, **options: Any) -> Curator:
    options = {"unit": "id", "budget": {"epsilon": 100, "delta": "1e-5"}} | options
    return hush.protect(source, **options)


DESCRIPTIONS = {
    "no pair": ({"bounds": {"cost": 5}}, r"bounds\[cost\].*\(lower, upper\)"),
    "text": ({"bounds": {"cost": "05"}}, r"bounds\[cost\]"),
    "mapping": ({"bounds": {"cost": {"lower": 0}}}, r"bounds\[cost\]"),
    "none": ({"bounds": {"cost": (None, 3)}}, "cost.lower must be a number; got None"),
    "infinite": ({"bounds": {"cost": (0, float("inf"))}}, "cost.upper must be a number; got inf"),
    "swapped": ({"bounds": {"cost": (5, 1)}}, "cost.upper must not be below lower"),
    "no step": ({"bounds": {"cost": (0, 1, 0)}}, "cost.step must be a positive number"),
    "long step": ({"bounds": {"cost": (1, 2, 100)}}, "no multiple of it lies between"),
    "halves": ({"bounds": {"age": (0.5, 3)}}, "age.lower must be a whole number"),
    "of booleans": ({"bounds": {"paid": (0, 1)}}, "boolean column has no lower"),
    "of texts": ({"bounds": {"city": (0, 1)}}, r"'city' is text.*types=\{\"city\": \"decimal\"\}"),
    "of times": ({"bounds": {"took": (0, 1)}}, "'took' has the type INTERVAL, which hush does not support"),
    "no day": ({"bounds": {"day": ("2024-13-01", "2025-01-01")}}, "day.lower must be a date"),
    "no time": ({"bounds": {"day": (pd.NaT, "2025-01-01")}}, "day.lower must be a date"),
    "list": ({"bounds": [("age", 0, 1)]}, "bounds by column"),
    "unknown": ({"bounds": {"agee": (0, 1)}}, "did you mean 'age'|Did you mean 'age'"),
    "number": ({"bounds": {5: (0, 1)}}, "no column 5"),
    "unit": ({"types": {"id": "text"}}, "'id' is the protected unit"),
    "letters": ({"values": {"city": "ab"}}, r"values\[city\].*a list"),
    "one number": ({"values": {"city": 5}}, r"values\[city\].*a list"),
    "nothing": ({"values": {"city": [None]}}, r"values\[city\].*at least one"),
    "twice": ({"values": {"city": ["a", "a"]}}, "lists 'a' twice"),
    "other kind": ({"values": {"age": [1, "x"]}}, "age.values must be numbers"),
    "bytes": ({"values": {"city": [b"a"]}}, "city.values must be text"),
    "half": ({"values": {"city": ["\ud800"]}}, "UTF-8"),
    "one truth": ({"values": {"paid": [True]}}, "has the values true and false"),
    "no type": ({"types": {"paid": "bool"}}, "Did you mean 'boolean'"),
    "class": ({"types": {"paid": bool}}, "paid.type is no type"),
    "type list": ({"types": ["paid"]}, "types by column"),
    "unit list": ({"unit": ["id"]}, "column of the table"),
    "public list": ({"public": [FRAME]}, "further tables by name"),
    "public twice": ({"public": {"data": FRAME}}, "none of them 'data'"),
    "no budget": ({"budget": "much"}, "epsilon"),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions_are_refused_with_the_reason(name: str) -> None:
    options, match = DESCRIPTIONS[name]
    with pytest.raises(HushError, match=match):
        protect(**options)


SOURCES = {
    "complex numbers": pd.DataFrame({"id": [1], "z": [1j]}),
    "objects": pd.DataFrame({"id": [1], "z": [object()]}),
    "a series": pd.Series([1, 2]),
    "no columns": pd.DataFrame(),
    "an array": np.zeros((2, 2)),
    "a dictionary": {"id": 1},
    "nothing": None,
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(HushError, match=r"column|frame"):
        protect(SOURCES[name])


QUESTIONS = {
    "no text": (5, {"epsilon": 1}, "SQL as text"),
    "a duration": ("SELECT COUNT(took) AS n FROM data", {"epsilon": 1}, "'took' has the type INTERVAL, which"),
    "a clock": ("SELECT COUNT(data.clock) AS n FROM data", {"epsilon": 1}, "'clock' has the type TIME, which"),
    "no truth": ("SELECT COUNT(*) AS n FROM data WHERE city", {"epsilon": 1}, "CAST"),
    "three numbers": (COUNT, {"accuracy": (1, 2, 3)}, "a half-width, or"),
    "no accuracy": (COUNT, {"accuracy": "x"}, "accuracy"),
    "no data set": (COUNT, {"epsilon": 1, "data": 5}, "no data set"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_are_refused_with_the_reason(name: str) -> None:
    sql, options, match = QUESTIONS[name]
    with protect() as curator:
        with pytest.raises(HushError, match=match):
            curator.ask(sql, **options, fresh=True)
        assert curator.budget()[0].spent.share == 0


@pytest.mark.parametrize("name", ["max_rows", "max_groups"])
def test_limits_that_no_question_could_be_planned_with_are_refused_at_once(name: str) -> None:
    with pytest.raises(HushError, match=rf"{name}.* at most 1048576\. Got 1048577 instead\. Noise grows with it"):
        protect(**{name: 2**20 + 1})
    with protect(values={"city": ["a", "b"]}, **{name: 2**20}) as curator:
        assert curator.explain("SELECT city, COUNT(*) AS n FROM data GROUP BY city", epsilon=1).price.epsilon == 1


def test_a_question_whose_own_delta_is_0_is_told_so() -> None:
    keys = "SELECT city, COUNT(*) AS n FROM data GROUP BY city"
    with protect() as curator, pytest.raises(HushError, match="question's own is 0: leave delta out"):
        curator.ask(keys, epsilon=1, delta=0, fresh=True)
    with protect(budget=1) as curator, pytest.raises(HushError, match="use a budget with a delta"):
        curator.ask(keys, epsilon=1, fresh=True)


def test_builders_refuse_what_is_no_sql() -> None:
    with protect() as curator:
        for build in (
            lambda: curator.table(5),  # type: ignore[arg-type]
            lambda: curator.table("data").agg(n=5),  # type: ignore[arg-type]
            lambda: curator.table("data").group_by(()),
        ):
            with pytest.raises(HushError, match="got"):
                build()


def test_a_plain_accuracy_is_at_95_percent() -> None:
    with protect() as curator:
        plain = curator.explain(COUNT, accuracy=20)
        assert plain.price == curator.explain(COUNT, accuracy=(20, "0.95")).price
        assert plain.price == curator.explain(COUNT, accuracy="20").price
        assert curator.explain(COUNT, accuracy=(20, "0.9")).price.epsilon < plain.price.epsilon


def test_a_closed_curator_says_so() -> None:
    curator = protect()
    curator.close()
    curator.close()
    for use in (
        lambda: curator.ask(COUNT, epsilon=1, fresh=True),
        lambda: curator.explain(COUNT, epsilon=1),
        curator.budget,
        curator.history,
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()


@pytest.fixture(scope="module")
def answer() -> Answer:
    with protect(values={"city": ["a", "b"]}) as curator:
        return curator.ask("SELECT city, COUNT(*) AS n FROM data GROUP BY city", epsilon=1, fresh=True)


@pytest.mark.parametrize("total", [-5, "x", float("nan"), float("inf"), 1e300, [1], True])
def test_totals_are_numbers_from_zero(answer: Answer, total: Any) -> None:
    with pytest.raises(HushError, match="total"):
        answer.nonnegative(total=total)


@pytest.mark.parametrize(
    "data",
    [b"junk", b"", b"\xff", b"1", b"[]", b"{}", b'{"columns": [{}], "items": []}', b"[" * 10**5],
    ids=lambda data: data[:10].hex(),
)
def test_bytes_that_are_no_answer_are_told_so(data: bytes) -> None:
    with pytest.raises(HushError, match=r"must be bytes that Answer\.to_bytes wrote\. Got b'.*Ask again"):
        Answer.from_bytes(data)


def test_stored_answers_are_equal_in_what_they_say(answer: Answer) -> None:
    again = Answer.from_bytes(answer.to_bytes())
    assert again == answer
    assert answer.receipt
    assert not again.receipt
    assert again != answer.nonnegative(total=10**6)
    with pytest.raises(HushError, match="bytes that Answer"):
        Answer.from_bytes(answer.to_bytes().replace(b'"kind": "text"', b'"kind": "odd"'))


def test_a_file_name_is_refused_with_all_that_are_known(answer: Answer, tmp_path: Path) -> None:
    with pytest.raises(HushError, match=r"\.csv, \.json or \.parquet, or in \.svg, \.png or \.html"):
        answer.save(tmp_path / "x.xlsx")
    with pytest.raises(HushError, match="2 rows and 2 outputs"):
        answer.value()


FRAMES = {
    "128 bits": (pl.DataFrame({"ok": [1], "odd": pl.Series([1], dtype=pl.Int128)}), "Int128"),
    "mixed": (pd.DataFrame({"ok": [1, 2], "odd": [1, "a"]}), "object that mixes values"),
    "complex": (pd.DataFrame({"ok": [1, 2], "odd": [1j, 2]}), "complex128"),
    "sparse": (pd.DataFrame({"ok": [0, 1], "odd": pd.arrays.SparseArray([0, 1])}), "Sparse"),
    "long decimals": (pa.table({"ok": [1], "odd": pa.array([1], pa.decimal256(50, 0))}), "decimal256"),
}


@pytest.mark.parametrize("odd", FRAMES)
def test_a_column_that_cannot_be_read_is_named_with_the_way_out(odd: str) -> None:
    frame, kind = FRAMES[odd]
    with pytest.raises(HushError, match=rf"column 'odd' of the frame has the type {kind}.*drop it, or make it"):
        hush.protect(frame, budget=1)


def test_half_precision_numbers_are_read() -> None:
    frame = pd.DataFrame({"x": np.array([0.5, 1.5], dtype=np.float16)})
    with hush.protect(frame, bounds={"x": (0, 10)}, budget=10**6) as curator:
        assert curator.ask("SELECT SUM(x) AS s FROM data", epsilon=10**5, fresh=True).value() == pytest.approx(
            2, abs=0.01
        )


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "svg", "html"])
def test_a_folder_that_is_not_there_is_named(suffix: str, tmp_path: Path) -> None:
    with protect() as curator:
        answer = curator.ask(COUNT, epsilon=1, fresh=True)
    with pytest.raises(HushError, match=r"There is no folder .*nowhere'; make it first"):
        answer.save(tmp_path / "nowhere" / f"x.{suffix}")


ARRAYS = {
    "array": [np.array([1, 2])],
    "numbers": [[np.int64(1), np.float32(2)]],
    "series": [pd.Series([1, 2])],
    "polars": [pl.Series([1, 2])],
}


@pytest.mark.parametrize("form", ARRAYS)
def test_arrays_are_lists(form: str) -> None:
    with protect() as curator:
        sql = "SELECT COUNT(*) AS n FROM data WHERE age IN ?"
        same = (
            curator.ask(sql, ARRAYS[form], epsilon=1, fresh=True).question,
            curator.ask(sql, [[1, 2]], epsilon=1, fresh=True).question,
        )
        assert same[0] == same[1]


def test_an_array_of_parameters_is_a_list_of_them() -> None:
    with protect() as curator:
        curator.explain("SELECT COUNT(*) AS n FROM data WHERE age BETWEEN ? AND ?", np.array([1, 2]), epsilon=1)
        curator.explain("SELECT COUNT(*) AS n FROM data WHERE day = ?", [np.datetime64("2024-01-01")], epsilon=1)
        moment = [np.datetime64("2024-01-01T00:00:00.000000000")]
        curator.explain("SELECT COUNT(*) AS n FROM data WHERE at = ?", moment, epsilon=1)
        with pytest.raises(HushError, match=r"Parameter \$1 is a list"):
            curator.explain("SELECT COUNT(*) AS n FROM data WHERE age = ?", [np.array([1])], epsilon=1)
        with pytest.raises(HushError, match="got ndarray"):
            curator.explain("SELECT COUNT(*) AS n FROM data WHERE age IN ?", [np.eye(2)], epsilon=1)


def test_counts_cannot_add_up_to_a_fraction() -> None:
    with protect() as curator:
        answer = curator.ask(COUNT, epsilon=1, fresh=True)
    with pytest.raises(HushError, match=r"'total' parameter must be a whole number.*Got 10\.5"):
        answer.nonnegative(total=10.5)
    assert answer.nonnegative(total=10.0).value() == 10


def test_a_stored_answer_keeps_its_confidence() -> None:
    with protect() as curator:
        first = curator.ask(COUNT, epsilon=1, confidence="0.9", request="a")
        assert curator.ask(COUNT, epsilon=1, request="a").columns == first.columns
        assert curator.ask(COUNT, epsilon=1, confidence="0.9", request="a").confidence == 0.9
        with pytest.raises(HushError, match=r"answered at a confidence of 0\.9, and is asked for at 0\.99"):
            curator.ask(COUNT, epsilon=1, confidence="0.99", request="a")
        assert len(curator.history()) == 1
