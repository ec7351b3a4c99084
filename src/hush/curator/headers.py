"""The columns of one table's source, to tell which of two words of a policy is misspelt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hush.core import HushError
from hush.curator.sections import Section
from hush.engines.sources import READING, Source
from hush.query.schema import Schema, Table


def header(section: Section, directory: Path) -> Sequence[str]:
    """Return the names that a table's source gives its columns; none if it has no schema, or cannot be read."""
    from hush.engines.duckdb import DuckDB

    written = section.values.get("source")
    if not isinstance(written, str):
        return []
    reading = {key: section.values[key] for key in READING if key in section.values}
    try:
        source = Source.of(str(directory / written.strip()), **reading)
        if source.format == "json":  # its names are in its records
            return []
        with DuckDB(Schema(data="data", tables={"data": Table(name="data", columns={})}), {"data": source}) as engine:
            return list(engine.stored("data"))
    except HushError:
        return []
