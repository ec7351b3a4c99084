"""The page: for analysts and owners, drawn on the server, light and dark, with a script and without.

*   `ask`: the page Ask; `preview`: price and errors of a question before it is paid for; `query_builder`: questions
    that are clicked together;
*   `answers`: the answer, its files, Compare;
*   `dashboards`: answers that stay together on a page, refreshed as one plan;
*   `budget`: Budget, History, receipts;
*   `releases`: Releases; `streams`: streams, their releases, and how they are declared and advanced;
*   `requests`: requests that wait for the owner;
*   `tables`: Tables, and *What is this?*;
*   `owner`: Data, People, Audit, and the first steps of an owner; `account`: one's password, tokens and browsers;
*   `sign_in`: the pages before somebody is signed in;
*   `layout`: the layout of every page.

Each page has an address of its own, and looking never spends. Templates lie in ``templates/``, one style sheet and one
script in ``static/``; the script makes things quicker, and nothing needs it.
"""

from __future__ import annotations

from dataclasses import replace

from hush.server.pages import (
    account,
    answers,
    ask,
    budget,
    dashboards,
    layout,
    owner,
    query_builder,
    releases,
    requests,
    sign_in,
    streams,
    tables,
)
from hush.server.pages.layout import refused, with_problem_page
from hush.server.routes import Route

__all__ = ["refused", "table"]


def table() -> list[Route]:
    """Return the routes of all pages."""
    signed_in = (ask, query_builder, answers, dashboards, releases, streams, budget, tables, requests, owner, account)
    routes = [route for module in signed_in for route in module.table()]
    return [
        *layout.table(),
        *sign_in.table(),
        *(replace(route, handler=with_problem_page(route.handler)) for route in routes),
    ]
