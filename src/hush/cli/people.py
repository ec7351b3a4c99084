"""``hush people``: who may use a service, on the machine where its store of people lies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from hush.cli.options import PolicyOptions, StoreOption, account_name, command
from hush.cli.output import plain_table, private_file
from hush.core import HushError, InvalidValueError
from hush.ledger import LedgerMissingError, Role
from hush.policy.file import Policy
from hush.policy.ledger import open_ledger
from hush.query.errors import did_you_mean

if TYPE_CHECKING:
    from hush.server.auth.people import People

_HELP = """
Who may use `hush serve`: people, one-time links, tokens and passwords.

```sh
hush people add alice --role analyst      # prints a link that signs her in once
hush people token alice --days 30         # prints a token for programs, once
hush people backup people-2026-11.sqlite  # a copy, for hush people restore
```

Analysts must have the names that the policy gives them: [analysts.alice].
"""
people = typer.Typer(name="people", help=_HELP, no_args_is_help=True, rich_markup_mode="markdown")

RolesOption = Annotated[list[Role] | None, Option("--role", metavar="ROLE", help="owner or analyst; repeat for both.")]
NameArgument = Annotated[str, Argument(metavar="NAME", help="Who.")]
AddressOption = Annotated[str, Option("--address", metavar="URL", help="Where people reach the service, for the link.")]
ADDRESS = "http://127.0.0.1:8000"
"""Where `hush serve` listens if it is not told otherwise."""


@dataclass(frozen=True, kw_only=True)
class PeopleOptions(PolicyOptions):
    """The options that all commands share: the store of people, the policy, and the output format."""

    store: StoreOption = None


@contextmanager
def _opened(options: PeopleOptions) -> Iterator[People]:
    """Open the store of people; afterwards record the changes in the ledger, if there is one."""
    try:
        from hush.server import monitoring
        from hush.server.auth.people import People
        from hush.server.settings import people_of
    except ImportError as error:
        raise HushError(f"hush people needs {error.name}; install it with: pip install 'hush[server]'") from None
    with closing(People(options.store or people_of(options.policy), by=f"{account_name()} at the machine")) as people:
        yield people
        if people.outbox() and options.policy.exists():
            with suppress(HushError), open_ledger(Policy.read(options.policy)) as ledger:  # else a worker does it
                monitoring.record(people, ledger)


@command(people, "list")
def list_(options: PeopleOptions) -> None:
    """Show everybody, with their roles, tokens and sessions."""
    titles = ("name", "roles", "tokens", "sessions")
    table, rows = plain_table(*titles, right=titles[2:]), []
    with _opened(options) as people:
        for name, roles in people.names().items():
            listed, tokens, sessions = sorted(roles), len(people.tokens(name)), len(people.sessions(name))
            rows.append(dict(zip(titles, (name, listed, tokens, sessions), strict=True)))
            table.add_row(name, ", ".join(listed), str(tokens), str(sessions))
    options.tell({"people": rows}, table)


@command(people, "add")
def add(
    name: NameArgument, role: RolesOption = None, *, address: AddressOption = ADDRESS, options: PeopleOptions
) -> None:
    """Add somebody, and print a link that signs them in once. The policy must name an analyst."""
    roles, names, policy = role or [Role.ANALYST], [name], options.policy
    with suppress(HushError):  # a policy with mistakes, which are told elsewhere
        names = list(Policy.read(policy).analysts) if policy.exists() else names
    if Role.ANALYST in roles and name not in names:  # they could sign in and ask about nothing
        there = f"It names {', '.join(names) or 'nobody'}; add [analysts.{name}] with its data first."
        hint = did_you_mean(name, names, otherwise=there)
        raise InvalidValueError("NAME", got=name, allowed=f"an analyst of {policy}", hint=hint)
    _link(name, address, options, roles)


def _link(name: str, address: str, options: PeopleOptions, roles: Sequence[Role] = ()) -> None:
    """Print a link for somebody, who is added first if roles are given."""
    with _opened(options) as people:
        if roles:
            people.add(name, roles=roles)
        place = f"/welcome/{people.make_link(name)}"
    options.tell({"name": name, "link": place}, f"{address.rstrip('/')}{place}")


@command(people, "roles")
def roles(name: NameArgument, role: RolesOption = None, *, options: PeopleOptions) -> None:
    """Give somebody other roles, which hold from their next request on."""
    with _opened(options) as people:
        people.set_roles(name, roles=role or [])
    options.tell({"name": name, "roles": sorted(role or [])})


@command(people, "link")
def link(name: NameArgument, *, address: AddressOption = ADDRESS, options: PeopleOptions) -> None:
    """Print a link that signs somebody in once, within a day."""
    _link(name, address, options)


@command(people, "token")
def token(
    name: NameArgument,
    label: Annotated[str, Option(metavar="TEXT", help="What it is for.")] = "",
    scope: Annotated[list[str] | None, Option(metavar="SCOPE", help="read, ask or own; repeat.")] = None,
    days: Annotated[float, Option(help="How long it is good.")] = 90,
    *,
    options: PeopleOptions,
) -> None:
    """Make a token for somebody's programs, and print it this once."""
    with _opened(options) as people:
        made, secret = people.make_token(name, label=label, scopes=scope or ("read", "ask"), days=days)
    options.tell({"id": made.id, "scopes": list(made.scopes), "token": secret}, secret)


