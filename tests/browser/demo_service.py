"""A service that runs beside the tests of its page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from hush.cli.demo import write_hospital
from hush.ledger import Role
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger
from hush.server.auth.people import People

QUESTION = """\
SELECT disease, COUNT(*) AS visits, AVG(cost) AS mean_cost
FROM visits
WHERE age BETWEEN 18 AND 65
GROUP BY disease
ORDER BY visits DESC"""
DAYS = "SELECT day, COUNT(*) AS n\nFROM visits\nWHERE day < DATE '2025-05-02'\nGROUP BY day"
"""A question with 121 rows."""
ROWS = "SELECT age, sex, region, disease\nFROM visits"
_BEN = """
[analysts.ben]
data = ["clinic"]
budget = { epsilon = "3", delta = "1e-8" }
ask_first = { epsilon = "0.5" }
"""


class Started:
    """A service in a process of its own."""

    def __init__(self, policy: Path) -> None:
        command = [sys.executable, "-m", "hush", "serve", str(policy), "--port", "0", "--json", "--tick", "0.05"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        printed = ""
        while True:
            printed += self._process.stdout.readline()
            try:
                said = json.loads(printed)
            except ValueError:
                assert self._process.poll() is None, printed
                continue
            self.address, self.link = said["address"], said["link"]
            break

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


class Demo:
    """A service with the demo's hospital, and the people of it."""

    def __init__(self, folder: Path) -> None:
        write_hospital(folder)
        self.policy = folder / "hush.toml"
        with self.policy.open("a", encoding="utf-8") as file:
            file.write(_BEN)
        make_ledger(Policy.read(self.policy), anchor="none").close()
        self.people = People(folder / "hush.people")
        self.people.add("alice", roles=[Role.ANALYST])
        self.people.add("ben", roles=[Role.ANALYST])
        self.people.add("olga", roles=[Role.OWNER])
        self.service = Started(self.policy)
        self.address = self.service.address

    def link(self, name: str) -> str:
        """Return a link that signs somebody in once."""
        return f"{self.address}/welcome/{self.people.make_link(name)}"

    def page(self, browser: Browser, name: str | None = "alice", *, script: bool = True, **options: object) -> Page:
        """Return a page of a browser of its own, in which somebody is signed in."""
        options = {"viewport": {"width": 1280, "height": 900}, "java_script_enabled": script, **options}
        page = browser.new_context(base_url=self.address, **options).new_page()
        if name is not None:
            secret = self.people.begin_session(name)
            page.context.add_cookies([{"name": "hush", "value": secret, "url": self.address, "httpOnly": True}])
        return page

    def close(self) -> None:
        self.service.close()
        self.people.close()
