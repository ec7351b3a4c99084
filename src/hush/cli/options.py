"""Options that commands share, as dataclasses: a command takes one value, and `spread` shows Typer its fields.

@spread
def acts(*, options: LedgerOptions) -> None:
...                                # hush ledger acts [--ledger …] [--policy …] [--anchor …] [--as …] [--json]
"""

from __future__ import annotations

import getpass
import tomllib
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hush.curator.curator import Curator
    from hush.curator.terms import Terms
    from hush.ledger import Actor, Ledger
    from hush.policy.file import Policy

Result = TypeVar("Result")


def spread(command: Callable[..., Result]) -> Callable[..., Result]:
    """Return a command for Typer: the fields of its parameters that are dataclasses are options of their own.

    So are the terms of a request (`hush.curator.terms`): its SQL, or its table, is an argument.
    """
    defaults, hints = signature(command).parameters, get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: annotation for name, annotation in hints.items() if is_dataclass(annotation)}
    parameters: list[Parameter] = []
    for name, annotation in hints.items():
        if name not in groups:
            default = defaults[name].default
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
        elif hasattr(annotation, "given"):  # the terms of a request
            parameters += _term_options(annotation)
        else:
            types = get_type_hints(annotation, include_extras=True)
            parameters += [
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
                for field in fields(annotation)
            ]

    @wraps(command)
    def call(**given: Any) -> Result:
        values = {}
        for name, group in groups.items():
            own = {field.name: given.pop(field.name) for field in fields(group) if field.name in given}
            if hasattr(group, "given"):
                own = {option: _term_value(group, option, text) for option, text in own.items()}
            values[name] = group(**own)
        return command(**values, **given)

    # Typer reads the signature, and `wraps` would show it that of the command.
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return a decorator that adds a function to an application, with its options spread."""
    return lambda function: app.command(name)(spread(function))


def _term_options(request: type[Terms]) -> list[Parameter]:
    """Return the parameters of a command that takes a request: its first term as an argument, others as options."""
    from hush.curator.terms import TermKind, term_of

    types = {TermKind.COUNT: int, TermKind.FRACTION: float, TermKind.FLAG: bool}  # read by Typer; others are texts
    parameters = []
    for field in fields(request):
        term, default = term_of(field), Parameter.empty if field.default is MISSING else field.default
        kind: Any = types.get(term.kind, str)
        if term.kind in {TermKind.LOCAL, TermKind.VALUES}:
            continue
        if default is Parameter.empty and not field.kw_only:
            metavar, words = term.metavar, term.help
            if term.kind is TermKind.SQL:
                words += " @FILE reads it from a file, - (or nothing) from standard input."
                # Without a metavar of its own the SQL may be left out, and is read from standard input.
                metavar, default = (metavar, default) if metavar else ("[SQL]", "-")
            annotation: Any = Annotated[kind, Argument(metavar=metavar, help=words)]
        else:
            option = Option(f"--{field.name.replace('_', '-')}", metavar=term.metavar or None, help=term.help)
            annotation = Annotated[kind | None if default is None else kind, option]
        parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return parameters


def _term_value(request: type[Terms], name: str, text: Any) -> Any:
    """Return the value of a term; some terms have texts of their own, for instance 50@0.95."""
    from hush.curator.terms import TermKind, terms_of

    term = terms_of(request)[name]
    reads = isinstance(text, str) and term.kind in {TermKind.ACCURACY, TermKind.NAMES}
    return term.read(text, f"--{name}") if reads else text


def known_analysts(incomplete: str) -> list[str]:
    """Return the analysts of this folder's policy with names that begin with a text, for completion in a shell."""
    try:
        # Read directly: the policy's own reader needs slow imports, and the shell waits for this at every Tab.
        analysts = tomllib.loads(Path("hush.toml").read_text(encoding="utf-8")).get("analysts", {})
    except (OSError, ValueError):
        return []
    return [name for name in analysts if name.startswith(incomplete)]


