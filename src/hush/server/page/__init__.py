"""The page: places for analysts and owners, drawn on the server, light and dark, with a script and without.

*   `asking`: Ask; `before` is what is known before a question is paid for;
*   `building`: questions that are clicked together;
*   `answers`: the answer, its files, Compare;
*   `spending`: Budget, History, receipts;
*   `releasing`: Releases and streams; `standing`: questions that are released again and again;
*   `requests`: what waits for the owner;
*   `tables`: Tables, and *What is this?*;
*   `owning`: Data, People, Audit, and the first steps of an owner; `account`: one's password, tokens and browsers;
*   `frame`: what surrounds every page.

Each place has an address of its own, and looking never spends. Templates lie in ``templates/``, one style sheet and one
script in ``static/``; the script makes things quicker, and nothing needs it.
"""

from __future__ import annotations

from dataclasses import replace

from hush.server.routes import Reached


def table() -> list[Reached]:
    """Return the pages' part of the table of routes."""
    from hush.server.page import (
        account,
        answers,
        asking,
        building,
        owning,
        releasing,
        requests,
        spending,
        standing,
        tables,
    )
    from hush.server.page.frame import told

    modules = (asking, building, answers, releasing, standing, spending, tables, requests, owning, account)
    places = [place for module in modules for place in module.table()]
    return [replace(place, handler=told(place.handler)) for place in places]
