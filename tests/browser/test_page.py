"""The page in a real browser: clicks, colours, sizes, keyboard, without script, and nothing from elsewhere."""

from __future__ import annotations

import re
import runpy
import urllib.parse
from pathlib import Path

import pytest
from demo_service import DAYS, QUESTION, ROWS, Demo
from looking import DECLARED, NO_PAGES, OWNERS, faults, watched
from playwright.sync_api import Browser, expect

import hush
from hush.ledger import Role
from hush.server import table

ASK = "/ask?q=" + urllib.parse.quote(QUESTION)
STATIC = Path(hush.__file__).parent / "server" / "pages" / "static"


@pytest.fixture(scope="session")
def receipts(demo: Demo, browser: Browser) -> list[int]:
    """Answers that were asked for on the page: two of one question, and a long one."""
    page = demo.page(browser)
    numbers = []
    for question, epsilon in ((QUESTION, "0.1"), (QUESTION, "0.13"), (DAYS, "0.1")):
        page.goto(f"/ask?q={urllib.parse.quote(question)}&epsilon={epsilon}")
        page.locator("[data-ask]").click()
        link = page.locator("#answer h2 a").first
        link.wait_for()
        numbers.append(int(link.inner_text().split()[-1]))
    page.context.close()
    return numbers


def test_from_the_link_to_the_first_answer_in_three_clicks(demo: Demo, browser: Browser) -> None:
    page = browser.new_context().new_page()
    said = watched(page)
    page.goto(demo.link("alice"))
    clicks = ["main button", ".examples a", "[data-ask]"]
    for click in clicks:
        page.locator(click).first.click()
    expect(page.locator("#answer table")).to_be_visible()
    assert page.locator("#answer td.number .error").count() >= 1
    assert len(clicks) <= 3
    assert said == []
    page.context.close()


PAGES = {
    "ask-empty": "/ask",
    "ask": ASK,
    "ask-refused": "/ask?q=" + urllib.parse.quote("SELECT disease, AVG(cots) AS mean\nFROM visits GROUP BY disease"),
    "answer": "/answers/{0}",
    "answer-long": "/answers/{2}",
    "dashboards": "/dashboards",
    "dashboard": "/dashboards/{dashboard}",
    "dashboard-price": "/dashboards/{dashboard}?refresh=1",
    "dashboard-receipt": "/answers/{refreshed}",
    "budget": "/budget",
    "history": "/history",
    "receipt": "/receipts/{0}",
    "compare": "/compare?a={0}&b={1}",
    "tables": "/tables",
    "about": "/what-is-this",
    "releases": "/releases",
    "releases-explained": f"/releases?kind=marginals&epsilon=0.5&q={urllib.parse.quote(ROWS)}",
    "releases-refused": "/releases?kind=ranges&epsilon=0.5&q=SELECT+cots+FROM+visits",
    "releases-stream": "/releases?kind=stream",
    "release-tables": "/releases/{tables}",
    "release-synthetic": "/releases/{synthetic}",
    "release-ranges": "/releases/{ranges}",
    "release-model": "/releases/{model}",
    "release-curves": "/releases/{curves}?in+age=40&in+sex=female",
    "stream": "/streams/daily",
}
BENS = {"my-requests": "/requests", "ask-waits": f"{ASK}&epsilon=1"}
"""The pages of somebody whose dear questions wait for the owner."""
NOBODYS = {"sign-in": "/sign-in", "welcome": "/welcome/x", "nowhere": "/nowhere"}
EVERYBODY = (("alice", PAGES), ("ben", BENS), (None, NOBODYS))


def test_all_pages(demo: Demo, browser: Browser, build: Path, receipts: list[int], releases: dict[str, str]) -> None:
    """Axe finds nothing, nobody else is asked, nothing is forbidden, scrolls sideways or spends."""
    findings = []
    for name, places in EVERYBODY:
        page = demo.page(browser, name)
        said, left = watched(page), []
        for title, address in {"before": "/budget", **places, "after": "/budget"}.items():
            page.goto(address.format(*receipts, **releases))
            if title in {"before", "after"}:
                left += page.locator(".budgets").all_inner_texts()
            else:
                findings += faults(page, title, build)
        findings += [(name, text) for text in said]
        assert left[:1] == left[1:]  # looking never spends
        page.context.close()
    assert findings == []


def test_every_page_is_looked_at() -> None:
    """No page can be added that is not watched as the others are."""
    looked_at = [*PAGES.values(), *BENS.values(), *NOBODYS.values(), *OWNERS.values(), *DECLARED.values()]
    paths = {urllib.parse.urlsplit(address).path for address in looked_at}
    for place in table():
        if place.page and place.method == "GET" and place.path not in NO_PAGES and "{ending}" not in place.path:
            pattern = re.sub(r"\{\w+\}", "[^/]+", place.path)
            assert any(re.fullmatch(pattern, path) for path in paths), place.path


