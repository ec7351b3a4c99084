"""The page: for analysts and owners, drawn on the server, light and dark, with a script and without.

*   `ask`: the page Ask, with price and errors of a question before it is paid for;
*   `answers`: the answer, its files, Compare;
*   `dashboards`: answers that stay together on a page, refreshed as one plan;
*   `releases`: Releases, and models; `streams`: streams, their releases, and how they are declared and advanced;
*   `budget`: Budget, History, receipts, and requests that wait for the owner;
*   `tables`: Tables, questions that are clicked together, and *What is this?*;
*   `owner`: Data, People, Audit, and the first steps of an owner;
*   `account`: signing in, and one's password, tokens and browsers;
*   `layout`: the layout of every page.

Each page has an address of its own, and looking never spends. Templates lie in ``templates/``, one style sheet and one
script in ``static/``; the script makes things quicker, and nothing needs it.
"""

from __future__ import annotations

from dataclasses import replace

from hush.server.pages import account, answers, ask, budget, dashboards, layout, owner, releases, streams, tables
from hush.server.pages.layout import refused, with_problem_page
from hush.server.routes import Routes

__all__ = ["ROUTES", "refused"]

ROUTES = Routes([*layout.ROUTES, *account.SIGN_IN])
for _module in (ask, answers, dashboards, releases, streams, budget, tables, owner, account):
    ROUTES += [replace(route, handler=with_problem_page(route)) for route in _module.ROUTES]
