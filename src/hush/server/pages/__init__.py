"""The page: for analysts and owners, drawn on the server, light and dark, with a script and without.

Each page has an address of its own, and looking never spends. Templates lie in ``templates/``, one style sheet and one
script in ``static/``; the script makes things quicker, and nothing needs it.
"""

from __future__ import annotations

from hush.server.pages import account, answers, ask, budget, dashboards, layout, owner, releases, streams, tables
from hush.server.routes import Routes

_PAGES = (layout, ask, answers, dashboards, releases, streams, budget, tables, owner, account)
ROUTES = Routes(route for module in _PAGES for route in module.ROUTES)
