"""Parameters at the SQL door: types that clients leave open, and both forms of every type that drivers send."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from fractions import Fraction

import psycopg
import pytest
from pg_servers import connect, result_of
from psycopg.adapt import Transformer

from hush.server.pgwire.messages import (
    BOOLEAN,
    DATE,
    FLOAT,
    INSTANT,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    WHOLE,
    MessageError,
    elements,
    parameter,
)
from hush.server.pgwire.statements import parameter_types

COLUMNS = {"age": "integer", "cost": "decimal", "city": "text", "day": "date", "at": "timestamp", "ill": "boolean"}
DATA = [
    {
        "name": "clinic",
        "tables": [
            {"name": "visits", "columns": [{"name": name, "type": kind} for name, kind in COLUMNS.items()]},
            {"name": "other", "columns": [{"name": "age", "type": "text"}]},
        ],
    }
]


@pytest.mark.parametrize(
    ("condition", "types"),
    [
        ("age = $1", [WHOLE]),
        ("$1 <= age", [WHOLE]),
        ('"clinic"."visits"."age" <> ($1)', [WHOLE]),
        ("age BETWEEN $1 AND $2", [WHOLE, WHOLE]),
        ("age IN ($1, $2)", [WHOLE, WHOLE]),
        ("cost / 2 < $1", [FLOAT]),
        ("cost < -$1", [FLOAT]),
        ("age + $1 > 3", [WHOLE]),
        ("age * 1.5 > $1", [NUMERIC]),
        ("city LIKE $1 OR city = $2", [TEXT, TEXT]),
        ("LOWER(city) = $1", [TEXT]),
        ("LENGTH(city) = $1", [WHOLE]),
        ("day >= $1 AND at < $2", [DATE, TIMESTAMP]),
        ("DATE_TRUNC('month', day) = $1", [TIMESTAMP]),
        ("EXTRACT(year FROM day) = $1", [WHOLE]),
        ("ill = $1", [BOOLEAN]),
        ("COALESCE(age, $1) > 0", [WHOLE]),
        ("CAST($1 AS date) < day", [DATE]),
        ("$1::timestamptz < at", [INSTANT]),
        ("$1::numeric(10, 2) < cost", [NUMERIC]),
        ("age = ANY ($1)", [1016]),
        ("city <> ALL ($1)", [1009]),
        ("city = ANY ($1::text[])", [1009]),
        ("street = $1", []),
        ("'$1' = city", []),
    ],
)
def test_a_parameter_has_the_type_of_what_stands_beside_it(condition, types):
    question = f"SELECT COUNT(*) FROM visits WHERE {condition}"
    assert parameter_types(question, DATA) == dict(enumerate(types, 1))


def test_a_name_of_two_types_gives_none():
    assert parameter_types("SELECT COUNT(*) FROM visits JOIN other USING (x) WHERE age = $1", DATA) == {}
    assert parameter_types("no statement $1 (((", DATA) == {}


ZONE = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "oid", "value"),
    [
        ("40", WHOLE, 40),
        ("3.5", WHOLE, Fraction(7, 2)),
        ("-1e2", NUMERIC, Fraction(-100)),
        ("2025-03-01", DATE, dt.date(2025, 3, 1)),
        ("2025-03-01 +00", DATE, dt.date(2025, 3, 1)),  # as the JDBC driver writes a date
        ("2025-03-01T00:00:00.000+00:00", DATE, dt.date(2025, 3, 1)),  # as JavaScript does
        ("2025-03-01 10:00:00+02", TIMESTAMP, dt.datetime(2025, 3, 1, 10)),
        ("2025-03-01 10:00:00+02", INSTANT, dt.datetime(2025, 3, 1, 8)),
        ("{1,NULL,3}", 1016, [1, None, 3]),
        ('{a,"b,\\"c"}', 1009, ["a", 'b,"c']),
    ],
)
def test_texts_of_drivers(text, oid, value):
    assert parameter(text.encode(), oid, 0) == value


@pytest.mark.parametrize(
    "value",
    [
        *(0, 7, -(2**40), 1.5, True, "x", dt.date(1999, 12, 31), dt.datetime(2025, 3, 1, 10, 30), [1, 2], ["a", None]),
        *(Decimal(0), Decimal("12345.678"), Decimal("-0.00001"), Decimal("1e20"), Decimal(-10000)),
    ],
)
def test_binary_values_are_read_as_a_driver_writes_them(value):
    transformer = Transformer()
    (content,) = transformer.dump_sequence([value], [psycopg.adapt.PyFormat.BINARY])
    assert parameter(bytes(content), transformer.types[0], 1) == value


@pytest.mark.parametrize(
    ("content", "oid", "form"),
    [
        (b"1e-999999999", FLOAT, 0),  # which would be a number of a billion digits
        (b"1e-999999999", NUMERIC, 0),
        (struct.pack("!HhHH", 60_000, 0, 0, 0), NUMERIC, 1),
        (struct.pack("!HhHHH", 1, 32_767, 0, 0, 1), NUMERIC, 1),
        (struct.pack("!HhHH", 0, 0, 0xC000, 0), NUMERIC, 1),  # no number
        (struct.pack("!iii", 6, 0, WHOLE), 1016, 1),
        (struct.pack("!iiiii", 1, 0, WHOLE, 2**31 - 1, 1), 1016, 1),
        (struct.pack("!iiiii", 1, 0, 1016, 1, 1) + struct.pack("!i", -1) * 3, 1016, 0),
        (struct.pack("!iiiiii", 1, 0, 1016, 1, 1, 2**20) * 2000, 1016, 1),  # lists within lists
        (b"{" * 60_000, 1009, 0),
        (b"{a,}", 1009, 0),
        (b"{a}b", 1009, 0),
        (b"a", 1009, 0),
        (b"2025-13-01", DATE, 0),
        (b"maybe", BOOLEAN, 0),
        (b"", BOOLEAN, 0),
        (b"\xff\xfe", TEXT, 0),
        (struct.pack("!q", 2**63 - 1), TIMESTAMP, 1),
        (b"\0", WHOLE, 1),
        (b"10:00", 1083, 1),
    ],
)
def test_values_that_nobody_can_read_are_refused_at_once(content, oid, form):
    with pytest.raises(MessageError):
        parameter(content, oid, form)


def test_lists_take_linear_time():
    assert len(elements("{" + "a," * 30_000 + "a}")) == 30_001


def test_parameters_without_a_type_are_asked_for(running, token):
    """As Node's driver sends them (texts of no type), and as asyncpg asks for the types of a statement."""
    with connect(running, token) as connection:
        connection.execute("SET hush.epsilon = '0.5'")
        question = "SELECT COUNT(*) AS n FROM visits WHERE age > $1 AND city = $2 AND day < $3"
        raw = connection.pgconn
        raw.send_prepare(b"p", question.encode())
        result_of(raw)
        raw.send_describe_prepared(b"p")
        described = result_of(raw)
        assert [described.param_type(number) for number in range(3)] == [WHOLE, TEXT, DATE]
        raw.send_query_prepared(b"p", [b"40", b"Oslo", b"2025-07-01"])
        assert result_of(raw).ntuples == 1
