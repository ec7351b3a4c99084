"""Every record of a function keeps its promises, on real rows in DuckDB; calls are generated from the record itself.

A record's rule says which arguments it takes, so calls are found by asking it: every combination of sorts of arguments
is tried, and what the rule refuses is left out. Nothing here names a function. A new record is tested as it is, and a
wrong range, step, list of values, NULL rule, length, order or NumPy formula is found (`test_planted_faults_are_found`),
and so are a cost below the time that DuckDB takes for long texts (`test_planted_costs_are_found`), and a function
without a cost (`test_every_function_of_the_engine_has_a_cost`).
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest

from hush.engines.sql import nodes
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.forcing import force
from hush.engines.sql.nodes import column, read, select
from hush.engines.sql.render import render
from hush.engines.sql.scalars import value_of
from hush.engines.sql.values import Value
from hush.query.errors import QuestionError, UnplannableError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released, columns_in, with_columns
from hush.query.functions import FUNCTIONS, call, constant
from hush.query.functions.record import Function, as_array
from hush.query.released import evaluate
from hush.query.types import Interval, Kind, Type, position

ROWS, CALLS, LONGEST = 200, 72, 12
EXACT = 2**53
"""Below, float64 tells whole numbers apart."""


def days(first: dt.date, last: dt.date) -> dict[str, Fraction]:
    return {"lower": position(first), "upper": position(last), "step": Fraction(1)}


FIRST, LAST = dt.date(2019, 11, 3), dt.date(2021, 2, 27)
NIGHTS = dt.datetime(2020, 1, 30, 23), dt.datetime(2020, 3, 31, 1)
COLUMNS: dict[str, tuple[str, Type, list[Any]]] = {
    "i": ("BIGINT", Type(Kind.INTEGER, False, Fraction(-3), Fraction(7), Fraction(1)), [-9, -3, -1, 0, 1, 2, 7, 99]),
    "n": ("BIGINT", Type(Kind.INTEGER, True, Fraction(0), Fraction(120), Fraction(1)), [None, -1, 0, 1, 59, 120, 500]),
    "tens": ("BIGINT", Type(Kind.INTEGER, False, Fraction(10), Fraction(50), Fraction(10)), [10, 20, 30, 50, 7]),
    "ten": ("BIGINT", Type(Kind.INTEGER, False, Fraction(0), Fraction(10), Fraction(1)), [0, 9, 10]),
    "big": ("BIGINT", Type(Kind.INTEGER, True, step=Fraction(1)), [None, 0, 1, -7, EXACT + 1, 2**63 - 1, -(2**63)]),
    "d": ("DOUBLE", Type(Kind.DECIMAL, False, Fraction(-11, 10), Fraction(23, 10), Fraction(1, 10)),
          [-1.1, -0.05, 0.0, 0.1, 0.5, 1.0, 2.3, 1e9]),
    "p": ("DOUBLE", Type(Kind.DECIMAL, True, Fraction(1, 100), Fraction(50)), [None, 0.01, 0.5, 1.5, 49.999, 50.0]),
    "free": ("DOUBLE", Type(Kind.DECIMAL, True), [None, -2.5, -0.0, 0.5, 709.0, 1e300, -1e300, 5e-324, math.nan]),
    "s": ("VARCHAR", Type(Kind.TEXT, True, values=("Flu", " hiv ", "2021-01-03")),
          [None, "Flu", " hiv ", "2021-01-03", "other"]),
    "e": ("VARCHAR", Type(Kind.TEXT, False, values=("",)), [""]),
    "t": ("VARCHAR", Type(Kind.TEXT, False), ["", "a", "B%_", "abcabcabcabc", "2.5", "ÉÉßİﬁﬁﬁ", "\U0001f600x", "1e3"]),
    "b": ("BOOLEAN", Type(Kind.BOOLEAN, True, values=(False, True)), [None, False, True]),
    "y": ("BOOLEAN", Type(Kind.BOOLEAN, False, values=(False, True)), [False, True]),
    "day": ("DATE", Type(Kind.DATE, True, **days(FIRST, LAST)), [None, FIRST, LAST, dt.date(2020, 2, 29),
            dt.date(2020, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "due": ("DATE", Type(Kind.DATE, False, **days(FIRST, LAST)), [FIRST, LAST, dt.date(2020, 9, 30)]),
    "any_day": ("DATE", Type(Kind.DATE, True), [None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    "at": ("TIMESTAMP", Type(Kind.TIMESTAMP, False), [dt.datetime(1, 1, 1), dt.datetime(2020, 2, 29, 23, 59, 59, 9),
           dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(1969, 12, 31, 23, 59, 59, 1)]),
    "seen": ("TIMESTAMP", Type(Kind.TIMESTAMP, False, **days(*NIGHTS)),
             [*NIGHTS, dt.datetime(2020, 1, 31, 1), dt.datetime(2020, 3, 30, 23)]),
}  # fmt: skip
"""Stored type, declared type, and stored values: at the borders, and beyond them."""

NUMBERS = [*map(Fraction, (0, 1, 2, 3, 7, 10, 15, -1, -14, 40, 10**6)), Fraction(5, 2), Fraction(-1, 2)]
DECIMALS = [Fraction(1, 10)]
"""Numbers that are no floats."""
TEXTS = [
    "", "a", "abc", "x", "%a%", "B!%_", "!", "-", "[a-c]+", "i", "year", "quarter", "month", "week", "day", "hour",
    "minute", "second", "%Y-%m-%d", "%A, %d %B %Y %H:%M:%S.%f", "%j %G-%V", "%Y%m", "%A%A", "2020-02-29",
]  # fmt: skip
OTHERS = [constant(True), constant(None), constant(FIRST), constant(dt.datetime(2020, 5, 17, 13))]
_SORTS = ({Kind.INTEGER}, {Kind.DECIMAL}, {Kind.TEXT}, {Kind.BOOLEAN}, {Kind.DATE, Kind.TIMESTAMP})
SORTS: list[list[Expression]] = [
    *([Column(name, type_) for name, (_, type_, _) in COLUMNS.items() if type_.kind in kinds] for kinds in _SORTS),
    [constant(number) for number in [*NUMBERS, *DECIMALS]],
    [constant(text) for text in TEXTS],
    [*OTHERS],
]
"""The sorts of arguments that are tried at every place: columns by kind, and constants."""


def calls(record: Function, rng: Random) -> list[Call]:
    """Return well-typed calls of a record, of as many combinations of sorts as its rule takes."""
    lists: list[list[Call]] = []
    least, most = record.arity
    for many in range(least, min(most, least + 2, 4) + 1):
        for sorts in product(range(len(SORTS)), repeat=many):
            found: dict[Call, None] = {}
            left = {1: 40, 2: 40, 3: 10}.get(many, 4)
            for arguments in combinations([SORTS[sort] for sort in sorts], rng):
                left -= 1
                with suppress(QuestionError):
                    found[call(record.op, *arguments)] = None
                if not left and (len(found) >= CALLS or not found):  # the rule does not take these sorts
                    break
                left = left or 20
            lists += [list(found)] if found else []
    rng.shuffle(lists)
    deepest = max(map(len, lists), default=0)
    in_turn = [found[at] for at in range(deepest) for found in lists if at < len(found)]
    return in_turn[: max(2 * CALLS if 2 < most < 5 else CALLS, len(lists))]


def combinations(lists: list[list[Expression]], rng: Random) -> Iterator[tuple[Expression, ...]]:
    """Yield combinations of arguments in a random order: all of a few, and some of many."""
    if math.prod(map(len, lists)) <= 2000:
        every = [*product(*lists)]
        rng.shuffle(every)
        yield from every
    else:
        for _ in range(100):
            yield tuple(map(rng.choice, lists))


def stored_rows() -> list[tuple[Any, ...]]:
    rng = Random(20261118)
    lists = [values for _, _, values in COLUMNS.values()]
    return [tuple(rng.choice(values) for values in lists) for _ in range(ROWS)]


@dataclass
class Bench:
    """Rows in DuckDB, with every column forced into its declared type as an engine reads it."""

    connection: duckdb.DuckDBPyConnection
    columns: dict[str, Value]
    known: dict[Function, list[tuple[Call, Value, list[Any]]]] = field(default_factory=dict)

    def results(self, record: Function) -> list[tuple[Call, Value, list[Any]]]:
        """Return calls of a record that the engine takes, each with its results in all rows."""
        if record not in self.known:
            self.known[record] = self._computed(calls(record, Random(record.op.name)))
        return self.known[record]

    def _computed(self, wanted: list[Call]) -> list[tuple[Call, Value, list[Any]]]:
        written: list[tuple[Call, Value]] = []
        for one in wanted:
            try:
                written.append((one, value_of(one, self.columns)))
            except UnplannableError:
                continue
        cells = [value.finite().sql.alias(f"c{at}") for at, (_, value) in enumerate(written)]
        text = render(select(cells, read("stored", "s")), DUCKDB).text
        found = self.connection.execute(text).fetchall()
        return [(one, value, [row[at] for row in found]) for at, (one, value) in enumerate(written)]

    def arguments(self) -> dict[str, list[Any]]:
        cells = [value.finite().sql.alias(name) for name, value in self.columns.items()]
        found = self.connection.execute(render(select(cells, read("stored", "s")), DUCKDB).text).fetchall()
        return {name: [row[at] for row in found] for at, name in enumerate(self.columns)}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = true")
    stored = ", ".join(f'"{name}" {physical}' for name, (physical, _, _) in COLUMNS.items())
    connection.execute(f"CREATE TABLE stored ({stored})")
    connection.executemany(f"INSERT INTO stored VALUES ({', '.join('?' * len(COLUMNS))})", stored_rows())
    columns = {
        name: force(column(name, "s"), physical, type_, LONGEST) for name, (physical, type_, _) in COLUMNS.items()
    }
    yield Bench(connection, columns)
    connection.close()


def broken_promise(type_: Type, value: Any, longest: int) -> str | None:
    """Return which promise of a type a result breaks; None if it keeps all."""
    if value is None:
        return None if type_.nullable else "NULL"
    if type_.kind is Kind.TEXT:
        if len(value) > longest:
            return f"{len(value)} characters, of at most {longest}"
    elif type_.kind is not Kind.BOOLEAN:
        place = Fraction(value) if type_.kind.numeric else position(value)
        span = Interval.of(type_.lower, type_.upper)
        if not span.lower <= place <= span.upper:
            return "outside its range"
        if type_.kind is Kind.INTEGER and (
            place.denominator != 1 or (abs(place) < EXACT and type_.step and place % type_.step)
        ):
            return "not on its grid"
    if type_.values is None:
        return None
    if type_.kind is Kind.DECIMAL:
        listed = any(
            math.isclose(value, float(each), abs_tol=1e-12) for each in type_.values if isinstance(each, Fraction)
        )
    else:
        listed = value in type_.values
    return None if listed else "not among its values"


def check(record: Function, bench: Bench) -> int:
    """Check all promises of a record on all rows; return how many calls were checked."""
    rng, checked = Random(record.op.name), 0
    arguments = bench.arguments()
    for one, value, results in bench.results(record):
        checked += 1
        for row, result in enumerate(results):
            broken = broken_promise(one.type, result, value.chars)
            inputs = {name: arguments[name][row] for name in names(one)}
            assert broken is None, f"{one}: {result!r} of {inputs} is {broken}"
        # to an engine 0.1 may be the decimal, of which 10 is a multiple, and not of the float
        decimals = any(isinstance(part, Literal) and part.value in DECIMALS for part in one.arguments)
        if record.evaluate is not None and not record.by_engine and (record.rising or not decimals):
            check_numpy(one, results, arguments)
        if record.rising:
            check_rising(one, results, arguments, rng)
    return checked


def names(expression: Call) -> list[str]:
    return sorted(columns_in(expression))


def check_numpy(one: Call, results: list[Any], arguments: dict[str, list[Any]]) -> None:
    """Check that NumPy computes over released numbers what the engine computes over rows."""
    if not all(part.type.kind.numeric or part.type.kind is Kind.BOOLEAN for part in (one, *one.arguments)):
        return
    used = names(one)
    over = {name: Released("key", at, COLUMNS[name][1]) for at, name in enumerate(used)}
    keys = [as_array(arguments[name], COLUMNS[name][1].kind) for name in used]
    computed = np.broadcast_to(evaluate(with_columns(one, over), keys, []), (ROWS,)).tolist()
    for row, (result, other) in enumerate(zip(results, computed, strict=True)):
        inputs = [arguments[name][row] for name in used]
        if any(isinstance(number, int | float) and abs(number) >= EXACT for number in (*inputs, result or 0)):
            continue  # floats do not tell such numbers apart
        same = math.isnan(other) if result is None else math.isclose(result, other, rel_tol=1e-9, abs_tol=1e-12)
        assert same, f"{one}: {result!r} of {inputs} in DuckDB, {other} in NumPy"


def check_rising(one: Call, results: list[Any], arguments: dict[str, list[Any]], rng: Random) -> None:
    """Check that a function never falls where its arguments rise."""
    used = names(one)
    if not all(COLUMNS[name][1].kind.numeric for name in used):
        return
    for _ in range(4 * ROWS):
        low, high = rng.randrange(ROWS), rng.randrange(ROWS)
        pairs = [(arguments[name][low], arguments[name][high]) for name in used]
        if None in (results[low], results[high]) or any(None in pair or pair[0] > pair[1] for pair in pairs):
            continue
        assert results[low] <= results[high], f"{one} falls from {results[low]} to {results[high]} at {pairs}"


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_a_record_keeps_its_promises(op: Op, bench: Bench) -> None:
    assert check(FUNCTIONS[op], bench) >= 3, "the rule takes none of the arguments that are tried; add constants above"


def test_every_function_of_the_engine_has_a_cost(bench: Bench) -> None:
    waiting: list[nodes.Node] = [value.sql for record in FUNCTIONS.values() for _, value, _ in bench.results(record)]
    seen: dict[int, nodes.Node] = {}  # branches are shared
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            waiting += node.children
    called = {node.function for node in seen.values() if isinstance(node, nodes.FunctionCall)}
    assert called <= set(nodes.CALLS), "add to CALLS in hush.engines.sql.nodes what DuckDB takes for a row"


def without_null(type_: Type) -> Type | None:
    return replace(type_, nullable=False) if type_.nullable else None


def lower_half(type_: Type) -> Type | None:
    if type_.lower is None or type_.upper is None or type_.lower == type_.upper:
        return None
    return replace(type_, upper=(type_.lower + type_.upper) / 2)


def upper_half(type_: Type) -> Type | None:
    if type_.lower is None or type_.upper is None or type_.lower == type_.upper:
        return None
    return replace(type_, lower=(type_.lower + type_.upper) / 2)


def coarser(type_: Type) -> Type | None:
    return replace(type_, step=7 * type_.step) if type_.kind is Kind.INTEGER and type_.step else None


def fewer_values(type_: Type) -> Type | None:
    return replace(type_, values=type_.values[:-1]) if type_.values and type_.kind is not Kind.BOOLEAN else None


@pytest.mark.parametrize("mutate", [without_null, lower_half, upper_half, coarser, fewer_values])
def test_a_wrong_rule_is_found_for_every_record(mutate: Callable[[Type], Type | None], bench: Bench) -> None:
    """The rows and calls have teeth: a rule that promised a little more would be found, whichever record it is in."""
    missed = []
    for op, record in FUNCTIONS.items():
        applies = False
        for one, value, results in bench.results(record):
            promise = mutate(one.type)
            if promise is not None:
                applies = True
                if any(broken_promise(promise, result, value.chars) for result in results):
                    break
        else:
            missed += [op] if applies else []
    assert missed == []


def ruled(change: Callable[[Type], Type]) -> Callable[[Function], Function]:
    return lambda record: replace(record, rule=lambda op, arguments: change(record.rule(op, arguments)))


PLANTED: dict[str, tuple[Op, Callable[[Function], Function]]] = {
    "a range that ends a little too early": (
        Op.ABS, ruled(lambda t: replace(t, upper=t.upper and t.upper * Fraction(99, 100)))
    ),
    "a remainder that ends a little too early": (
        Op.MODULO, ruled(lambda t: replace(t, upper=t.upper - 1) if t.upper and t.kind is Kind.INTEGER else t)
    ),
    "a range of days that ends too early": (Op.TO_DATE, ruled(lambda t: replace(t, upper=t.upper and t.upper - 1))),
    "a part of a date from 1 instead of 0": (Op.DAY_OF_WEEK, ruled(lambda t: replace(t, lower=Fraction(1)))),
    "a division that is never NULL": (Op.DIVIDE, ruled(lambda t: replace(t, nullable=False))),
    "a cast of text that is never NULL": (Op.TO_INTEGER, ruled(lambda t: replace(t, nullable=False))),
    "whole numbers that are even": (Op.FLOOR, ruled(lambda t: replace(t, step=Fraction(2)))),
    "a text that is no longer than its format": (Op.STRFTIME, lambda record: replace(record, lengthens=1)),
    "a function that falls": (Op.NEGATE, lambda record: replace(record, rising=True)),
    "another formula in NumPy": (Op.SIGN, lambda record: replace(record, evaluate=FUNCTIONS[Op.ABS].evaluate)),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    op, plant = PLANTED[fault]
    monkeypatch.setitem(FUNCTIONS, op, plant(FUNCTIONS[op]))
    with pytest.raises(AssertionError, match=op.name):
        check(FUNCTIONS[op], bench)


LONG = [
    ["a" * 400], ["ÉÉßİ" * 100], [" " * 399 + "a"], ["abc" * 133, "x-" * 200, "B%_ " * 100, "2.5" + "0" * 390],
]  # fmt: skip
"""Long texts of several kinds: for each function one of them is among the worst."""
SLACK = 200
"""Nanoseconds for a row: what is measured for functions that cost next to nothing."""
TRIES = 20
"""How often the time of a call is measured before it counts as more than is charged."""


class Clock:
    """Tables of long texts in DuckDB, and the processor's time that a function takes for a row of the worst one."""

    def __init__(self) -> None:
        self.connection, rng = duckdb.connect(), Random(20261119)
        self.connection.execute("SET threads = 1")
        stored = ", ".join(f'"{name}" {physical}' for name, (physical, _, _) in COLUMNS.items())
        for kind, texts in enumerate(LONG):
            self.connection.execute(f"CREATE TABLE few ({stored})")
            lists = [texts if name == "t" else values for name, (_, _, values) in COLUMNS.items()]
            rows = [tuple(map(rng.choice, lists)) for _ in range(ROWS // 4)]
            self.connection.executemany(f"INSERT INTO few VALUES ({', '.join('?' * len(COLUMNS))})", rows)
            self.connection.execute(f"CREATE TABLE stored{kind} AS SELECT few.* FROM few, range(20)")
            self.connection.execute("DROP TABLE few")
        self.columns = {
            name: force(column(name, "s"), physical, type_, 400) for name, (physical, type_, _) in COLUMNS.items()
        }
        self.read = self.nanoseconds(self.columns["t"])

    def nanoseconds(self, value: Value) -> list[float]:
        """Return the time for a row of each kind."""
        times = []
        for kind in range(len(LONG)):
            text = render(select([value.sql.alias("c")], read(f"stored{kind}", "s")), DUCKDB).text
            best = math.inf
            for _ in range(2):
                begin = time.process_time()
                self.connection.execute(f"SELECT BIT_XOR(HASH(c)) FROM ({text})").fetchall()
                best = min(best, time.process_time() - begin)
            times.append(best * 1e9 / (5 * ROWS))
        return times

    def check(self, record: Function) -> None:
        """Check that calls cost no more time than is charged: twice the charge, on a machine as slow as that."""
        of_texts = [one for one in calls(record, Random(record.op.name)) if "t" in columns_in(one)]
        # what is searched for "abc" in many a's nearly has it everywhere
        searched = [
            replace(one, arguments=(one.arguments[0], constant("abc"), *one.arguments[2:]))
            for one in of_texts
            if isinstance(one.arguments[0], Column)
            and any(isinstance(part, Literal) and isinstance(part.value, str) for part in one.arguments[1:2])
        ]
        for one in [*searched[:1], *of_texts[:4]]:
            try:
                value = value_of(one, self.columns)
            except UnplannableError:
                continue
            charged = value.sql.cost - sum(self.columns[name].sql.cost for name in columns_in(one))
            limit, taken = 2 * charged + SLACK, math.inf
            for _ in range(TRIES):  # the least time counts: other programs can only make it longer
                again = max(
                    took - only_read for took, only_read in zip(self.nanoseconds(value), self.read, strict=True)
                )
                taken = min(taken, again)
                if taken <= limit:
                    break
            assert taken <= limit, f"{one} takes {taken:.0f} ns for a row, and is charged {charged}"


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


def test_a_cost_covers_the_time(clock: Clock) -> None:
    for record in FUNCTIONS.values():
        clock.check(record)


@pytest.mark.parametrize("op", [Op.LOWER, Op.TRIM, Op.LIKE], ids=lambda op: op.name)
def test_planted_costs_are_found(op: Op, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, op, replace(FUNCTIONS[op], per_character=0, searches=False))
    with pytest.raises(AssertionError, match=op.name):
        clock.check(FUNCTIONS[op])
