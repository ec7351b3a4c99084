"""What a role may do in a database, against what hush needs: to read the policy's columns, and nothing else.

A curator's role that can do more is a risk for whoever gets hold of it. So a superuser, a role that is exempt from row
security, one that may write, make objects or read other tables is told of, with the statements that give a role just
what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hush.core.values import dataclass
from hush.engines.postgresql.dialect import POSTGRESQL
from hush.engines.postgresql.engine import OpenTables
from hush.engines.server import ParameterisedText, Row

_ROLE = """
SELECT rolname::text, rolsuper, rolbypassrls, rolcreaterole OR rolcreatedb OR rolreplication,
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
FROM pg_catalog.pg_roles WHERE rolname = CURRENT_USER
"""
_WRITES = """
SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  AND (pg_catalog.has_table_privilege(c.oid, 'INSERT') OR pg_catalog.has_table_privilege(c.oid, 'UPDATE')
       OR pg_catalog.has_table_privilege(c.oid, 'DELETE') OR pg_catalog.has_table_privilege(c.oid, 'TRUNCATE'))
ORDER BY 1, 2
"""
_READS = """
SELECT n.nspname::text, c.relname::text, a.attname::text FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
ORDER BY 1, 2, a.attnum
"""
_KINDS = """
SELECT n.nspname::text, c.relname::text, c.relkind::text, pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE (c.relkind IN ('v', 'm') OR c.relrowsecurity) AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What is missing, what is too much, and the statements that give a role what it needs."""

    role: str
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    grants: tuple[str, ...]
    complete: bool = True
    """Whether the server tells what is too much."""
    notes: tuple[str, ...] = ()
    """What the owner should know of tables that are no plain ones."""

    @property
    def exact(self) -> bool:
        """Whether the role can read what it must, and do nothing else."""
        return not self.missing and not self.surplus


def rights_of(opened: OpenTables, needed: Mapping[str, Sequence[str]]) -> Rights:
    """Return the rights of the role that is connected; ``needed`` are the columns of each table that are read."""
    with opened.server.transaction() as transaction:

        def rows(text: str) -> list[Row]:
            return transaction.fetch(ParameterisedText.of(text), {})

        role, superuser, exempt, administers, creates = rows(_ROLE)[0]
        readable = {(space, name, column) for space, name, column in rows(_READS)}
        writable = [(space, name) for space, name in rows(_WRITES)]
        kinds = {(space, name): (kind, secured) for space, name, kind, secured in rows(_KINDS)}
    notes = [
        note for place in dict.fromkeys(opened.names.values()) for note in _notes(place, *kinds.get(place, ("", False)))
    ]
    wanted = {(*opened.names[table], column) for table, columns in needed.items() for column in columns}
    others = sorted({f"{space}.{name}.{column}" for space, name, column in readable - wanted})
    surplus = [
        f"{role} {what}"
        for what, has in (
            ("is a superuser", superuser),
            ("is exempt from row security", exempt and not superuser),
            ("may make roles, databases or replicas", administers and not superuser),
            ("may make objects in the database", creates and not superuser),
        )
        if has
    ]
    if writable:
        surplus.append(f"{role} may change {_some([f'{space}.{name}' for space, name in writable])}")
    if others:
        surplus.append(f"{role} may read what the policy does not name: {_some(others)}")
    missing = [f"{role} may not read {'.'.join(column)}" for column in sorted(wanted - readable)]
    return Rights(
        role=role,
        missing=tuple(missing),
        surplus=tuple(surplus),
        grants=tuple(_grants(opened, needed)),
        notes=tuple(notes),
    )


def _notes(place: tuple[str, str], kind: str, secured: bool) -> list[str]:
    name = ".".join(place)
    told = []
    if kind in {"v", "m"}:
        told.append(f"note: {name} is a view; each of its rows must come from rows of one unit alone")
    if secured:
        told.append(
            f"note: row security decides which rows of {name} are counted, and must not look at other units' rows"
        )
    return told


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _grants(opened: OpenTables, needed: Mapping[str, Sequence[str]]) -> list[str]:
    quoted = POSTGRESQL.quoted
    made = ["CREATE ROLE hush_curator LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;"]
    made += [
        f"GRANT USAGE ON SCHEMA {quoted(space)} TO hush_curator;"
        for space in dict.fromkeys(opened.names[table][0] for table in needed)
    ]
    for table, columns in needed.items():
        space, name = opened.names[table]
        listed = ", ".join(map(quoted, columns))
        made.append(f"GRANT SELECT ({listed}) ON {quoted(space)}.{quoted(name)} TO hush_curator;")
    return made
