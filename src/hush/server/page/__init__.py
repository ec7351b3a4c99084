"""The page: places for analysts and owners, drawn on the server, light and dark, with a script and without.

*   `asking`: Ask, the answer, Compare; `before` is what is known before a question is paid for;
*   `accounts`: Budget, History, receipts;
*   `tables`: Tables, and *What is this?*;
*   `owning`: Data, People, Audit, and the first steps of an owner; `account`: one's password, tokens and browsers;
*   `exports`: an answer as a script and a notebook;
*   `frame`: what surrounds every page.

Each place has an address of its own, and looking never spends. Templates lie in ``templates/``, one style sheet and one
script in ``static/``; the script makes things quicker, and nothing needs it.
"""

from __future__ import annotations

from dataclasses import replace

from hush.server.routes import Reached


def table() -> list[Reached]:
    """Return the pages' part of the table of routes."""
    from hush.server.page import account, accounts, asking, owning, tables
    from hush.server.page.frame import told

    places = [*asking.table(), *accounts.table(), *tables.table(), *owning.table(), *account.table()]
    return [replace(place, handler=told(place.handler)) for place in places]
