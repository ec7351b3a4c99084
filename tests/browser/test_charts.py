"""Every kind of chart in a real browser, light and dark: as a file, and in a page that forbids style of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from chart_kinds import CHARTS
from playwright.sync_api import Browser, Page, Route

from hush.accounting import GaussianEvent, compare, comparison_chart, compose
from hush.core.chart import style_sheet
from hush.distributed import chart_of_trust, price_of_trust
from hush.report.pictures import kinds, picture

_POLICY = "default-src 'none'; style-src 'self'"
_OUTSIDE = """() => [...document.querySelectorAll("svg.hush-chart")].flatMap(svg => {
  const paper = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text, rect, path, circle")].filter(mark => {
    const box = mark.getBoundingClientRect();
    return box.left < paper.left - 1 || box.right > paper.right + 1
      || box.top < paper.top - 1 || box.bottom > paper.bottom + 1;
  }).map(mark => svg.getAttribute("aria-label").slice(0, 40) + ": " + mark.outerHTML.slice(0, 120));
})"""
_OVERLAPPING = """() => [...document.querySelectorAll("svg.hush-chart")].flatMap(svg => {
  const texts = [...svg.querySelectorAll("text:not([transform])")].map(text => [text, text.getBoundingClientRect()]);
  return texts.flatMap(([text, box], index) => texts.slice(index + 1).filter(([, other]) =>
    Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1 &&
    Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 4
  ).map(([other]) => `${svg.getAttribute("aria-label").slice(0, 40)}: ${text.textContent} / ${other.textContent}`));
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_files_show_every_kind_of_chart(browser: Browser, build: Path, scheme: str) -> None:
    """All marks lie on the paper, no two labels on each other; the pictures are kept."""
    page = browser.new_page(viewport={"width": 1360, "height": 900}, color_scheme=scheme)
    layout = "body{margin:8px;display:grid;grid-template-columns:660px 660px;gap:8px;background:#888}"
    guarantee = compose([GaussianEvent(sigma=1)])
    others = [
        guarantee.chart(guarantee * 4, names=["one", "four"]),
        guarantee.chart(guarantee * 4, names=["one", "four"], kind="trade-off"),
        comparison_chart(compare([GaussianEvent(sigma=1)] * 4, delta="1e-6")),
        chart_of_trust(price_of_trust(epsilon=1, people=10**4)),
    ]
    chosen = [picture(made.columns, kind=kind).svg for made in CHARTS.values() for kind in kinds(made.columns)[1:]]
    drawn = "".join([*(answer.chart().svg for answer in CHARTS.values()), *(chart.svg for chart in others), *chosen])
    page.set_content(f"<!doctype html><meta charset=utf-8><style>{layout}</style>{drawn}")
    page.screenshot(path=build / f"charts-{scheme}.png", full_page=True)
    assert page.evaluate(_OUTSIDE) == []
    assert page.evaluate(_OVERLAPPING) == []
    assert page.locator("script").count() == 0
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_without_inline_style_shows_them_too(browser: Browser, build: Path, scheme: str) -> None:
    """Under a policy that lets no style in but the page's own sheet, on a phone."""
    page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    drawn = "".join(picture(answer.columns, width=370).page() for answer in CHARTS.values())
    _serve(page, f"<!doctype html><html lang=en><link rel=stylesheet href=/a.css><body>{drawn}")
    page.goto("http://hush.test/")
    page.screenshot(path=build / f"charts-phone-{scheme}.png", full_page=True)
    assert said == []
    bar = page.locator("svg.hush-chart rect.c0").first
    assert (
        bar.evaluate("bar => getComputedStyle(bar).fill")
        == {"light": "rgb(123, 163, 212)", "dark": "rgb(74, 126, 191)"}[scheme]
    )
    assert page.evaluate(_OUTSIDE) == []
    page.close()


def _serve(page: Page, html: str) -> None:
    def answer(route: Route) -> None:
        if route.request.url.endswith(".css"):
            route.fulfill(body=f"body{{margin:4px}}{style_sheet()}", content_type="text/css")
        elif route.request.url.endswith("/"):
            headers = {"content-security-policy": _POLICY, "content-type": "text/html; charset=utf-8"}
            route.fulfill(body=html, headers=headers)
        else:
            route.fulfill(status=204)

    page.route("**/*", answer)
