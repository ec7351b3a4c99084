"""A real browser for tests of pages, charts and notebooks: Debian's Chromium, driven by Playwright.

Where there is none, and this is root with apt, it is installed; elsewhere these tests are skipped, which their summary
says, or fail if HUSH_REQUIRE_BROWSER=1. Pictures of pages with a fault are kept in ``build/``; with HUSH_PICTURES=1 of
all pages.
"""

from __future__ import annotations

import os
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import find_or_install
from demo_service import DAYS, QUESTION, ROWS, Demo
from playwright.sync_api import Browser, sync_playwright

import hush
from hush.client import RemoteCurator
from hush.server.dashboards import DashboardStore

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
]
BUILD = Path(__file__).parents[2] / "build"


def _chromium() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_or_install(_chromium, "chromium")
    if path is None:
        words = "no Chromium here: apt-get install chromium, or set the PATH to one"
        if os.environ.get("HUSH_REQUIRE_BROWSER") == "1":
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=_QUIET)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    started = Demo(tmp_path_factory.mktemp("demo"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def build() -> Path:
    """Where pictures of what was tested are kept."""
    BUILD.mkdir(exist_ok=True)
    return BUILD


def _dashboard(demo: Demo, curator: RemoteCurator) -> str:
    """Return the identity of a dashboard of alice's: refreshed tiles of every kind, and one pinned after that."""
    questions = [QUESTION, "SELECT COUNT(*) AS visits FROM visits", QUESTION, DAYS]
    questions.append("SELECT region, disease, COUNT(*) AS n FROM visits GROUP BY region, disease")
    token = demo.people.make_token("alice")[1]

    def fetch(place: str, **fields: object) -> str:
        form, head = urllib.parse.urlencode(fields).encode() or None, {"authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{demo.address}{place}", form, head)  # noqa: S310 - on loopback
        with urllib.request.urlopen(request) as page:  # noqa: S310
            return page.read().decode()

    fetch("/dashboards", title="The week", data="clinic")
    identity = DashboardStore(demo.people.storage).all()[0].identity
    for place, question in enumerate(questions):
        fetch("/dashboards/pin", dashboard=identity, receipt=curator.ask(question, epsilon="0.02").receipt)
        if place == 3:
            offered = re.search(r'name="priced" value="(\w+)"', fetch(f"/dashboards/{identity}?refresh=1"))[1]
            fetch(f"/dashboards/{identity}/refresh", request="the first", priced=offered)
    return identity


@pytest.fixture(scope="session")
def releases(demo: Demo) -> dict[str, str]:
    """A whole release of each kind, a stream, two requests that wait and one that was declined."""
    with hush.connect(demo.address, token=demo.people.make_token("alice")[1]) as curator:
        made = {
            "tables": curator.marginals("visits", ["sex", "region", "disease"], epsilon="0.1").receipt,
            "synthetic": curator.synth(ROWS, epsilon="0.1").receipt,
            "ranges": curator.ranges("SELECT age FROM visits", epsilon="0.1").receipt,
            "model": curator.fit(
                "SELECT age, sex, cost FROM visits", target="cost", model="linear", epsilon="0.1"
            ).receipt,
            "curves": curator.fit(
                "SELECT age, sex, disease FROM visits", target="disease", model="classification", epsilon="0.1"
            ).receipt,
        }
        stream = curator.stream.create(
            "SELECT day, COUNT(*) AS n FROM visits GROUP BY day", name="daily", horizon="1 year", epsilon="0.2"
        )
        stream.advance("2025-02-15")
        made["dashboard"] = _dashboard(demo, curator)
        made["refreshed"] = str(DashboardStore(demo.people.storage).all()[0].paid["alice"])
    with hush.connect(demo.address, token=demo.people.make_token("ben")[1]) as curator:
        with pytest.raises(hush.HushError, match="approval"):
            curator.ask(QUESTION, epsilon="1", reason="for the yearly report")
        refused = curator.request(epsilon="6", reason="the budget ends\nbefore the year does")
        with hush.connect(demo.address, token=demo.people.make_token("olga", scopes=["read", "own"])[1]) as owner:
            owner.decide(refused.number, approve=False, reason="ask for less:\nhalf of it")
        curator.request(epsilon="5", reason="the budget ends before the year does")
    return made
