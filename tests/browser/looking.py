"""What is looked at on every page: nobody else is asked, nothing is forbidden, all can read it, all is in its place."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
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
WIDE = 1000
"""From this width on, tables scroll sideways no more: all their columns are in view."""
_MISPLACED = """wide => {
  const said = [];
  const words = element => element.outerHTML.slice(0, 120);
  const shown = element => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && !element.closest(".hidden, .skip, details:not([open])");
  };
  for (const table of document.querySelectorAll("table")) {
    const head = table.tHead && table.tHead.rows[0], body = table.tBodies[0] && table.tBodies[0].rows[0];
    if (!head || !body || !shown(head) || head.cells[0].getBoundingClientRect().width <= 1) continue;
    [...head.cells].forEach((cell, index) => {
      const above = cell.getBoundingClientRect(), below = body.cells[index].getBoundingClientRect();
      const apart = Math.max(Math.abs(above.left - below.left), Math.abs(above.right - below.right));
      if (apart > 1 || above.bottom > below.bottom) said.push(`head beside its column: ${words(cell)}`);
    });
  }
  for (const element of document.querySelectorAll("body *")) {
    if (!shown(element) || element.closest("svg svg, svg *") || element.closest("svg") !== null) continue;
    const style = getComputedStyle(element), beyond = element.scrollWidth - element.clientWidth;
    if (["hidden", "clip"].includes(style.overflowX) && beyond > 1) said.push(`cut text: ${words(element)}`);
    if (element.matches("button, .button") && beyond > 1) said.push(`cut text: ${words(element)}`);
    if (wide && element.matches(".scroll") && beyond > 1) said.push(`columns out of view: ${words(element)}`);
    let holder = element.parentElement;
    while (holder && !holder.matches(".scroll, .panel, .tile, td, th, li, dd, figure, main, header, body, nav"))
      holder = holder.parentElement;
    if (!holder || holder.matches("nav, .scroll") || style.position === "absolute") continue;
    const inner = element.getBoundingClientRect(), outer = holder.getBoundingClientRect();
    const hanging = style.display === "inline" ? 10 : 1;  // a space at the end of a line hangs over
    if (inner.right > outer.right + hanging || inner.left < outer.left - 1) {
      said.push(`beyond its container: ${words(element)}`);
    }
  }
  for (const text of document.querySelectorAll("svg.hush-chart text")) {
    const paper = text.closest("svg").getBoundingClientRect(), box = text.getBoundingClientRect();
    if (box.left < paper.left - 1 || box.right > paper.right + 1) said.push(`cut label: ${text.textContent}`);
  }
  if (document.body.innerText.includes(String.raw`\\x0a`)) said.push("a line break is written as an escape");
  return said;
}"""
OWNERS = {
    "data": "/data",
    "people": "/people",
    "requests": "/requests",
    "audit": "/audit",
    "account": "/account",
    "budgets": "/budgets",
}
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


def faults(page: Page, title: str, build: Path) -> list[tuple[object, ...]]:
    """Look at a page as it stands, narrow and wide, and return what is wrong with it; it goes on at 1280 pixels."""
    page.evaluate(AXE_SCRIPT)
    findings = []
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        findings += _faults(page, title, build, width=width)
    findings += sideways(page, title, NARROWEST)
    page.set_viewport_size({"width": 1280, "height": 900})
    return findings


def _faults(page: Page, title: str, build: Path, *, width: int) -> list[tuple[object, ...]]:
    """Return what is wrong with a page: axe's findings, and what is not in its place; keep pictures if anything is.

    In dark colours only contrast can be wrong beside what is wrong in light ones, so only that is looked at. Wide pages
    show the colours of narrow ones, so contrast is looked at there alone.
    """
    found: list[tuple[object, ...]] = []
    schemes = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
    if width < WIDE:
        schemes = {"light": {"rules": {"color-contrast": {"enabled": False}}}}
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        options = {"resultTypes": ["violations"], **schemes[scheme]}
        violations = page.evaluate("options => axe.run(options).then(results => results.violations)", options)
        found += [(title, scheme, violation["id"], violation["nodes"][0]["html"][:200]) for violation in violations]
        if found or os.environ.get("HUSH_PICTURES"):
            page.screenshot(path=build / f"page-{title}-{width}-{scheme}.png", full_page=True)
            if (title, width, scheme) in DOCUMENTED:
                page.screenshot(path=PICTURES / f"page-{title}-{width}-{scheme}.png", full_page=True)
    page.emulate_media(color_scheme="light")
    third_party = page.locator("script[src]:not([src^='/static/'])").count()
    found += [(title, "script from elsewhere", third_party)] if third_party else []
    found += [(title, words) for words in page.evaluate(_MISPLACED, width >= WIDE)]
    return [*found, *sideways(page, title)]


def sideways(page: Page, title: str, width: int | None = None) -> list[tuple[object, ...]]:
    """Return by how much a page scrolls sideways, if it does: as it is, or at another width."""
    if width is not None:
        page.set_viewport_size({"width": width, "height": 700})
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [(title, "scrolls sideways", overflow)] if overflow > 0 else []
