"""Options that commands on a ledger share: which ledger, which anchor, and as whom."""

from __future__ import annotations

import getpass
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hush.ledger import Actor, Ledger

LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="PATH|URL",
        help="The ledger: a file or postgresql://…  [default: hush.ledger beside the policy]",
    ),
]
PolicyOption = Annotated[Path, typer.Option("--policy", metavar="FILE", help="The policy file.")]
AnchorOption = Annotated[
    str | None,
    typer.Option(
        "--anchor",
        metavar="PLACE",
        help="Where the end of the ledger is kept as well: a file, postgresql://…#name, command:PROGRAM, or none.",
    ),
]


def known_analysts(incomplete: str) -> list[str]:
    """Return the analysts of the policy in this folder whose names begin so: for a shell that completes."""
    try:
        analysts = tomllib.loads(Path("hush.toml").read_text(encoding="utf-8")).get("analysts", {})
    except (OSError, ValueError):
        return []
    return [name for name in analysts if name.startswith(incomplete)]


AsOption = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="ANALYST", help="Act as an analyst instead of the owner.", autocompletion=known_analysts
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

POLICY = Path("hush.toml")


def place(ledger: str | None, policy: Path) -> str:
    """Return where the ledger is: as the option says, or the policy, else beside where the policy would be."""
    if ledger is not None:
        return ledger
    if policy.exists():
        from hush.curator.data_sets import read_policy
        from hush.policy.ledger import ledger_of

        return str(ledger_of(read_policy(policy)))
    return str(policy.parent / "hush.ledger")


def actor(analyst: str | None) -> Actor:
    """Return who acts: the owner, by the name of the account that runs the command, unless an analyst is named."""
    from hush.ledger import Actor

    return Actor.analyst(analyst) if analyst is not None else Actor.owner(_user())


def reader(book: Ledger, analyst: str | None) -> Actor:
    """Return who reads: the owner, or an analyst of whom the ledger knows."""
    if analyst is not None:
        _check("--as", analyst, book.analysts())
    return actor(analyst)


def check_data(book: Ledger, data: str | None) -> None:
    """Refuse a data set that the ledger does not know."""
    if data is not None:
        _check("--data", data, [act.data for act in book.acts(actor(None)) if act.data])


def _check(option: str, name: str, known: list[str]) -> None:
    if name not in known:
        from hush.core import InvalidValueError
        from hush.query.errors import did_you_mean

        what = "an analyst" if option == "--as" else "a data set"
        hint = did_you_mean(name, known, otherwise=f"It knows {', '.join(sorted(set(known))[:20]) or 'none yet'}.")
        raise InvalidValueError(option, got=name, allowed=f"{what} that the ledger knows", hint=hint)


def _user() -> str:
    try:
        return getpass.getuser() or "owner"
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return "owner"


def opened(ledger: str | None, policy: Path, anchor: str | None) -> Ledger:
    """Open the ledger that the options name, which must be there."""
    if ledger is None and policy.exists():
        from hush.curator.data_sets import read_policy
        from hush.policy.ledger import open_ledger

        return open_ledger(read_policy(policy), anchor=anchor)
    from hush.ledger import Ledger

    return Ledger.open(place(ledger, policy), anchor=anchor)
