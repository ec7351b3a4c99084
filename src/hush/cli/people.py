"""``hush people``: who may use a service, on the machine where its store of people lies."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hush.cli.options import POLICY, JsonOption, PolicyOption, spread
from hush.cli.output import console, print_json
from hush.core import HushError, InvalidValueError
from hush.core.values import dataclass
from hush.curator.data_sets import read_policy
from hush.ledger import Role
from hush.policy.ledger import open_ledger

if TYPE_CHECKING:
    from hush.server.people import People

_HELP = """
Who may use `hush serve`: people, one-time links, tokens and passwords.

```sh
hush people add alice --role analyst      # prints a link that signs her in once
hush people token alice --days 30         # prints a token for programs, once
hush people backup people-2026-11.sqlite  # a copy, for hush people restore
```

Analysts must have the names that the policy gives them: [analysts.alice].
"""
people_app = typer.Typer(name="people", help=_HELP, no_args_is_help=True, rich_markup_mode="markdown")

StoreOption = Annotated[
    str | None,
    typer.Option("--people", metavar="FILE|URL", help="The store  [default: hush.people beside the policy]"),
]
RolesOption = Annotated[
    list[str] | None, typer.Option("--role", metavar="ROLE", help="owner or analyst; repeat for both.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Who.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleOptions:
    """Where people are kept, and how it is said what was done."""

    store: StoreOption = None
    policy: PolicyOption = POLICY
    as_json: JsonOption = False


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(people_app, name="people", short_help="Who may use a service.")


@contextmanager
def _opened(options: PeopleOptions) -> Iterator[People]:
    """Open the store. What was done to it then stands in the ledger's chain, as soon as there is a ledger."""
    try:
        from hush.server import audit
        from hush.server.people import People
        from hush.server.settings import people_of
    except ImportError as error:
        raise HushError(f"hush people needs {error.name}; install it with: pip install 'hush[server]'") from None
    with closing(People(options.store or people_of(options.policy), by=_at_the_machine())) as people:
        yield people
        if people.outbox() and options.policy.exists():
            with suppress(HushError), open_ledger(read_policy(options.policy)) as ledger:  # else a worker does it
                audit.record(people, ledger)


def _at_the_machine() -> str:
    try:
        return f"{getpass.getuser()} at the machine"
    except (KeyError, OSError):  # an account without a name
        return "machine"


def _roles(words: list[str]) -> list[Role]:
    for word in words:
        if word not in {known.value for known in Role}:
            raise InvalidValueError("--role", got=word, allowed="owner or analyst")
    return [Role(word) for word in words]


@people_app.command("list")
@spread
def list_(options: PeopleOptions) -> None:
    """Show everybody, with their roles, tokens and sessions."""
    with _opened(options) as people:
        rows = [
            {
                "name": name,
                "roles": sorted(role.value for role in roles),
                "tokens": len(people.tokens(name)),
                "sessions": len(people.sessions(name)),
            }
            for name, roles in people.names().items()
        ]
    if options.as_json:
        print_json({"people": rows})
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("name", "roles", "tokens", "sessions"):
        table.add_column(title, justify="right" if title in {"tokens", "sessions"} else "left")
    for row in rows:
        roles = ", ".join(map(str, row["roles"]))  # type: ignore[call-overload]
        table.add_row(escape(str(row["name"])), roles, str(row["tokens"]), str(row["sessions"]))
    console().print(table)


@people_app.command("add")
@spread
def add(
    name: NameArgument,
    role: RolesOption = None,
    *,
    options: PeopleOptions,
) -> None:
    """Add somebody, and print the end of a link that signs them in once."""
    roles = _roles(role or ["analyst"])
    with _opened(options) as people:
        people.add(name, roles=roles)
        secret = people.make_link(name)
    _print({"name": name, "link": f"/welcome/{secret}"}, "link", as_json=options.as_json)


@people_app.command("roles")
@spread
def roles(
    name: NameArgument,
    role: RolesOption = None,
    *,
    options: PeopleOptions,
) -> None:
    """Give somebody other roles, which hold from their next request on."""
    wanted = _roles(role or [])
    with _opened(options) as people:
        people.set_roles(name, roles=wanted)
    if options.as_json:
        print_json({"name": name, "roles": sorted(known.value for known in wanted)})


@people_app.command("link")
@spread
def link(name: NameArgument, *, options: PeopleOptions) -> None:
    """Print the end of a link that signs somebody in once, within a day."""
    with _opened(options) as people:
        secret = people.make_link(name)
    _print({"name": name, "link": f"/welcome/{secret}"}, "link", as_json=options.as_json)


@people_app.command("token")
@spread
def token(
    name: NameArgument,
    label: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(metavar="SCOPE", help="read, ask or own; repeat.")] = None,
    days: Annotated[float, typer.Option(help="How long it is good.")] = 90,
    *,
    options: PeopleOptions,
) -> None:
    """Make a token for somebody's programs, and print it this once."""
    with _opened(options) as people:
        made, secret = people.make_token(name, label=label, scopes=scope or ("read", "ask"), days=days)
    _print({"id": made.id, "scopes": list(made.scopes), "token": secret}, "token", as_json=options.as_json)


@people_app.command("sign-out")
@spread
def sign_out(name: NameArgument, *, options: PeopleOptions) -> None:
    """End all sessions and tokens of somebody, on all workers at once."""
    with _opened(options) as people:
        sessions = people.end_session(name)
        ended = [made.id for made in people.tokens(name) if people.revoke_token(name, made.id)]
    told = {"sessions": sessions, "tokens": len(ended)}
    if options.as_json:
        print_json(told)
    else:
        console().print(f"Ended: {sessions} sessions, {len(ended)} tokens.")


@people_app.command("password")
@spread
def password(name: NameArgument, *, options: PeopleOptions) -> None:
    """Give somebody a password, read from standard input; all their sessions end."""
    word = typer.prompt("Password", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    with _opened(options) as people:
        people.set_password(name, word)
    if options.as_json:
        print_json({"name": name})


@people_app.command("remove")
@spread
def remove(name: NameArgument, *, options: PeopleOptions) -> None:
    """Remove somebody with all their sessions and tokens; the ledger keeps what they asked."""
    with _opened(options) as people:
        people.remove(name)
    if options.as_json:
        print_json({"removed": name})


@people_app.command("backup")
@spread
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the copy; must not exist.")],
    *,
    options: PeopleOptions,
) -> None:
    """Write a copy of people and tokens to a SQLite file, whichever the store is, while the service goes on."""
    with _opened(options) as people:
        people.backup(file)
    if options.as_json:
        print_json({"file": str(file), "bytes": file.stat().st_size})


@people_app.command("restore")
@spread
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy that hush people backup wrote.")],
    *,
    options: PeopleOptions,
) -> None:
    """Put a copy in the place of people and tokens, in a file or a database. All sessions and links end.

    Tokens that were revoked after the copy was made are good again: revoke them again.
    """
    with _opened(options) as people:
        people.restore(file)
        names = list(people.names())
    if options.as_json:
        print_json({"people": names})
    else:
        console().print(f"Restored {len(names)} people; everybody signs in again.")


def _print(told: dict[str, object], what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
    else:
        print(told[what])
