"""Ways to a curator: from a policy file, or from one frame in a notebook.

>>> import pyarrow as pa
>>> people = pa.table({"id": list(range(1000)), "age": [30] * 1000})
>>> curator = protect(people, unit="id", bounds={"age": (0, 120)}, budget={"epsilon": "1"})
>>> answer = curator.ask("SELECT COUNT(*) AS n, AVG(age) AS mean FROM data", epsilon="0.5")
>>> [column.name for column in answer.columns], str(answer.price)
(['n', 'mean'], 'ε=0.5')
>>> curator.close()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.core import InvalidValueError, Neighbours, Number, integer
from hush.core.storage import path_of
from hush.curator.curator import Curator
from hush.curator.data_sets import (
    OpenDataSet,
    check_frames,
    open_data_set,
    read_policy,
    refuse_sharing,
    schema_types,
)
from hush.engines.opening import Source, open_engine, open_sources
from hush.ledger import Budget, Ledger
from hush.policy.file import MORE_GROUPS, MORE_ROWS, Analyst, Policy
from hush.policy.ledger import POLICY, check_data, ledger_or_stand_in, open_ledger, rehearsed, streams_of
from hush.query.errors import QuestionError
from hush.query.plan.limits import MAX_GROUPS, MAX_ROWS
from hush.query.schema import Schema, Table, UnitPath

if TYPE_CHECKING:
    from hush.curator.publishing import Publisher


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
    policy = read_policy(path)
    person = _asker(policy, analyst)
    ledger, _ = ledger_or_stand_in(policy, person.data, create=create)
    return _curator(policy, person, ledger)


def open_publisher(path: str | Path) -> tuple[Policy, Publisher]:
    """Return a policy and its owner's curator, who declares standing questions and releases what is due."""
    from hush.curator.publishing import Publisher

    policy = read_policy(path)
    refuse_sharing(policy)
    ledger = open_ledger(policy)
    try:
        check_data(policy, ledger, policy.data)
    except BaseException:
        ledger.close()
        raise
    return policy, Publisher(_opened(policy, policy.data, ledger), ledger)


def rehearse(path: str | Path, *, analyst: str | None = None) -> Curator:
    """Return a curator whose ledger lives and dies with this process: for data that nobody has to protect."""
    policy = read_policy(path)
    return _curator(policy, _asker(policy, analyst), rehearsed(policy))


def _asker(policy: Policy, analyst: str | None) -> Analyst:
    """Return who asks, of a policy under which they may."""
    if analyst is None:
        if len(policy.analysts) != 1:
            if not policy.analysts:
                raise QuestionError("The policy names nobody who may ask.", "Add an [analysts.NAME] to it.")
            names = ", ".join(policy.analysts)
            raise QuestionError("Say who asks: analyst=…, or --as ….", f"The policy names {names}.")
        analyst = next(iter(policy.analysts))
    person = policy.analyst(analyst)
    refuse_sharing(policy)
    return person


def _opened(policy: Policy, names: Iterable[str], ledger: Ledger) -> dict[str, OpenDataSet]:
    """Return data sets of a policy, ready to be asked about; close everything if one cannot be opened."""
    opened: dict[str, OpenDataSet] = {}
    try:
        for name in names:
            opened[name] = open_data_set(policy, policy.data_set(name))
    except BaseException:
        for data_set in opened.values():
            data_set.engine.close()
        ledger.close()
        raise
    return opened


def _curator(policy: Policy, person: Analyst, ledger: Ledger) -> Curator:
    opened = _opened(policy, person.data, ledger)
    return Curator(opened, ledger, person.name, streams=streams_of(policy, person.name))


def protect(
    source: object,
    *,
    unit: str | None = None,
    bounds: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    types: Mapping[str, str] | None = None,
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
    keep: str | Path | None = None,
) -> Curator:
    """Protect tables in memory or in files: for notebooks, with a budget that lives as long as the process.

    Parameters
    ----------
    source
        A pandas, Polars or Arrow frame, records (a list of dicts), columns (a dict of lists), a NumPy array with named
        fields; or a parquet, CSV, JSON, Arrow, DuckDB, SQLite, Excel, Stata, SPSS or SAS file; CSV and JSON may be
        compressed (.csv.gz); a table of a database is written ``"clinic.duckdb#visits"``, a sheet likewise. A folder or
        a pattern (``"visits/*.parquet"``) is one table. The columns of a JSON file are those that ``unit``, ``bounds``,
        ``values`` and ``types`` name, and what else its first record has. A dict of such sources is several tables,
        all protected, each with the column ``unit``.
    unit
        The column that says whose row it is, or a name of a pandas index; None if every row is another person.
    bounds
        For each number to be summed or averaged: (lower, upper) or (lower, upper, step), known without the data. Those
        of dates and times may be written as text, such as "2024-12-31". Of several tables, ``"visits.cost"`` names a
        column of one, and ``"cost"`` that of all that have it; likewise in ``values`` and ``types``.
    values
        For each column to be grouped by: its public list of values; None in it asks for a group of what has none.
    types
        For columns that should not have the type of the source's schema, or whose source has none (CSV, JSON): one of
        "integer", "decimal", "text", "boolean", "date", "timestamp". What cannot be read as that is NULL.
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
    keep
        A directory of your own, closed to others, in which what was read of a large CSV or JSON file is kept for the
        next process. A file that has changed is read again.

    Examples
    --------
    >>> import hush
    >>> curator = hush.protect({"age": [30, 40, 50]}, bounds={"age": (0, 120)}, budget={"epsilon": "1"})
    >>> answer = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.5")
    >>> str(answer.price)
    'ε=0.5'
    """
    from hush.curator.frames import described_tables, protected_frames
    from hush.policy.python_columns import describe

    reading = {"separator": separator, "encoding": encoding, "decimal": decimal, "quotes": quotes, "timezone": timezone}
    private = {
        name: Source.of(frame, **reading, keep=None if keep is None else path_of(keep, "keep").expanduser())  # type: ignore[arg-type]
        for name, frame in protected_frames(source, table, unit).items()
    }
    if not isinstance(public or {}, Mapping) or private.keys() & (public or {}).keys():
        taken = " or ".join(map(repr, private))
        raise InvalidValueError("public", got=public, allowed=f"further tables by name, none of them {taken}")
    described = described_tables(private, unit=unit, bounds=bounds, values=values, types=types)
    sources = private | {name: Source.of(other) for name, other in (public or {}).items()}
    check_frames(sources, private)
    relation = Neighbours.parse(neighbours)
    rows = integer(max_rows, "max_rows", minimum=1, maximum=MAX_ROWS, hint=MORE_ROWS)
    groups = integer(max_groups, "max_groups", minimum=1, maximum=MAX_GROUPS, hint=MORE_GROUPS)
    opened = open_sources(sources, {name: words.named(private[name]) for name, words in described.items()})
    try:
        tables: dict[str, Table] = {}
        for name, words in described.items():
            columns, unsupported = words.columns(private[name], name, opened.types)
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
    except BaseException:
        opened.close()
        raise
    files = {name: source for name, source in sources.items() if name not in private}
    return Curator({table: OpenDataSet(schema=schema, engine=engine, public=files)}, ledger, "me")
