"""The rows of the system catalogue: PostgreSQL's tables and columns, filled from the schema of the data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from hush.server.pgwire import messages

VERSION = "14.0"
"""The version of PostgreSQL that tools are told; they choose their statements by it."""
_PREFERRED = {"text", "bool", "float8", "oid", "timestamptz"}
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


@dataclass(frozen=True, slots=True)
class CatalogueType:
    """A type as the catalogue lists it: its numbers, its names, how many bytes it takes, and its category."""

    oid: int
    name: str
    shown: str
    size: int
    category: str
    array: int


def _types() -> list[CatalogueType]:
    """Return the types that drivers look up, with those of their lists."""
    types = []
    for line in (files("hush.server.pgwire") / "types.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            oid, name, display_name, size, category, array = line.split("\t")
            types.append(CatalogueType(int(oid), name, display_name, int(size), category, int(array)))
    return types + [
        CatalogueType(kind.array, f"_{kind.name}", f"{kind.shown}[]", -1, "A", 0) for kind in types if kind.array
    ]


CATALOGUE_TYPES = _types()
"""PostgreSQL's own types, whether or not a column has them."""


def _shapes() -> dict[str, list[tuple[str, str]]]:
    """Return the columns of every table of the catalogue, with PostgreSQL's names of their types."""
    tables = {}
    for line in (files("hush.server.pgwire") / "catalogue.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, _, columns = line.partition("\t")
            tables[name] = [
                (column, kind) for column, _, kind in (definition.partition(":") for definition in columns.split())
            ]
    return tables


SHAPES = _shapes()


def contents(data_sets: Sequence[Mapping[str, Any]], user: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the catalogue's tables."""
    schemas = {"pg_catalog": 11, "information_schema": 13_000}
    schemas |= {str(data["name"]): _FIRST + number for number, data in enumerate(data_sets)}
    rows: dict[str, list[dict[str, Any]]] = {table_name: [] for table_name in SHAPES}
    for name, oid in schemas.items():
        rows["pg_catalog.pg_namespace"].append({"oid": oid, "nspname": name, "nspowner": 10})
        rows["information_schema.schemata"].append(
            {"catalog_name": "hush", "schema_name": name, "schema_owner": "hush"}
        )
    elements = {kind.array: kind.oid for kind in CATALOGUE_TYPES if kind.array}
    for kind in CATALOGUE_TYPES:
        rows["pg_catalog.pg_type"].append(
            {
                "oid": kind.oid,
                "typname": kind.name,
                "typnamespace": 11,
                "typowner": 10,
                "typtype": "p" if kind.category == "P" else "b",
                "typcategory": kind.category,
                "typlen": kind.size,
                "typbyval": 0 < kind.size <= 8,
                "typispreferred": kind.name in _PREFERRED,
                "typisdefined": True,
                "typdelim": ",",
                "typrelid": 0,
                "typelem": elements.get(kind.oid, 0),
                "typarray": kind.array,
                "typinput": 750 if kind.oid in elements else 0,
                "typreceive": 2400 if kind.oid in elements else 0,
                "typbasetype": 0,
                "typtypmod": -1,
                "typndims": 0,
                "typcollation": 100 if kind.category == "S" else 0,
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
    for oid, role in enumerate(dict.fromkeys(["hush", user]), 10):
        rights = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls")
        rows["pg_catalog.pg_roles"].append(
            {"oid": oid, "rolname": role, "rolinherit": True, "rolcanlogin": role == user, "rolconnlimit": -1}
            | dict.fromkeys(rights, False)
        )
        rows["pg_catalog.pg_user"].append({"usename": role, "usesysid": oid, "usesuper": False, "usecreatedb": False})
    rows["pg_catalog.pg_am"].append({"oid": 2, "amname": "heap", "amtype": "t"})
    for name, value in PARAMETERS.items():
        rows["pg_catalog.pg_settings"].append({"name": name.lower(), "setting": value})
    return rows


def _add_table(
    rows: dict[str, list[dict[str, Any]]], schema: str, namespace: int, number: int, table: Mapping[str, Any]
) -> None:
    columns = table["columns"]
    sizes = {kind.oid: kind.size for kind in CATALOGUE_TYPES}
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
            "relacl": ["=r/hush"],
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
    for position, column in enumerate(columns, 1):
        type_name, oid, short = TYPES.get(str(column["type"]), TYPES["text"])
        nullable = bool(column.get("nullable", True))
        rows["pg_catalog.pg_attribute"].append(
            {
                "attrelid": number,
                "attname": column["name"],
                "atttypid": oid,
                "attlen": sizes[oid],
                "attnum": position,
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
                "ordinal_position": position,
                "is_nullable": "YES" if nullable else "NO",
                "data_type": type_name,
                "udt_catalog": "hush",
                "udt_schema": "pg_catalog",
                "udt_name": short,
                "is_updatable": "NO",
                "is_identity": "NO",
                "is_generated": "NEVER",
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
    "max_index_keys": "32",
    "application_name": "",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_min_messages": "notice",
    "statement_timeout": "0",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_messages": "C",
    "server_version_num": "140000",
    "default_transaction_isolation": "read committed",
    "transaction_read_only": "on",
    "row_security": "on",
}
"""The values of SHOW; most are also sent to a client as it connects."""