def test_the_slider_moves_without_a_request_and_agrees_with_explain(demo: Demo, browser: Browser) -> None:
    """Whiskers, odds, shares and numbers are those that explain gives at each price."""
    page = demo.page(browser)
    page.goto(ASK)
    page.wait_for_load_state("networkidle")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    slider = page.locator("#slider")
    seen = {}
    for place in ("3", "11", "20", "24"):
        slider.fill(place)
        drawn = page.locator("#before svg.wide path.whisker").first
        seen[page.locator("#epsilon").input_value()] = (
            float(drawn.get_attribute("data-error")),
            drawn.evaluate("whisker => whisker.getBBox().height"),
            page.locator("#odds").inner_text(),
            int(page.locator("[data-more]").inner_text()),
        )
    assert [url for url in asked if not url.endswith("/static/mark.svg")] == []  # the browser asks for the icon late
    assert len({height for _, height, _, _ in seen.values()}) == 4
    with hush.open(demo.policy, analyst="alice") as curator:
        for epsilon, (error, _, odds, more) in seen.items():
            explained = curator.explain(QUESTION, epsilon=epsilon)
            assert error == pytest.approx(explained.errors()["visits"], rel=0.01)
            most = hush.utility.posterior(epsilon)
            assert f"at most {-int(-100 * most // 1)} in 100" in odds
            assert more >= 1
    page.context.close()


def test_the_error_that_is_needed_moves_the_slider(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser)
    page.goto(ASK)
    page.locator("#wanted").fill("400")
    shown = float(page.locator('[data-error="0"]').inner_text().removeprefix("± ").replace(",", ""))
    assert 250 < shown <= 400
    page.context.close()


def test_typing_explains_and_completes(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser)
    page.goto("/ask")
    field = page.locator("#question")
    field.click()
    page.keyboard.type("SELECT COUNT(*) AS n FROM vis")
    expect(page.locator("#completions li").first).to_contain_text("visits")
    page.keyboard.press("Tab")
    assert field.input_value().endswith("FROM visits")
    expect(page.locator("#before output")).to_contain_text("ε")
    assert "q=SELECT" in page.url
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer table")).to_be_visible()
    page.context.close()


def test_refusals_read_as_on_the_command_line(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser)
    with hush.open(demo.policy, analyst="alice") as curator:
        for question in ("SELECT AVG(cots) AS m FROM visits", "SELECT * FROM visits", "SELECT COUNT(*) FROM vists"):
            page.goto(f"/ask?q={urllib.parse.quote(question)}")
            with pytest.raises(hush.HushError) as refused:
                curator.explain(question, epsilon="0.1")
            assert page.locator(".problem p").inner_text() == str(refused.value)
    page.context.close()


def test_a_price_that_is_too_high_is_refused_with_the_budgets_own_words(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser)
    page.goto("/ask?q=SELECT%20COUNT(*)%20AS%20n%20FROM%20visits&epsilon=50")
    page.locator("[data-ask]").click()
    expect(page.locator(".problem p").first).to_contain_text("takes ")
    page.get_by_role("link", name="Ask the owner for a larger budget").click()
    expect(page.locator("h1")).to_contain_text("My requests")
    page.context.close()


