"""The page: for analysts and owners, drawn on the server, light and dark, with a script and without.

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
