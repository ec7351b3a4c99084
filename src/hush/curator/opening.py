"""Ways to a curator: from a policy file, or from one frame in a notebook.

>>> import pyarrow as pa
>>> people = pa.table({"id": list(range(1000)), "age": [30] * 1000})
>>> curator = protect(people, unit="id", bounds={"age": (0, 120)}, budget={"epsilon": "1"})
>>> answer = curator.ask("SELECT COUNT(*) AS n, AVG(age) AS mean FROM data", epsilon="0.5")
>>> [column.name for column in answer.columns], str(answer.price)
(['n', 'mean'], 'ε=0.5')
>>> curator.close()

A frame, a path, records (a list of dicts), columns (a dict of lists) or a NumPy array with named fields is one table. A
dict whose values are frames or paths is several, all of them protected. A pandas index is a column if it is the unit.

>>> sorted(protected_frames([{"id": 1, "age": 30}, {"id": 2, "age": 41}], "data", "id")["data"].column_names)
['age', 'id']
>>> sorted(protected_frames({"visits": "visits.csv", "patients": "patients.csv"}, "data", "id"))
['patients', 'visits']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core import InvalidValueError, Neighbours, Number, integer
from hush.core.on_demand import optional
from hush.curator.curator import Curator
from hush.curator.data_sets import (
    OpenDataSet,
    TableRows,
    open_data_set,
    refuse_sharing,
    schema_types,
    twins,
    untyped_columns,
)
from hush.curator.session import AnalystSession
from hush.engines.errors import SourceError
from hush.engines.registry import Source, json_columns, open_engine, open_sources
from hush.ledger import Budget, Ledger
from hush.policy.columns import describe
from hush.policy.file import MORE_GROUPS, MORE_ROWS, Analyst, Policy
from hush.policy.ledger import POLICY, ledger_or_stand_in, open_ledger, rehearsed, streams_of
from hush.query.errors import QuestionError, did_you_mean
from hush.query.plan.stability import MAX_GROUPS, MAX_ROWS
from hush.query.schema import Schema, Table, UnitPath

if TYPE_CHECKING:
    from hush.curator.declared_streams import Publisher


def open_policy(path: str | Path = "hush.toml", *, analyst: str | None = None, create: bool = False) -> Curator:
    """Return a curator for one analyst of a policy.

    The ledger lies beside the policy unless the policy says where. Asking makes none: the owner makes it once, with
    ``hush ledger open`` or with ``create=True`` here. Before that, questions can be explained, and are refused when
    they are asked. The same holds for a data set that the policy names and the ledger lacks. Accounts of analysts are
    opened where the ledger lacks them.

    >>> import hush
    >>> hush.open("no-such-policy.toml")
    Traceback (most recent call last):
    ...
    hush.policy.document.PolicyError: no-such-policy.toml: there is no such file. Write one with: hush init FILE…
    """
    return _curator(path, analyst, lambda policy, person: ledger_or_stand_in(policy, person.data, create=create)[0])


def open_publisher(path: str | Path) -> tuple[Policy, Publisher]:
    """Return a policy and its owner's publisher, which declares streams and makes the releases that are due."""
    from hush.curator.declared_streams import Publisher

    policy = Policy.read(path)
    refuse_sharing(policy)
    ledger = open_ledger(policy, names=policy.data)
    return policy, Publisher(_opened(policy, policy.data, ledger), ledger)


def rehearse(path: str | Path, *, analyst: str | None = None) -> Curator:
    """Return a curator with a ledger in memory, which ends with this process: for data that need no protection."""
    return _curator(path, analyst, lambda policy, _: rehearsed(policy))


