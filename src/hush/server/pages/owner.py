"""The owner's places: Data (the policy and its ledger), People, Budgets, Audit, and the way from nothing to an answer.

Files are chosen among those that lie beside the policy; no other path and no address is read, so that the page cannot
be made to open something else. Bounds and values are for the owner to say, and are never taken from rows. While data
are set up, before there is a policy, the owner sees the first rows of a file and is told of all that cannot be read as
they say: both are for the owner's eyes and are kept nowhere. What the page writes is the policy file itself, which the
owner sees before it is saved.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

from starlette.responses import Response

from hush.core import HushError, InvalidValueError
from hush.core.storage import SEPARATORS
from hush.curator.owner import NewTable, check, table_files, tables_of_files
from hush.ledger import Actor, Role
from hush.mechanisms import propose_delta
from hush.policy import draft
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger
from hush.query.date_formats import format_like
from hush.query.plan.stability import MAX_GROUPS, MAX_ROWS
from hush.query.types import Kind
from hush.server.auth.sessions import CSRF_FIELD
from hush.server.pages.ask import odds
from hush.server.pages.layout import show
from hush.server.routes import OWNER, Fields, Routes, Visit

ROUTES = Routes()
MOST_COLUMNS = 500
"""The largest number of columns that the form about them has room for."""
_SHOWN_CHARGES = 500
_EDIT = "policy"
_WRITTEN = ("separator", "encoding", "decimal")
_ENCODINGS = ("utf-8", "windows-1252", "latin-1", "utf-16")


def files_beside(policy: str) -> list[str]:
    """Return the names of the table files in the folder of a policy."""
    return table_files(Path(policy).resolve().parent)


def read_columns(policy: str, name: str, /, **words: str) -> list[NewTable]:
    """Return the tables of a file beside a policy; ``words`` say how it is written, as far as the owner did."""
    if name not in files_beside(policy):
        raise InvalidValueError("file", got=name, allowed="one of the files beside the policy")
    path = Path(policy).resolve().parent / name
    tables = tables_of_files([path], words, places={path: name})
    columns = sum(len(table.columns) for table in tables)
    if columns > MOST_COLUMNS:
        raise InvalidValueError(
            "file",
            got=f"{name} with {columns:,} columns",
            allowed=f"a file of at most {MOST_COLUMNS} columns on this page",
            hint="Run hush init at the machine, or put a file with fewer columns here.",
        )
    return tables


def drafted(tables: list[NewTable], form: Fields) -> draft.Draft:
    """Return the draft that an owner's answers make."""

    def said(name: str, otherwise: str = "") -> str:
        return form[name].strip() or otherwise

    def words(table: NewTable, column: str, sql_type: str) -> dict[str, Any]:
        field = f"{table.name}.{column}"
        kind = said(f"type {field}")
        answers: dict[str, Any] = {key: said(f"{key} {field}") for key in ("format", "values", "lower", "upper")}
        if answers["values"]:
            answers["values"] = draft.read_list(answers["values"], f"values of {column}")
        declared = {"type": kind} if kind else draft.first_words(sql_type)
        declared |= {key: answer for key, answer in answers.items() if answer}
        return draft.checked_words(column, declared) if declared else {}

    policy = draft.Draft(
        tables=tables,
        data=said("data", "mydata"),
        dates=format_like(said("dates")) if said("dates") else "",
        epsilon=draft.read_epsilon(said("epsilon"), "epsilon"),
        delta=draft.read_delta(said("delta", "0"), "delta"),
        analysts=[said("analyst", "alice")],
    )
    unit = policy.read_unit(said("unit"), "unit")
    described = [
        replace(
            table,
            max_groups=draft.read_count(said(f"max_groups {table.name}", "1"), "max_groups", MAX_GROUPS),
            max_rows=draft.read_count(said(f"max_rows {table.name}", "1"), "max_rows", MAX_ROWS),
            words={column: words(table, column, sql_type) for column, sql_type in table.columns_but(unit).items()},
        )
        for table in tables
    ]
    return replace(policy, unit=unit, tables=described)


@ROUTES.page("GET /data", OWNER)
async def data_page(visit: Visit, error: HushError | None = None, **values: Any) -> Response:
    """Show the policy and its state; where there is none, the first step."""
    policy, people = visit.settings.policy, visit.people
    text = await asyncio.to_thread(_text, policy)
    edits = [(by, *json.loads(content)) for by, content in people.proposals(_EDIT)]
    defaults: dict[str, Any] = {
        "text": text,
        "edits": [
            (by, new, "\n".join(unified_diff(old.splitlines(), new.splitlines(), lineterm="")))
            for by, old, new in edits
            if old == text
        ],
        "made": visit.service.policy.made,
        "mistake": visit.service.policy.mistake,
        "files": files_beside(policy),
        "separators": SEPARATORS,
        "encodings": _ENCODINGS,
        "types": [Kind.TEXT.value, *(kind.value for kind in Kind if kind is not Kind.TEXT)],
        "delta": f"1e{math.log10(propose_delta()):.0f}",
        "every_row": draft.EVERY_ROW,
        "analysts": [name for name, roles in people.names().items() if Role.ANALYST in roles],
        "odds": odds("1"),
    }
    defaults |= dict.fromkeys(("chosen", "review", "good", "link"), "")
    defaults |= {name: {} for name in ("found", "mistakes", "proposed", "unread", "preview", "better", "said")}
    return await show(visit, "data.html", 200 if error is None else 422, error=error, **{**defaults, **values})


