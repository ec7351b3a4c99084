"""The owner's pages in a real browser: from an empty folder to an analyst's first answer, people, audit."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from demo_service import Demo, Started
from looking import DECLARED, OWNERS, faults, watched
from playwright.sync_api import Browser, expect

import hush


@pytest.mark.usefixtures("releases")
def test_owners_pages(demo: Demo, browser: Browser, build: Path) -> None:
    page = demo.page(browser, "olga", viewport={"width": 1280, "height": 900})
    said, findings = watched(page), []
    for title, address in OWNERS.items():
        page.goto(address)
        findings += faults(page, title, build)
    page.context.close()
    assert [*findings, *said] == []


def test_analysts_do_not_reach_owners_pages(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser, "alice")
    for address in ("/data", "/people", "/audit"):
        assert page.goto(address).status == 403
        expect(page.locator("body")).to_contain_text("owner role")
    page.context.close()


@pytest.mark.usefixtures("releases")
def test_a_pure_owner_is_refused_at_no_link_of_ours(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser, "olga")
    links = set()
    for address in (*OWNERS.values(), "/streams", "/what-is-this", "/nowhere"):
        page.goto(address)
        links |= set(page.locator("a[href^='/']").evaluate_all("all => all.map(one => one.getAttribute('href'))"))
    assert {"/budgets", "/audit", "/"} <= links
    for link in links:
        assert page.request.get(link).status == 200, link
    page.context.close()


def test_an_owner_sees_all_budgets_and_an_analyst_does_not(demo: Demo, browser: Browser) -> None:
    page = demo.page(browser, "olga")
    page.goto("/budgets")
    rows = page.locator("tbody tr")
    with hush.open(demo.policy, analyst="alice") as curator:
        shared, own = curator.budget()
    assert rows.nth(0).inner_text().split()[:2] == ["clinic", "everybody"]
    told = {row.locator("th").inner_text(): row.locator("td").nth(1).inner_text() for row in rows.all()}
    assert {"everybody", "alice", "ben"} <= told.keys()
    assert told["everybody"] == str(shared.epsilon)
    assert told["alice"] == str(own.epsilon)
    page.context.close()
    page = demo.page(browser, "alice")
    assert page.goto("/budgets").status == 403
    page.context.close()


def test_somebody_is_let_in_and_removed(demo: Demo, browser: Browser, build: Path) -> None:
    page = demo.page(browser, "olga")
    said = watched(page)
    page.goto("/people")
    form = page.locator("form.panel")
    form.locator("[name=name]").fill("carol")
    form.locator("[name=epsilon]").fill("0.5")
    form.get_by_role("button", name="Let them in").click()
    link = page.locator("#link").inner_text()
    assert faults(page, "people-link", build) == []
    assert "[analysts.carol]" in demo.policy.read_text(encoding="utf-8")
    guest = browser.new_context().new_page()
    guest.goto(link)
    guest.locator("main button").click()
    expect(guest.locator(".budgets")).to_contain_text("carol")
    guest.context.close()
    page.get_by_role("button", name="Remove carol").click()
    expect(page.locator("table")).not_to_contain_text("carol")
    page.context.close()
    assert said == []


def test_an_owner_decides_on_what_waits(demo: Demo, browser: Browser) -> None:
    """An analyst asks for more, the owner sees it by its badge and declines; the analyst sees why."""
    analyst, owner = demo.page(browser, "alice"), demo.page(browser, "olga")
    analyst.goto("/budget")
    analyst.get_by_role("link", name="Ask the owner for more").click()
    analyst.locator("[name=epsilon]").fill("4")
    analyst.get_by_role("button", name="Ask the owner").click()
    expect(analyst.locator("table")).to_contain_text("a budget of ε 4")
    owner.goto("/data")
    expect(owner.locator(".badge")).to_contain_text("waiting")
    owner.get_by_role("link", name="Requests").click()
    panel = owner.locator("section.panel", has_text="→ 4")
    panel.locator("[name=reason]").fill("not this year")
    panel.get_by_role("button", name="Decline").click()
    expect(owner.locator("table")).to_contain_text("declined by olga")
    analyst.reload()
    expect(analyst.locator("table")).to_contain_text("declined by olga: not this year")
    analyst.context.close()
    owner.context.close()


def test_a_stream_is_declared_released_and_read_by_everybody(demo: Demo, browser: Browser, build: Path) -> None:
    """The owner sees the price of the whole plan first; a release has an address that needs no signing in."""
    owner, today = demo.page(browser, "olga"), dt.datetime.now(dt.UTC).date()
    first = (today - dt.timedelta(days=3)).isoformat()
    said = watched(owner)
    owner.goto("/streams")
    form = owner.locator("#declaring")
    form.locator("[name=question]").fill("SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease")
    for name, value in (("name", "by-disease"), ("amount", "0.2"), ("first", first), ("releases", "8")):
        form.locator(f"[name={name}]").fill(value)
    form.locator("[name=every]").fill("day")
    form.locator("[name=price]").select_option("total_epsilon")
    form.locator("[name=readers]").fill("public")
    form.get_by_role("button", name="Explain").click()
    expect(owner.locator(".before")).to_contain_text("8 releases at ε=")
    findings = faults(owner, "declared-explained", build)
    owner.get_by_role("button", name="Declare, and set aside").click()
    expect(owner.get_by_role("button", name="Stop it, and free what is set aside")).to_be_visible()
    guest = demo.page(browser, None)
    address, table = f"/streams/by-disease/{today}", guest.locator("#answer table.answer")
    for _ in range(100):
        if guest.goto(address).status == 200:
            break
        guest.wait_for_timeout(100)
    expect(table).to_contain_text("±")
    expect(guest.locator("svg.wide")).to_be_visible()
    findings += faults(guest, "declared-release", build)
    guest.goto(DECLARED["declared-one"])
    findings += faults(guest, "declared-one", build)
    guest.goto(address)
    shown = table.inner_text()
    guest.goto("/streams/by-disease/latest")
    assert table.inner_text() == shown
    assert guest.request.get(f"{address}.csv").text().startswith("disease,n,n_error")
    owner.reload()
    expect(owner.locator("main figure svg.wide")).to_be_visible()
    findings += faults(owner, "declared", build)
    owner.get_by_role("button", name="Stop it").click()
    expect(owner.locator("main")).to_contain_text("ended")
    for page in (owner, guest):
        page.context.close()
    assert [*findings, *said] == []


def test_from_an_empty_folder_to_the_first_answer_in_ten_clicks(browser: Browser, tmp_path: Path, build: Path) -> None:
    """The owner signs in, chooses a file, says what may be known, saves; the analyst signs in and asks."""
    lines = "".join(f"{number},{20 + number % 50},{'north' if number % 2 else 'south'}\n" for number in range(2000))
    (tmp_path / "members.csv").write_text(f"member,age,region\n{lines}", encoding="utf-8")
    service = Started(tmp_path / "hush.toml")
    clicks, findings = 0, []
    try:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        said = watched(page)
        page.goto(service.link)
        findings += faults(page, "first-welcome", build)
        page.locator("main button").click()
        expect(page.get_by_role("button", name="Read its columns")).to_be_visible()
        findings += faults(page, "first-data", build)
        page.get_by_role("button", name="Read its columns").click()
        expect(page.get_by_role("region", name="First rows of members")).to_contain_text("south")
        page.locator("[name=unit]").select_option("member")
        page.locator("[name=epsilon]").fill("3")
        page.locator("[name=analyst]").fill("ada")
        page.locator("[name='type members.age']").select_option("integer")
        page.locator("[name='lower members.age']").fill("0")
        page.locator("[name='upper members.age']").fill("120")
        page.locator("[name='values members.region']").fill("north, south")
        findings += faults(page, "first-columns", build)
        page.get_by_role("button", name="Review the policy").click()
        expect(page.locator("main")).to_contain_text("Every cell can be read as you say.")
        findings += faults(page, "first-review", build)
        page.get_by_role("button", name="Save, open the ledger").click()
        expect(page.locator("#link")).to_be_visible()
        findings += faults(page, "first-saved", build)
        link = page.locator("#link").inner_text()
        clicks += 4
        page.context.close()
        page = browser.new_context().new_page()
        page.goto(link)
        for click in ("main button", ".examples a", "[data-ask]"):
            page.locator(click).first.click()
            clicks += 1
        expect(page.locator("#answer table")).to_contain_text("north")
        page.context.close()
    finally:
        service.close()
    assert clicks <= 10
    assert [*findings, *said] == []