def _curator(path: str | Path, analyst: str | None, ledger_for: Callable[[Policy, Analyst], Ledger]) -> Curator:
    """Return a curator; refuse an unknown analyst, and a policy in which tables share rows."""
    policy = Policy.read(path)
    if analyst is None:
        if len(policy.analysts) != 1:
            if not policy.analysts:
                raise QuestionError("The policy names nobody who may ask.", "Add an [analysts.NAME] to it.")
            names = ", ".join(policy.analysts)
            raise QuestionError("Say who asks: analyst=…, or --as ….", f"The policy names {names}.")
        (analyst,) = policy.analysts
    person = policy.analyst(analyst)
    refuse_sharing(policy)
    ledger = ledger_for(policy, person)
    opened = _opened(policy, person.data, ledger)
    return Curator(AnalystSession(opened, ledger, person.name, streams=streams_of(policy, person.name)))


def _opened(policy: Policy, names: Iterable[str], ledger: Ledger) -> dict[str, OpenDataSet]:
    """Return data sets of a policy, ready to be asked about; close everything if one cannot be opened."""
    opened: dict[str, OpenDataSet] = {}
    with ExitStack() as undo:
        undo.callback(ledger.close)
        for name in names:
            opened[name] = open_data_set(policy, policy.data_set(name))
            undo.callback(opened[name].engine.close)
        undo.pop_all()
    return opened