def _text(policy: str) -> str:
    return Path(policy).read_text(encoding="utf-8") if Path(policy).exists() else ""


@ROUTES.page("POST /data", OWNER)
async def read_page(visit: Visit) -> Response:
    """Show the form about the columns of a file; or, with its answers, the policy drafted from them and checked."""
    form = await visit.fields()
    said = {key: value for key, value in form.items() if key not in {CSRF_FIELD, "again"}}
    name, policy = form["file"], visit.settings.policy
    values: dict[str, Any] = {"chosen": name, "said": said}
    try:
        if await asyncio.to_thread(_text, policy):  # rows are shown while data are set up, and not later
            allowed = "chosen before there is a policy"
            raise InvalidValueError("file", got=name, allowed=allowed, hint="Change it there.")
        words = {key: form[key] for key in _WRITTEN if form[key]}
        values["found"] = tables = await asyncio.to_thread(read_columns, policy, name, **words)
        visit.people.note("read-rows", file=name)
        values["preview"] = await asyncio.to_thread(lambda: {table.name: table.preview() for table in tables})
        if "unit" in said and "again" not in form:
            text = drafted(tables, form).to_toml()
            values |= {"review": text, **await asyncio.to_thread(_findings, policy, text)}
    except HushError as error:
        return await data_page(visit, error, **values)
    return await data_page(visit, **values)


def _findings(policy: str, text: str) -> dict[str, Any]:
    """Return the mistakes that show when all rows are read by a new policy, and the answers that would mend some.

    The numbers in them are exact: they are for the owner's page, and are kept nowhere.
    """
    with _beside(policy, text) as new:
        _check_places(Policy.read(new), None, policy)
        checked = check(new, rows=True)
        mistakes = [str(error).replace(str(new), "hush.toml") for error in checked.mistakes]
    better, proposed = {}, []
    for proposal in checked.proposals:
        column = proposal.column
        better[proposal.key if column is None else f"{proposal.key} {proposal.table}.{column}"] = proposal.value
        proposed.append(f"{proposal}{f' for {column}' if column else ''}")
    unread = [
        f"{cells.unread} of {cells.filled} cells of {label} are not as declared, and count as missing"
        for counts in checked.unread.values()
        for label, cells in counts.cells.items()
        if cells.unread
    ]
    return {"mistakes": mistakes, "better": better, "proposed": proposed, "unread": unread}


@contextmanager
def _beside(policy: str, text: str) -> Iterator[Path]:
    """Give a file with a text in the folder of the policy; it is removed in the end, and no error names it."""
    folder = Path(policy).resolve().parent
    with tempfile.NamedTemporaryFile(
        "w", dir=folder, prefix=".hush-", suffix=".toml", delete=False, encoding="utf-8"
    ) as new:
        new.write(text)
    try:
        yield Path(new.name)
    except HushError as error:  # about the policy's lines, and not those of a file that nobody knows
        error.args = (str(error).replace(new.name, "hush.toml"),)
        raise
    finally:
        Path(new.name).unlink(missing_ok=True)


@ROUTES.page("POST /data/policy", OWNER)
async def save_policy(visit: Visit) -> Response:
    """Check and save a policy; on request make its ledger, and add its analysts."""
    form = await visit.fields()
    text = form["policy"]
    try:
        policy = await asyncio.to_thread(_saved, visit, text, ledger="ledger" in form)
        visit.people.note("write-policy")
        await asyncio.to_thread(visit.service.policy.look_again)
    except HushError as error:
        return await data_page(visit, error, review=text)
    link = ""
    accounts = visit.people.names()
    for name in policy.analysts:
        if name not in accounts and "people" in form:
            visit.people.add(name, roles=[Role.ANALYST])
            link = _welcome(visit, visit.people.make_link(name))
    return await data_page(visit, good="Saved.", link=link)


def _saved(visit: Visit, text: str, *, ledger: bool) -> Policy:
    """Check a policy and replace the present file by it atomically."""
    policy_path = visit.settings.policy
    target = Path(policy_path).resolve()
    with _beside(policy_path, text) as new:
        _check_places(Policy.read(new), Policy.read(target) if target.exists() else None, policy_path)
        mistakes = check(new, rows=True).mistakes if ledger else ()
        if mistakes:
            raise HushError("\n".join(map(str, mistakes)))
        visit.agree(_EDIT, json.dumps([_text(policy_path), text]))
        if target.exists():
            new.chmod(target.stat().st_mode & 0o7777)
        os.replace(new, target)  # noqa: PTH105 - a move within a folder, all or nothing
    policy = Policy.read(target)
    if ledger:
        make_ledger(policy, actor=Actor.owner(visit.name)).close()
    return policy


