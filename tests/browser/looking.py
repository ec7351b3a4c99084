"""What is looked at on every page: nobody else is asked, nothing is forbidden, all can read it, it scrolls one way."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
DOCUMENTED = {
    ("ask", 1280, "light"),
    ("answer", 1280, "dark"),
    ("ask", 390, "light"),
    ("budget", 1280, "light"),
    ("releases-explained", 1280, "light"),
    ("requests", 1280, "light"),
}
"""What the documentation shows; HUSH_PICTURES=1 makes these pictures anew."""
NARROWEST = 320
OWNERS = {"data": "/data", "people": "/people", "requests": "/requests", "audit": "/audit", "account": "/account"}
DECLARED = {
    "declared": "/streams",
    "declared-one": "/streams/by-disease",
    "declared-release": "/streams/by-disease/x",
}
"""Looked at where a stream is declared."""
NO_PAGES = {"/", "/build", "/sign-in/oidc", "/sign-in/oidc/callback", "/static/{name}"}
"""Addresses that lead on, or give out files."""


def watched(page: Page) -> list[str]:
    """Collect what must not happen: requests to other hosts, violations of the policy, errors of the script."""
    said: list[str] = []

    def requested(request: object) -> None:
        address = urlsplit(request.url)
        if address.scheme in {"http", "https"} and address.hostname != "127.0.0.1":
            said.append(f"request to {address.netloc} from {page.url}")

    page.on("request", requested)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if "status of 4" not in message.text else None)
    return said


def faults(page: Page, title: str, build: Path, *, width: int, scheme: str) -> list[tuple[object, ...]]:
    """Keep a picture of a page, and return what is wrong with it: axe's findings, and sideways scrolling."""
    page.screenshot(path=build / f"page-{title}-{width}-{scheme}.png", full_page=True)
    if os.environ.get("HUSH_PICTURES") and (title, width, scheme) in DOCUMENTED:
        page.screenshot(path=PICTURES / f"page-{title}-{width}-{scheme}.png", full_page=True)
    violations = Axe().run(page).response["violations"]
    found = [(title, violation["id"], violation["nodes"][0]["html"][:200]) for violation in violations]
    return [*found, *sideways(page, title)]


def sideways(page: Page, title: str, width: int | None = None) -> list[tuple[object, ...]]:
    """Return by how much a page scrolls sideways, if it does: as it is, or at another width."""
    if width is not None:
        page.set_viewport_size({"width": width, "height": 700})
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [(title, "scrolls sideways", overflow)] if overflow > 0 else []