def protect(
    source: object,
    *,
    unit: str | None = None,
    bounds: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    types: Mapping[str, str] | None = None,
    formats: Mapping[str, str] | None = None,
    budget: Number | Mapping[str, Any],
    max_rows: int = 1,
    max_groups: int = 1,
    neighbours: str | Neighbours = Neighbours.ADD_REMOVE,
    public: Mapping[str, object] | None = None,
    table: str = "data",
    separator: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    quotes: bool | None = None,
    timezone: str | None = None,
) -> Curator:
    """Protect tables in memory or in files: for notebooks, with a budget that lives as long as the process.

    Parameters
    ----------
    source
        A pandas, Polars or Arrow frame, records (a list of dicts), columns (a dict of lists), a NumPy array with named
        fields; or a parquet, CSV, JSON, Arrow, DuckDB, SQLite, Excel, Stata, SPSS or SAS file; CSV and JSON may be
        compressed (.csv.gz); a table of a database is written ``"clinic.duckdb#visits"``, a sheet likewise. A folder or
        a pattern (``"visits/*.parquet"``) is one table. The columns of a JSON file are those that ``unit``, ``bounds``,
        ``values``, ``types`` and ``formats`` name, and what else its first record has. A dict of such sources
        is several tables, all protected, each with the column ``unit``.
    unit
        The column that says whose row it is, or a name of a pandas index; None if every row is another person.
    bounds
        For each number to be summed or averaged: (lower, upper) or (lower, upper, step), known without the data. Those
        of dates and times may be written as text, such as "2024-12-31". Of several tables, ``"visits.cost"`` names a
        column of one, and ``"cost"`` that of all that have it; likewise in ``values``, ``types`` and ``formats``.
    values
        For each column to be grouped by: its public list of values; None in it asks for a group of what has none.
    types
        For columns that should not have the type of the source's schema, or whose source has none (CSV, JSON): one of
        "integer", "decimal", "text", "boolean", "date", "timestamp". What cannot be read as that is NULL.
    formats
        For columns of text with dates that are not written like 2024-12-31: their format, such as "%d/%m/%Y". It
        holds for the tables of ``source``, not for public ones.
    budget
        ε, or ``{"epsilon": "1", "delta": "1e-6"}``.
    max_rows, max_groups
        How many rows of one unit count within a group, and in how many groups a unit counts.
    neighbours
        "add-remove" or "replace".
    public
        Further tables that need no protection, by name.
    table
        What the table is called in questions, and the data set of several.
    separator
        What stands between the fields of a CSV file: a comma, if it is not said.
    encoding, decimal, quotes
        How else a CSV file is written: the encoding of its characters ("utf-8"), what stands before decimals ("."),
        and whether quotes hold a field together (True) or are characters like any other.
    timezone
        Where the clocks are, such as "Europe/Berlin", that show the times of columns with a time zone and of texts with
        an offset. If it is not said: those that a frame's column names, UTC for other columns, and of texts the clock
        as it is written.

    Examples
    --------
    >>> import hush
    >>> curator = hush.protect({"age": [30, 40, 50]}, bounds={"age": (0, 120)}, budget={"epsilon": "1"})
    >>> answer = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.5")
    >>> str(answer.price)
    'ε=0.5'
    """
    reading = {"separator": separator, "encoding": encoding, "decimal": decimal, "quotes": quotes, "timezone": timezone}
    private = {
        name: Source.of(frame, **reading)  # type: ignore[arg-type]
        for name, frame in protected_frames(source, table, unit).items()
    }
    if not isinstance(public or {}, Mapping) or private.keys() & (public or {}).keys():
        names = " or ".join(map(repr, private))
        raise InvalidValueError("public", got=public, allowed=f"further tables by name, none of them {names}")
    words = {"bounds": bounds, "values": values, "types": types, "formats": formats}
    described = described_tables(private, words)
    sources = private | {name: Source.of(frame) for name, frame in (public or {}).items()}
    rows_of_tables = [TableRows(table, name, place, name not in private) for name, place in sources.items()]
    if (same := next(twins(rows_of_tables), None)) is not None:
        former, latter, why = same
        raise SourceError(f"the tables {former.table!r} and {latter.table!r} have the same rows, {why}")
    relation = Neighbours.parse(neighbours)
    rows = integer(max_rows, "max_rows", minimum=1, maximum=MAX_ROWS, hint=MORE_ROWS)
    groups = integer(max_groups, "max_groups", minimum=1, maximum=MAX_GROUPS, hint=MORE_GROUPS)
    named = {name: _named(private[name], unit, table_words) for name, table_words in described.items()}
    with ExitStack() as undo:
        opened = open_sources(sources, named)
        undo.callback(opened.close)
        tables: dict[str, Table] = {}
        for name, table_words in described.items():
            stored = opened.types[name]
            if unit is not None and (not isinstance(unit, str) or unit not in stored):
                raise InvalidValueError("unit", got=unit, allowed=f"a column of the table: {', '.join(stored)}")
            untyped = untyped_columns(private[name], name, stored)
            types_of = schema_types(private[name], name, stored)
            columns, unsupported = describe(types_of, unit=unit, untyped=untyped, **table_words)
            tables[name] = Table(
                name=name,
                columns=columns,
                unsupported=unsupported,
                unit=None if unit is None else UnitPath(column=unit),
                max_rows=rows,
                max_groups=groups,
            )
        for name in sources.keys() - private.keys():
            columns, unsupported = describe(schema_types(sources[name], name, opened.types[name]))
            tables[name] = Table(name=name, columns=columns, unsupported=unsupported, public=True)
        schema = Schema(data=table, tables=tables, neighbours=relation, unit=unit)
        account = Budget.parse(budget if isinstance(budget, Mapping) else {"epsilon": budget})
        ledger = Ledger.in_memory()
        ledger.create_data(table, account, actor=POLICY)
        ledger.add_analyst("me", data=table, actor=POLICY)
        engine = open_engine(schema, opened)
        undo.pop_all()
    files = {name: source for name, source in sources.items() if name not in private}
    return Curator(AnalystSession({table: OpenDataSet(schema=schema, engine=engine, public=files)}, ledger, "me"))


# what hush.protect is given


def protected_frames(source: object, table: str, unit: object) -> dict[str, Any]:
    """Return the protected tables by name, each as a value that `Source` accepts."""
    if isinstance(source, Mapping) and source and all(map(_is_table, source.values())):
        if unit is None:
            hint = "Name the column that says in each of them whose row it is."
            raise InvalidValueError("unit", got=unit, allowed="given where several tables are protected", hint=hint)
        wrong = next((name for name in source if not isinstance(name, str) or not name.strip()), None)
        if wrong is not None:
            raise InvalidValueError("source", got=wrong, allowed="tables under names that are texts")
        return {name: _framed(frame, unit) for name, frame in source.items()}
    return {table: _framed(source, unit)}


