r"""More budget for an analyst: in the ledger's account, which binds, and in the policy, which may only lower it.

A request for more budget (`hush.ledger.requests`) names a new total. To approve it takes both: the ledger's account is
raised, which is recorded, and the number in the policy's file is written anew. Nothing else in the file changes, and
where that cannot be made sure of, nothing is decided.

>>> raised('[analysts.ann]\ndata = ["a"]\nbudget = { epsilon = "1" }  # per year\n', "ann", Fraction("1.5"))
'[analysts.ann]\ndata = ["a"]\nbudget = { epsilon = "1.5" }  # per year\n'
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from hush.core import HushError
from hush.core.format import decimal
from hush.ledger import Actor, Ledger
from hush.ledger.errors import AccountExistsError, UnknownAccountError
from hush.policy.file import Analyst, Policy, PolicyBudget
from hush.policy.ledger import replace_file

_SECTION = re.compile(r"(?m)^[ \t]*\[")
_EPSILON = re.compile(
    r'(?m)^([ \t]*budget[ \t]*=[ \t]*\{[^}\r\n]*?epsilon[ \t]*=[ \t]*)("[^"\r\n]*"|[0-9][0-9_.eE+-]*)'
)


class PolicyEditError(HushError):
    """The policy's file cannot be changed safely, so nothing was decided."""

    code = "policy-edit"


def decide(
    policy: Policy, path: str | Path, ledger: Ledger, number: int, *, approve: bool, actor: Actor, reason: str = ""
) -> bool:
    """Decide on a request; return whether the policy's file was changed and must be read again."""
    request = next((entry for entry in ledger.requests(actor) if entry.number == number), None)
    changed = False
    if approve and request is not None and request.state == "waiting" and request.wanted is not None:
        total, analyst = Fraction(request.wanted), policy.analysts.get(request.analyst)
        if analyst is None or analyst.budget is None:
            raise PolicyEditError(f"The policy gives {request.analyst} no budget of their own; decline the request.")
        if analyst.budget.epsilon < total:
            changed = bool(raised(_text(path), request.analyst, total))
            _keep_others(analyst, analyst.budget, request.data, ledger, actor)
    ledger.decide(number, approve=approve, actor=actor, reason=reason)
    if changed and request is not None and request.wanted is not None:
        # After the ledger: should this fail, the policy's smaller budget binds, and is safe. The file is read again,
        # because another owner may have changed something else in it meanwhile.
        replace_file(Path(path), raised(_text(path), request.analyst, Fraction(request.wanted)))
    return changed


def _keep_others(analyst: Analyst, budget: PolicyBudget, data: str, ledger: Ledger, actor: Actor) -> None:
    """Refuse to raise the analyst's budget on any data set but ``data``; the policy has one number for all.

    Accounts that are not open yet are opened as the policy is now. One that only the policy keeps smaller cannot stay.
    """
    accounts = {view.data: view for view in ledger.budget(actor, recorded=True) if view.analyst == analyst.name}
    other_data = [name for name in analyst.data if name != data]
    for name in other_data:
        if name in accounts and accounts[name].epsilon > budget.epsilon:
            raise PolicyEditError(
                f"The policy's number for {analyst.name} is also that on {name!r}, where the ledger holds more, so it "
                "would be raised there, too. Write the number by hand if it shall, then approve the request again."
            )
    for name in other_data:
        if name not in accounts:
            with suppress(AccountExistsError, UnknownAccountError):  # no budget of their own there, or no data set yet
                opened = {"epsilon": budget.epsilon, "delta": budget.delta}
                ledger.add_analyst(analyst.name, data=name, budget=opened, actor=actor)


def _text(path: str | Path) -> str:
    return Path(path).read_bytes().decode("utf-8")


def raised(text: str, analyst: str, epsilon: Fraction) -> str:
    """Return a policy's text in which an analyst's budget has a new ε, and nothing else is different."""
    expected: dict[str, Any] = tomllib.loads(text)
    expected["analysts"][analyst]["budget"]["epsilon"] = decimal(epsilon)
    for header in _headers(text, analyst):
        end = _SECTION.search(text, header.end())
        stop = len(text) if end is None else end.start()
        section = _EPSILON.sub(lambda match: f'{match[1]}"{decimal(epsilon)}"', text[header.end() : stop], count=1)
        changed = text[: header.end()] + section + text[stop:]
        # Found by a pattern, so proven by the parser: only a text with this one difference is returned.
        if tomllib.loads(changed) == expected:
            return changed
    raise PolicyEditError(
        f'The budget of {analyst} cannot be found in the policy\'s file. Write epsilon = "{decimal(epsilon)}" there '
        "by hand, then approve the request again."
    )


def _headers(text: str, analyst: str) -> list[re.Match[str]]:
    """Return the matches of headers of an analyst's section, the name bare or in quotes."""
    escaped = analyst.replace("\\", "\\\\").replace('"', '\\"')
    names = "|".join(map(re.escape, (analyst, f'"{escaped}"', f"'{analyst}'")))
    return list(re.finditer(rf"(?m)^[ \t]*\[analysts\.(?:{names})\][^\r\n]*$", text))