def test_without_script(demo: Demo, browser: Browser, build: Path) -> None:
    """Sign in, explain, ask, history."""
    demo.people.add("bob", roles=[Role.ANALYST])
    page = demo.page(browser, None, script=False)
    page.goto(demo.link("alice"))
    page.locator("main button").click()
    page.locator("#question").fill(QUESTION)
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#odds")).to_contain_text("in 100")
    page.locator("#epsilon").select_option(index=6)
    page.get_by_role("button", name="Explain").click()
    page.screenshot(path=build / "page-without-script.png", full_page=True)
    assert "form_token" not in page.url
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/answers/*")
    expect(page.locator("#answer table")).to_be_visible()
    page.get_by_role("link", name="History").click()
    expect(page.locator("table")).to_contain_text("answered")
    page.context.close()


def test_answers_that_share_keys_are_compared(demo: Demo, browser: Browser, receipts: list[int]) -> None:
    """Also where their keys stand in another order, or their measures have other names; else the page says why not."""
    with hush.connect(demo.address, token=demo.people.make_token("alice")[1]) as curator:
        by_both = curator.ask("SELECT disease, sex, COUNT(*) AS n FROM visits GROUP BY disease, sex", epsilon="0.02")
        turned = curator.ask("SELECT sex, disease, COUNT(*) AS m FROM visits GROUP BY sex, disease", epsilon="0.02")
    page = demo.page(browser)
    page.goto(f"/compare?a={by_both.receipt}&b={turned.receipt}")
    rows = page.locator("table tbody tr")
    assert rows.count() == 10
    asked = zip(*(column.values for column in by_both.columns), strict=True)
    for row, (disease, sex, count) in zip(rows.all(), asked, strict=True):
        assert row.locator("th").inner_text() == f"{disease}, {sex}"
        assert row.locator("td").first.inner_text().startswith(f"{count:,} ±")
    page.goto(f"/compare?a={receipts[0]}&b={receipts[1]}")
    assert [heading.split()[0] for heading in page.locator("h2").all_inner_texts()] == ["visits", "mean_cost"]
    page.goto(f"/compare?a={receipts[0]}&b={by_both.receipt}")
    expect(page.locator("main")).to_contain_text(f"answer {by_both.receipt} by disease and sex")
    page.context.close()


def test_the_proposed_price_does_not_follow_what_is_left(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser, "ben")
    page.goto(ASK)
    proposed = page.locator("#epsilon").input_value()
    with hush.connect(demo.address, token=demo.people.make_token("ben")[1]) as curator:
        for place in range(2):
            curator.ask(f"SELECT COUNT(*) AS n FROM visits WHERE age > {place}", epsilon="0.5")
    page.goto(ASK)
    assert page.locator("#epsilon").input_value() == proposed
    dear = page.locator("#slider").get_attribute("max")
    page.locator("#slider").fill(dear)
    expect(page.locator("#more")).to_contain_text("1 question like it fits at this price")
    page.context.close()


def test_places_fit_one_row_and_on_a_phone_the_active_one_is_in_view(demo: Demo, browser: Browser) -> None:
    demo.people.add("both", roles=[Role.OWNER, Role.ANALYST])
    for name in ("alice", "olga", "both"):
        page = demo.page(browser, name)
        page.goto("/streams")
        tops = page.locator("#head nav a, #head .budget").evaluate_all("all => all.map(one => one.offsetTop)")
        assert len(set(tops)) <= 2, name  # names of places, and of budgets
        assert page.locator("#head").bounding_box()["height"] < 60
        page.set_viewport_size({"width": 390, "height": 800})
        for address in page.locator("#head nav a").evaluate_all("all => all.map(one => one.getAttribute('href'))"):
            assert page.goto(address).status == 200 or name == "both"  # no policy names them
            here = page.locator("#head nav [aria-current]").bounding_box()
            assert here["x"] >= 0, (name, address)
            assert here["x"] + here["width"] <= 390, (name, address)
        page.context.close()


@pytest.mark.parametrize("script", [True, False])
def test_every_measure_and_kind_of_chart_can_be_chosen(
    demo: Demo, browser: Browser, receipts: list[int], script: bool
) -> None:
    page = demo.page(browser, script=script)
    page.goto(f"/answers/{receipts[0]}")
    for measure in ("mean_cost", "visits"):
        for kind, mark in (("dots", "circle"), ("bars", "rect.c0")):
            page.locator("[name=measure]").select_option(measure)
            page.locator("[name=chart]").select_option(kind)
            if not script:
                page.get_by_role("button", name="Draw").click()
            expect(page.locator(f"svg.wide {mark}")).to_have_count(5)
            expect(page.locator("svg.wide")).to_have_attribute("aria-label", re.compile(f"^{measure} by disease"))
    page.context.close()


def test_long_tables_scroll_in_place(demo: Demo, browser: Browser, receipts: list[int]) -> None:
    page = demo.page(browser)
    page.goto(f"/answers/{receipts[2]}")
    assert page.locator("table.answer tbody tr").count() == 121
    assert page.evaluate("document.documentElement.scrollHeight") < 1500
    page.locator(".scroll").evaluate("box => box.scrollTop = 1000")
    box, head = (page.locator(place).first.bounding_box() for place in (".scroll", "table.answer thead th"))
    assert abs(head["y"] - box["y"]) < 2
    page.context.close()


def test_the_page_is_small() -> None:
    from hush.core.chart import style_sheet

    size = len(style_sheet()) + sum(file.stat().st_size for file in STATIC.iterdir() if file.suffix in {".js", ".css"})
    assert size <= 40 * 1024


def test_dummy_data_are_free_and_say_so(demo: Demo, browser: Browser, build: Path) -> None:
    page = demo.page(browser)
    page.goto(ASK)
    before = page.locator(".budgets").inner_text()
    page.get_by_role("button", name="Try on dummy data").click()
    expect(page.locator("#answer h2")).to_contain_text("Made-up answer")
    page.screenshot(path=build / "page-dummy.png", full_page=True)
    assert page.locator(".budgets").inner_text() == before
    page.context.close()


def test_exports_run_and_cost_nothing(
    demo: Demo, browser: Browser, receipts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """The script and the notebook bring the same answer again, for nothing."""
    page = demo.page(browser)
    page.goto("/budget")
    before = page.locator(".budgets").inner_text()
    answer = page.request.get(f"/answers/{receipts[0]}.json").json()
    script = page.request.get(f"/answers/{receipts[0]}.py").text()
    notebook = page.request.get(f"/answers/{receipts[0]}.ipynb").json()
    assert page.request.get(f"/answers/{receipts[0]}.csv").text().startswith("disease,visits,visits_error")
    monkeypatch.setenv("HUSH_TOKEN", demo.people.make_token("alice")[1])
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    programs = {"script.py": script, "notebook.py": "\n".join([*cells, "print(answer)"])}
    for name, text in programs.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        runpy.run_path(str(tmp_path / name))["curator"].close()
        printed = capsys.readouterr().out
        assert all(f"{row[1]:,}" in printed for row in answer["rows"])
        assert f"receipt {receipts[0]}" in printed
    page.goto("/budget")
    assert page.locator(".budgets").inner_text() == before
    page.context.close()


def test_the_same_question_again_is_free_and_can_be_asked_afresh(
    demo: Demo, browser: Browser, receipts: list[int]
) -> None:
    page = demo.page(browser)
    page.goto(f"{ASK}&epsilon=0.1")
    before = page.locator(".budgets").inner_text()
    page.locator("[data-ask]").click()
    expect(page.locator("#answer .good")).to_contain_text("You asked this before")
    assert page.locator(".budgets").inner_text() == before
    page.locator("#answer h2 a").last.click()
    page.goto(f"{page.url}?again=1")
    page.get_by_role("button", name="Ask afresh").click()
    page.wait_for_url("**/answers/*")
    assert int(page.url.rsplit("/", 1)[1]) > max(receipts)
    page.context.close()


def test_without_script_a_question_is_clicked_together_and_a_release_is_made(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser, script=False)
    page.goto("/ask")
    page.locator(".build summary").click()
    form = page.locator(".build form")
    form.locator("[name=measure]").select_option("average")
    form.locator("[name=of]").select_option(label="cost")
    form.locator("[name=by]").select_option(label="region")
    form.get_by_role("button").click()
    expect(page.locator("#question")).to_have_value(
        "SELECT region, AVG(cost) AS mean_cost\nFROM visits\nGROUP BY region"
    )
    page.goto("/releases?kind=ranges")
    page.locator("#releasing [name=epsilon]").fill("0.05")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#releasing .before")).to_contain_text("all ranges of age")
    page.get_by_role("button", name="Release for ε 0.05").click()
    expect(page.locator("h1")).to_contain_text("Release")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text(encoding="utf-8").startswith("age,n,n_error")
    page.context.close()


def test_a_release_is_made_with_script(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser)
    said = watched(page)
    page.goto(f"/releases?kind=synth&epsilon=0.05&q={urllib.parse.quote(ROWS)}")
    page.locator("[data-make]").click()
    page.wait_for_url("**/releases/*")
    expect(page.locator("h1")).to_contain_text("Release")
    assert said == []
    page.context.close()


def test_an_answer_is_pinned_and_its_dashboard_is_refreshed_for_the_price_that_was_shown(
    demo: Demo, browser: Browser, receipts: list[int]
) -> None:
    page = demo.page(browser)
    said = watched(page)
    page.goto(f"/answers/{receipts[0]}")
    if page.locator("[name=dashboard]").count():
        page.locator("[name=dashboard]").select_option(label="a new dashboard")
    page.get_by_role("button", name="Pin").click()
    expect(page.locator("h1")).to_contain_text("Dashboard of clinic")
    tile = page.locator(".tile")
    expect(tile.locator("h2")).to_have_text("visits and mean_cost by disease")
    expect(tile.locator("table")).to_contain_text("±")
    before, pinned = page.locator(".budgets").inner_text(), tile.locator("table").inner_text()
    page.get_by_role("link", name="Refresh …").click()
    assert page.locator(".budgets").inner_text() == before
    page.get_by_role("button", name="Refresh all for ε 0.1").click()
    expect(page.get_by_role("link", name="Refresh …")).to_be_visible()
    assert page.locator(".budgets").inner_text() != before
    assert tile.locator("table").inner_text() != pinned
    assert said == []
    page.context.close()