def _is_table(value: object) -> bool:
    """Return whether a value of a dict is a table, and not a column."""
    if isinstance(value, str | Path | Source):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype.names is not None
    if isinstance(value, Mapping):  # a table as a dict of columns
        return bool(value) and all(
            _has_cells(cells) and not isinstance(cells, str | bytes | Mapping) for cells in value.values()
        )
    records = isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)
    return records or hasattr(value, "columns") or (hasattr(value, "schema") and hasattr(value, "__arrow_c_stream__"))


def _framed(source: Any, unit: object) -> Any:
    """Return records, columns and arrays as Arrow tables, everything else as it is.

    A pandas frame gets its index as a column where that is the unit.
    """
    if isinstance(source, np.ndarray):
        if source.dtype.names is None:
            hint = "Name its columns: pandas.DataFrame(array, columns=[…]), or a structured array."
            raise SourceError(f"an array without names of columns cannot be asked about. {hint}")
        return _arrow({name: source[name].tolist() for name in source.dtype.names})
    if isinstance(source, list | tuple) and source and all(isinstance(row, Mapping) for row in source):
        names = list(dict.fromkeys(name for row in source for name in row))
        return _arrow({name: [row.get(name) for row in source] for name in names})
    if isinstance(source, Mapping) and source and not any(map(_is_table, source.values())):
        for name, cells in source.items():
            if isinstance(cells, bytes) or not _has_cells(cells):
                raise SourceError(
                    f"the column {str(name)!r} is no list; a dict holds a list for each column, or frames"
                )
        return _arrow({name: list(cells) for name, cells in source.items()})
    if isinstance(unit, str) and type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "index"):
        levels = [name if name is not None else "index" for name in getattr(source.index, "names", [])]
        if unit in levels and unit not in source.columns:
            return source.rename_axis(levels).reset_index()
    return source


def _has_cells(value: object) -> bool:
    return isinstance(value, Iterable) and isinstance(value, Sized)


def _arrow(columns: Mapping[Any, list[Any]]) -> Any:
    pa = optional("pyarrow", "arrow")
    arrays = {}
    for name, cells in columns.items():
        if any(isinstance(cell, str) for cell in cells):  # pandas writes NaN for a text that is missing
            cells = [None if isinstance(cell, float) and cell != cell else cell for cell in cells]  # noqa: PLR0124, PLW2901
        try:
            arrays[str(name)] = pa.array(cells)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise SourceError(f"the column {str(name)!r} mixes values of several types; make it one type") from None
    try:
        return pa.table(arrays)
    except (pa.ArrowException, ValueError):
        raise SourceError("the columns have different lengths; give a value of each column for every row") from None


def _named(source: Source, unit: object, words: Mapping[str, Any]) -> list[str]:
    """Return the columns of a JSON file, which has no schema: those that are named or in its first record."""
    if source.format != "json" or source.path is None:
        return []
    names = [unit, *(name for mapping in words.values() if isinstance(mapping, Mapping) for name in mapping)]
    return json_columns(source.path, [name for name in dict.fromkeys(names) if isinstance(name, str)])


def described_tables(private: Mapping[str, Source], words: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the owner's words about the columns of each table, by parameter.

    Among several tables, ``TABLE.column`` selects the column of one, and the column's name that of all that have it.
    """
    if len(private) == 1:
        return {name: dict(words) for name in private}
    with open_sources(private) as opened:
        headers = {name: set(columns) for name, columns in opened.types.items()}
    described: dict[str, dict[str, Any]] = {name: {parameter: {} for parameter in words} for name in private}
    for parameter, mapping in words.items():
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InvalidValueError(parameter, got=mapping, allowed="words about columns, by their names")
        for key, description in (mapping or {}).items():
            table, dot, column = str(key).partition(".")
            tables, label = [name for name in private if key in headers[name]], key
            if dot and table in private:
                tables, label = [table], column
            if not tables:
                candidates = [name for columns in headers.values() for name in columns]
                raise QuestionError(f"No table has a column '{key}' to describe.", did_you_mean(str(key), candidates))
            for name in tables:
                described[name][parameter][label] = description
    return described
