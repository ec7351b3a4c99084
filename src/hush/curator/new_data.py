"""Data that no policy names yet, as `hush init` and the page's first steps see them: tables, columns, first rows.

What is proposed of how a CSV file is written comes from its first line, which has names and is no row: its encoding,
its separator, and with a semicolon the decimal comma that goes with it where people write 0,5. The owner says what is
right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hush.core import InvalidValueError
from hush.curator.data_sets import schema_types
from hush.engines.registry import (
    CSV,
    Source,
    first_rows,
    format_of,
    inner_tables,
    open_sources,
    open_tables,
    proposed_encoding,
    proposed_separator,
    proposed_timezone,
    server_tables,
    table_name,
)

PREVIEW = 5
"""How many rows an owner sees of a new table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table that no policy names yet."""

    name: str
    origin: str
    """Where it is, as a policy writes it."""
    columns: tuple[tuple[str, str], ...]
    """Names and SQL types."""
    reading: Mapping[str, str]
    """How its file is written, in the policy's words; said or proposed."""
    source: Source | None = None
    """Its file; None for a table of a server."""

    @property
    def csv(self) -> bool:
        """Whether it is a CSV file."""
        return self.source is not None and self.source.format in CSV

    @property
    def untyped(self) -> bool:
        """Whether its file keeps no types."""
        return self.source is not None and self.source.untyped

    def preview(self) -> list[list[str]]:
        """Return the first rows as texts. They are for the owner alone, who has the file."""
        return [] if self.source is None else first_rows(self.source, self.name, PREVIEW)


def table_files(folder: Path) -> list[str]:
    """Return the names of the table files in a folder, by their endings."""
    return sorted(file.name for file in folder.iterdir() if format_of(file) is not None and file.is_file())


def tables_of_files(
    files: Iterable[Path], words: Mapping[str, str], *, places: Mapping[Path, str] | None = None
) -> list[NewTable]:
    """Return the tables in files; ``words`` say how text files are written, and what they leave out is proposed.

    ``places`` has what a policy calls a file, where that is not its path.
    """
    tables: dict[str, NewTable] = {}
    for path in files:
        reading = _reading(path, words)
        source = Source.of(path, **reading)
        inside: list[str | None] = [*inner_tables(path)]
        written = (places or {}).get(path, str(path))
        for inner in inside or [None]:
            name = inner or table_name(path)
            origin = f"{written}#{inner}" if inner else written
            if name in tables:
                raise InvalidValueError(
                    "FILE",
                    got=f"{tables[name].origin} and {origin}",
                    allowed=f"tables of different names, and these are both called {name}",
                    hint="Rename one of them, or name the files that are meant.",
                )
            tables[name] = NewTable(
                name=name, origin=origin, columns=(), reading=reading, source=replace(source, table=inner)
            )
    with open_sources({name: table.source for name, table in tables.items()}) as opened:
        return [_described(table, opened.types[name]) for name, table in tables.items()]


def _reading(path: Path, words: Mapping[str, str]) -> dict[str, Any]:
    source = Source.of(path)
    timezone = {key: word for key, word in words.items() if key == "timezone"}
    if source.format not in CSV:
        return timezone
    encoding = words.get("encoding") or proposed_encoding(path)
    separator = source.separator
    if source.format == "csv":
        separator = words.get("separator") or proposed_separator(Source.of(path, encoding=encoding))
    reading = {} if separator == source.separator else {"separator": separator}
    decimal = words.get("decimal") or ("," if separator == ";" else ".")
    return {**reading, "encoding": encoding, "decimal": decimal, **timezone}


def _described(table: NewTable, stored: Mapping[str, str]) -> NewTable:
    """Return a table with its columns, and with a time zone where it has times with one."""
    assert table.source is not None  # noqa: S101 - it is a file
    columns = schema_types(table.source, table.name, stored)
    reading = dict(table.reading)
    if "TIMESTAMP WITH TIME ZONE" in columns.values():
        reading.setdefault("timezone", proposed_timezone(table.source))
    return replace(table, columns=tuple(columns.items()), reading=reading)


def tables_of_server(address: str) -> list[NewTable]:
    """Return the tables of a database server that its role may read."""
    places = server_tables(address)
    with open_tables(address, places) as opened:
        types = opened.types
    return [
        NewTable(name=name, origin=origin, columns=tuple(types[name].items()), reading={})
        for name, origin in places.items()
    ]
