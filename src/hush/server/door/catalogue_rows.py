"""What the system catalogue holds: PostgreSQL's tables and their columns, filled from the schema of the data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from hush.server.door import messages

VERSION = "14.0"
"""The version of PostgreSQL that tools are told; they choose their statements by it."""
_FIRST = 16_384
"""The first number of a table, as for the tables of users in PostgreSQL."""
TYPES = {
    "boolean": ("boolean", messages.BOOLEAN, "bool"),
    "integer": ("bigint", messages.WHOLE, "int8"),
    "decimal": ("double precision", messages.FLOAT, "float8"),
    "text": ("text", messages.TEXT, "text"),
    "date": ("date", messages.DATE, "date"),
    "timestamp": ("timestamp without time zone", messages.TIMESTAMP, "timestamp"),
}


def _shapes() -> dict[str, list[tuple[str, str]]]:
    """Return the columns of every table of the catalogue, with PostgreSQL's names of their types."""
    tables = {}
    for line in (files("hush.server.door") / "catalogue.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, _, columns = line.partition("\t")
            tables[name] = [(column, kind) for column, _, kind in (part.partition(":") for part in columns.split())]
    return tables


SHAPES = _shapes()


def contents(data_sets: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the catalogue's tables."""
    schemas = {"pg_catalog": 11, "information_schema": 13_000}
    schemas |= {str(data["name"]): _FIRST + number for number, data in enumerate(data_sets)}
    rows: dict[str, list[dict[str, Any]]] = {place: [] for place in SHAPES}
    for name, oid in schemas.items():
        rows["pg_catalog.pg_namespace"].append({"oid": oid, "nspname": name, "nspowner": 10})
        rows["information_schema.schemata"].append(
            {"catalog_name": "hush", "schema_name": name, "schema_owner": "hush"}
        )
    for kind, (_, oid, short) in TYPES.items():
        rows["pg_catalog.pg_type"].append(
            {
                "oid": oid,
                "typname": short,
                "typnamespace": 11,
                "typowner": 10,
                "typtype": "b",
                "typcategory": "S" if kind == "text" else "N",
                "typlen": -1,
                "typisdefined": True,
                "typrelid": 0,
                "typelem": 0,
                "typarray": 0,
                "typbasetype": 0,
                "typtypmod": -1,
                "typcollation": 0,
                "typnotnull": False,
            }
        )
    number = _FIRST + 1000
    for data in data_sets:
        for table in data["tables"]:
            number += 1
            _add_table(rows, str(data["name"]), schemas[str(data["name"])], number, table)
    rows["pg_catalog.pg_database"].append(
        {"oid": 1, "datname": "hush", "datdba": 10, "encoding": 6, "datallowconn": True, "datistemplate": False}
    )
    for place in ("pg_roles", "pg_user"):
        rows[f"pg_catalog.{place}"].append(
            {"usename": "hush"}
            if place == "pg_user"
            else {"oid": 10, "rolname": "hush", "rolsuper": False, "rolcanlogin": True}
        )
    rows["pg_catalog.pg_am"].append({"oid": 2, "amname": "heap", "amtype": "t"})
    for name, value in PARAMETERS.items():
        rows["pg_catalog.pg_settings"].append({"name": name.lower(), "setting": value})
    return rows


def _add_table(
    rows: dict[str, list[dict[str, Any]]], schema: str, namespace: int, number: int, table: Mapping[str, Any]
) -> None:
    columns = table["columns"]
    rows["pg_catalog.pg_class"].append(
        {
            "oid": number,
            "relname": table["name"],
            "relnamespace": namespace,
            "reltype": 0,
            "reloftype": 0,
            "relowner": 10,
            "relam": 2,
            "relkind": "r",
            "relpersistence": "p",
            "relnatts": len(columns),
            "relchecks": 0,
            "relhasindex": False,
            "relhasrules": False,
            "relhastriggers": False,
            "relrowsecurity": False,
            "relforcerowsecurity": False,
            "relispartition": False,
            "relhassubclass": False,
            "reltablespace": 0,
            "reltoastrelid": 0,
            "relreplident": "d",
            "reltuples": -1.0,
            "relpages": 0,
        }
    )
    rows["pg_catalog.pg_tables"].append({"schemaname": schema, "tablename": table["name"], "tableowner": "hush"})
    rows["information_schema.tables"].append(
        {
            "table_catalog": "hush",
            "table_schema": schema,
            "table_name": table["name"],
            "table_type": "BASE TABLE",
            "is_insertable_into": "NO",
        }
    )
    for place, column in enumerate(columns, 1):
        shown, oid, short = TYPES.get(str(column["type"]), TYPES["text"])
        nullable = bool(column.get("nullable", True))
        rows["pg_catalog.pg_attribute"].append(
            {
                "attrelid": number,
                "attname": column["name"],
                "atttypid": oid,
                "attlen": -1,
                "attnum": place,
                "atttypmod": -1,
                "attnotnull": not nullable,
                "atthasdef": False,
                "attisdropped": False,
                "attcollation": 0,
                "attidentity": "",
                "attgenerated": "",
            }
        )
        rows["information_schema.columns"].append(
            {
                "table_catalog": "hush",
                "table_schema": schema,
                "table_name": table["name"],
                "column_name": column["name"],
                "ordinal_position": place,
                "is_nullable": "YES" if nullable else "NO",
                "data_type": shown,
                "udt_catalog": "hush",
                "udt_schema": "pg_catalog",
                "udt_name": short,
                "is_updatable": "NO",
            }
        )


PARAMETERS = {
    "server_version": VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "default_transaction_read_only": "on",
    "transaction_isolation": "read committed",
    "search_path": "public",
    "max_identifier_length": "63",
}
"""What SHOW says, and what a client is told at the start."""
