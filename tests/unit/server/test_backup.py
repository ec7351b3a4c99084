"""One file for ledger, people and streams; putting it back is going back, and says so."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from hush.cli import run
from hush.ledger import Actor, Ledger
from hush.policy.file import Policy
from hush.policy.ledger import open_ledger
from hush.server import app
from hush.server.settings import ServiceSettings

STREAM = {"question": "SELECT day, COUNT(*) AS n FROM visits GROUP BY day", "epsilon": "2", "horizon": "60 days"}


def advanced(browser: TestClient, headers: dict[str, str], through: str) -> int:
    told = browser.post("/api/v1/streams/daily/advance", json={"through": through}, headers=headers)
    return told.status_code


def asked(browser: TestClient, headers: dict[str, str], request: str) -> int:
    body = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1", "fresh": True, "request": request}
    return browser.post("/api/v1/ask", json=body, headers=headers).status_code


@pytest.fixture
def moved(settings: ServiceSettings, alice: dict[str, str], clinic: Path, tmp_path: Path) -> Path:
    """A backup with a question and a stream; afterwards more was asked and released, and all was moved away."""
    file = tmp_path / "office.zip"
    with TestClient(app(settings), base_url="http://localhost") as browser:
        assert asked(browser, alice, "first") == 200
        assert browser.post("/api/v1/streams", json={**STREAM, "name": "daily"}, headers=alice).status_code == 201
        assert advanced(browser, alice, "2025-01-10") == 200
        assert run(["ledger", "backup", str(file), "--policy", str(clinic), "--json"]) == 0
        assert asked(browser, alice, "second") == 200
        assert advanced(browser, alice, "2025-01-12") == 200
    away = tmp_path / "away"
    away.mkdir()
    for path in [*clinic.parent.glob("hush.ledger*"), *clinic.parent.glob("hush.people*")]:
        path.rename(away / path.name)
    return file


def restored(clinic: Path, file: Path, lost: str) -> int:
    return run(
        ["ledger", "restore", "--from", str(file), "--reason", "a disk died", "--lost", lost, "--policy", str(clinic)]
    )


def test_a_backup_is_one_moment_and_is_put_back_whole(
    settings: ServiceSettings, alice: dict[str, str], clinic: Path, moved: Path
) -> None:
    assert moved.stat().st_mode & 0o777 == 0o600
    assert restored(clinic, moved, "1.5") == 0
    with open_ledger(Policy.read(clinic)) as ledger:
        made = ledger.history(Actor.owner("olga"))
        assert [release.request for release in made if release.request in {"first", "second"}] == ["first"]
        assert ledger.verify().entries
    with TestClient(app(settings), base_url="http://localhost") as browser:
        assert browser.get("/api/v1/me", headers=alice).json()["name"] == "alice"  # tokens are good again
        (stream,) = browser.get("/api/v1/streams", headers=alice).json()["streams"]
        assert (stream["name"], stream["released"], stream["ended"]) == ("daily", 10, True)
        assert advanced(browser, alice, "2025-01-12") == 409  # a period that may be out is not drawn again
        assert asked(browser, alice, "third") == 200


def test_going_back_needs_the_owners_word(clinic: Path, moved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert restored(clinic, moved, "none") == 2
    assert "its anchor knows of" in capsys.readouterr().err
    assert not list(clinic.parent.glob("hush.ledger*"))
    assert restored(clinic, moved, "all") == 0
    assert restored(clinic, moved, "all") == 2  # nothing is put where anything lies
    assert "move what is there away" in capsys.readouterr().err


def test_a_damaged_backup_puts_nothing_back(clinic: Path, moved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = moved.read_bytes()
    moved.write_bytes(whole[: len(whole) // 2])
    assert restored(clinic, moved, "all") == 2
    moved.write_bytes(whole)
    other = moved.with_name("other.zip")
    with zipfile.ZipFile(moved) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "manifest.json":
                content = json.dumps({**json.loads(content), "entries": 1}).encode()
            target.writestr(name, content[:-1] if name == "ledger.jsonl" else content)
    assert restored(clinic, other, "all") == 2
    assert "a whole file that hush ledger backup wrote" in capsys.readouterr().err
    assert not list(clinic.parent.glob("hush.ledger*"))
    with zipfile.ZipFile(moved) as source, zipfile.ZipFile(moved.with_name("third.zip"), "w") as target:
        manifest = json.loads(source.read("manifest.json"))
        for name in manifest["parts"]:  # as it would be if somebody had edited the ledger in it
            content = source.read(name)
            if name == "ledger.jsonl":
                content = content.replace(b'"first"', b'"fir5t"')
            manifest["parts"][name] = hashlib.sha256(content).hexdigest()
            target.writestr(name, content)
        target.writestr("manifest.json", json.dumps(manifest))
    assert restored(clinic, moved.with_name("third.zip"), "all") == 2
    assert restored(clinic, moved, "all") == 0  # what failed left nothing behind


def test_what_was_paid_for_after_the_ledger_was_read_is_left_out(
    settings: ServiceSettings, alice: dict[str, str], clinic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Ledger.export
    with TestClient(app(settings), base_url="http://localhost") as browser:

        def meanwhile(self: Ledger, *arguments: object, **terms: object) -> int:
            entries = export(self, *arguments, **terms)
            made = browser.post("/api/v1/streams", json={**STREAM, "name": "late"}, headers=alice)
            assert made.status_code == 201
            return entries

        monkeypatch.setattr(Ledger, "export", meanwhile)
        assert run(["ledger", "backup", str(tmp_path / "one.zip"), "--policy", str(clinic)]) == 0
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert not any(name.startswith("streams/") for name in archive.namelist())