JsonOption = Annotated[bool, Option("--json", help="Print JSON.")]
_WHO = "Which analyst asks (where the policy names several), or acts instead of the owner."
AnalystOption = Annotated[str | None, Option("--as", metavar="ANALYST", help=_WHO, autocompletion=known_analysts)]
_STORE = "The store of people  [default: hush.people beside the policy]"
StoreOption = Annotated[str | None, Option("--people", metavar="FILE|URL", help=_STORE)]
_LEDGER = "The ledger: a file or postgresql://…  [default: hush.ledger beside the policy]"
_ANCHOR = "Where the end of the ledger is kept as well: a file, postgresql://…#name, command:PROGRAM, or none."

POLICY = Path("hush.toml")


def actor(analyst: str | None) -> Actor:
    """Return who acts: the owner, by the name of the account that runs the command, unless an analyst is named."""
    from hush.ledger import Actor

    return Actor.analyst(analyst) if analyst is not None else Actor.owner(account_name())


def account_name() -> str:
    """Return the name of the account that runs the command."""
    try:
        return getpass.getuser() or "owner"
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return "owner"


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """The policy, and how a command prints its result."""

    policy: Annotated[Path, Option(metavar="FILE", help="The policy file.")] = POLICY
    as_json: JsonOption = False

    def tell(self, value: Any, *lines: RenderableType) -> None:
        """Print a result: as JSON, or line by line for people."""
        from hush.cli.output import tell

        tell(value, *lines, as_json=self.as_json)


@dataclass(frozen=True, kw_only=True)
class AskerOptions(PolicyOptions):
    """Who asks, under which policy."""

    analyst: AnalystOption = None

    def opened(self) -> Curator:
        """Open a curator for this analyst under this policy."""
        from hush.curator.opening import open_policy

        return open_policy(self.policy, analyst=self.analyst)


@dataclass(frozen=True, kw_only=True)
class LedgerPlace(PolicyOptions):
    """The options that name a ledger."""

    ledger: Annotated[str | None, Option(metavar="PATH|URL", help=_LEDGER)] = None
    anchor: Annotated[str | None, Option(metavar="PLACE", help=_ANCHOR)] = None

    def policy_of_ledger(self) -> Policy | None:
        """Return the policy, if its ledger is meant; None if the ledger is named, or there is no policy."""
        from hush.policy.file import Policy

        return Policy.read(self.policy) if self.ledger is None and self.policy.exists() else None

    @property
    def place(self) -> str:
        """The ledger's place: from the option, else from the policy, else hush.ledger in the policy's folder."""
        from hush.policy.ledger import ledger_of

        if self.ledger is not None:
            return self.ledger
        policy = self.policy_of_ledger()
        return str(self.policy.parent / "hush.ledger" if policy is None else ledger_of(policy))

    def opened(self) -> Ledger:
        """Open the ledger, which must be there."""
        from hush.ledger import Ledger
        from hush.policy.ledger import open_ledger

        policy, anchor = self.policy_of_ledger(), self.anchor
        return Ledger.open(self.place, anchor=anchor) if policy is None else open_ledger(policy, anchor=anchor)


@dataclass(frozen=True, kw_only=True)
class LedgerOptions(LedgerPlace):
    """The options that name a ledger and the actor."""

    analyst: AnalystOption = None

    @property
    def actor(self) -> Actor:
        """Who acts: the owner, or an analyst."""
        return actor(self.analyst)

    def reader(self, book: Ledger, data: str | None = None) -> Actor:
        """Return the actor who reads: the owner, or an analyst. Refuse names that the ledger does not know."""
        from hush.core import InvalidValueError
        from hush.query.errors import did_you_mean

        data_sets = [act.data for act in book.acts(actor(None)) if act.data] if data is not None else []
        names = (("--data", "a data set", data, data_sets), ("--as", "an analyst", self.analyst, book.analysts()))
        for option, what, name, known in names:
            if name is not None and name not in known:  # else it would show an empty list, as if nothing had been spent
                others = ", ".join(sorted(set(known))[:20]) or "none yet"
                hint = did_you_mean(name, known, otherwise=f"It knows {others}.")
                raise InvalidValueError(option, got=name, allowed=f"{what} that the ledger knows", hint=hint)
        return self.actor