@command(people, "sign-out")
def sign_out(name: NameArgument, *, options: PeopleOptions) -> None:
    """End all sessions and tokens of somebody, on all workers at once."""
    with _opened(options) as people:
        sessions = people.end_session(name)
        ended = [made.id for made in people.tokens(name) if people.revoke_token(name, made.id)]
    ends = {"sessions": sessions, "tokens": len(ended)}
    options.tell(ends, f"Ended: {sessions} sessions, {len(ended)} tokens.")


@command(people, "unbind")
def unbind(name: NameArgument, *, options: PeopleOptions) -> None:
    """Take the account at the OpenID provider from somebody, with sessions, tokens and password; links bind others."""
    with _opened(options) as people:
        bound = people.unbind(name)
    lines = [] if bound else [f"{name} is bound to no account at a provider."]
    options.tell({"name": name, "unbound": bound}, *lines)


@command(people, "password")
def password(name: NameArgument, *, options: PeopleOptions) -> None:
    """Give somebody a password, read from standard input; all their sessions end."""
    word = typer.prompt("Password", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    with _opened(options) as people:
        people.set_password(name, word)
    options.tell({"name": name})


@command(people, "factor")
def factor(
    name: NameArgument,
    off: Annotated[bool, Option("--off", help="Turn it off, as for a lost device.")] = False,
    *,
    options: PeopleOptions,
) -> None:
    """Set up a second factor beside somebody's password: print its secret, read a code, print recovery codes."""
    codes: list[str] = []
    with _opened(options) as people:
        if off:
            people.drop_factor(name)
        else:
            print(people.begin_factor(name).address(name), file=sys.stderr)
            codes = people.confirm_factor(name, typer.prompt("Code", err=True))
    options.tell({"name": name, "recovery": "\n".join(codes)}, "\n".join(codes))


@command(people, "remove")
def remove(name: NameArgument, *, options: PeopleOptions) -> None:
    """Remove somebody with all their sessions and tokens; the ledger keeps their questions."""
    with _opened(options) as people:
        people.remove(name)
    options.tell({"removed": name})


@command(people, "audit")
def audit(
    file: Annotated[str, Argument(metavar="[FILE]", help="A new file; - for standard output.")] = "-",
    *,
    options: PeopleOptions,
) -> None:
    """Write acts of owners, charges and failed sign-ins, as lines of JSON, oldest first."""
    with ExitStack() as stack:
        people, ledger = stack.enter_context(_opened(options)), None
        from hush.server.monitoring import export

        if options.policy.exists():
            with suppress(LedgerMissingError):
                ledger = stack.enter_context(open_ledger(Policy.read(options.policy)))
        target = sys.stdout if file == "-" else stack.enter_context(private_file(file, "x"))
        count = export(people, ledger, target)
    if file != "-":
        options.tell({"lines": count, "file": file}, str(count))


@command(people, "backup")
def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="Where to write the copy; must not exist.")],
    *,
    options: PeopleOptions,
) -> None:
    """Write a copy of people and tokens to a SQLite file, whichever the store is, while the service goes on."""
    with _opened(options) as people:
        people.backup(file)
    options.tell({"file": str(file), "bytes": file.stat().st_size})


@command(people, "restore")
def restore(
    file: Annotated[Path, Argument(metavar="FILE", help="A copy that hush people backup wrote.")],
    *,
    options: PeopleOptions,
) -> None:
    """Put a copy in the place of people and tokens, in a file or a database. All sessions and links end.

    Tokens that were revoked after the copy was made are good again: revoke them again.
    """
    with _opened(options) as people:
        people.restore(file)
        names = list(people.names())
    options.tell({"people": names}, f"Restored {len(names)} people; everybody signs in again.")