def _check_places(policy: Policy, before: Policy | None, place: str) -> None:
    """Refuse changes that are allowed at the machine alone: other folders, other engines, another ledger.

    What the policy in force says already may stay. So nobody who got into an owner's session can make the service open
    a file or an address of their choice.
    """
    hint = "Change it in the file itself, at the machine."
    if policy.ledger != (before.ledger if before else None):
        raise InvalidValueError("ledger", got=policy.ledger, allowed="as it was", hint=hint)
    for name, data in policy.data.items():
        old = before.data.get(name) if before else None
        if data.engine != (old.engine if old else "duckdb"):
            raise InvalidValueError("engine", got=data.engine, allowed="as it was", hint=hint)
        for table, stored in data.tables.items():
            old_source = old.tables[table].source if old and table in old.tables else None
            if stored.source != old_source and stored.source.partition("#")[0] not in files_beside(place):
                allowed = "the name of a file beside the policy"
                raise InvalidValueError("source", got=stored.source, allowed=allowed, hint=hint)


def _welcome(visit: Visit, secret: str) -> str:
    return f"{visit.request.url.scheme}://{visit.request.headers['host']}/welcome/{secret}"


@ROUTES.page("GET /people", OWNER)
async def people_page(visit: Visit, error: HushError | None = None, **values: Any) -> Response:
    """Show everybody."""
    policy, people = _policy(visit), visit.people
    analysts = set() if policy is None else set(policy.analysts)
    accounts = [
        {
            "name": name,
            "roles": ", ".join(sorted(role.value for role in roles)),
            "named": Role.ANALYST not in roles or name in analysts,
            "sessions": len(people.sessions(name)),
            "tokens": len(people.tokens(name)),
        }
        for name, roles in people.names().items()
    ]
    values = {"link": "", "added": "", "policy_data": [] if policy is None else list(policy.data), **values}
    return await show(visit, "people.html", 200 if error is None else 422, error=error, shown=accounts, **values)


def _policy(visit: Visit) -> Policy | None:
    path = visit.settings.policy
    try:
        return Policy.read(path) if Path(path).exists() else None
    except HushError:
        return None


@ROUTES.page("POST /people", OWNER, refused=people_page)
async def change_people(visit: Visit) -> Response:
    """Add somebody, give them a new link, or remove them."""
    form = await visit.fields()
    name, act = form["name"].strip(), form.get("act", "add")
    if act == "remove":
        visit.people.remove(name)
        return await people_page(visit)
    if act == "add":
        await asyncio.to_thread(_add, visit, name, form)
    return await people_page(visit, link=_welcome(visit, visit.people.make_link(name)), added=name)


def _add(visit: Visit, name: str, form: Fields) -> None:
    """Add somebody; an analyst also to the policy, with the data set and budget that were chosen."""
    role = Role.OWNER if form["role"] == "owner" else Role.ANALYST
    policy = _policy(visit)
    if role is Role.OWNER or policy is None or name in policy.analysts:
        visit.people.add(name, roles=[role])
        return
    data = form["data"]
    if data not in policy.data:
        raise InvalidValueError("data", got=data, allowed=f"one of {', '.join(policy.data)}")
    epsilon = draft.read_epsilon(form["epsilon"].strip(), "epsilon")
    section = draft.analyst_section(name, data, epsilon, draft.read_delta(form["delta"].strip() or "0", "delta"))
    visit.people.add(name, roles=[role])
    try:
        _saved(visit, "\n".join([_text(visit.settings.policy).rstrip(), "", *section, ""]), ledger=False)
    except BaseException:
        visit.people.remove(name)
        raise
    visit.people.note("write-policy", name)
    visit.service.policy.look_again()


@ROUTES.page("GET /audit", OWNER)
async def audit_page(visit: Visit) -> Response:
    """Show the owners' acts and all charges, and whether the chain of hashes is whole."""
    trail: dict[str, Any] = {"report": None, "acts": [], "releases": []}

    def look() -> dict[str, Any]:
        opened, actor = visit.service.policy.in_force(), Actor.owner(visit.name)
        if not opened.made:
            return {}
        return {
            "report": opened.ledger.verify(),
            "acts": opened.ledger.acts(actor),
            "releases": opened.ledger.history(actor, limit=_SHOWN_CHARGES),
        }

    try:
        return await show(visit, "audit.html", **trail | await asyncio.to_thread(look))
    except HushError as error:
        return await show(visit, "audit.html", 200, error=error, **trail)
