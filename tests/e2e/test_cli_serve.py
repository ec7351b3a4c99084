"""``hush serve`` and ``hush people`` as an owner runs them: several workers, a killed one, and a proper end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pyarrow as pa
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from served import clinic_with

from hush.cli import run
from hush.client import RemoteError, connect
from hush.ledger import Actor, Ledger, RequestUnansweredError
from hush.policy.file import Policy

COUNT = "SELECT COUNT(*) AS n FROM data"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return clinic_with(tmp_path, pa.table({"age": list(range(90))}), bounds={"age": (0, 100)}, budget="100")


Service = tuple[subprocess.Popen[str], dict[str, str]]


@contextmanager
def serving(policy: Path) -> Iterator[Service]:
    """Start two workers, and yield what they say when they start."""
    command = [sys.executable, "-m", "hush", "serve", str(policy), "--port", "0", "--workers", "2", "--mcp", "--json"]
    process = subprocess.Popen([*command, "--tick", "0.05"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{told['address']}/api/v1/health", timeout=5):  # noqa: S310 - this machine
                    break
            except OSError:
                time.sleep(0.1)
        yield process, told
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def service(policy: Path) -> Iterator[Service]:
    with serving(policy) as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A service for tests that end none of its processes."""
    folder = tmp_path_factory.mktemp("served")
    policy = clinic_with(folder, pa.table({"age": list(range(90))}), bounds={"age": (0, 100)}, budget="100")
    with serving(policy) as (_, told):
        yield policy, told


def answered(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert run([*map(str, arguments), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def workers(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers the way of Linux")
def test_a_killed_worker_loses_nothing_that_was_paid_for(service, policy: Path, capsys) -> None:
    process, told = service
    token = answered(capsys, "people", "token", "me", "--policy", policy)["token"]
    with connect(told["address"], token=str(token)) as curator:

        def ask(number: int) -> str:
            if number == 4:
                os.kill(workers(process)[0], signal.SIGKILL)
            try:
                return curator.ask(COUNT, epsilon=1, request=f"r{number}", fresh=True).receipt
            except (RequestUnansweredError, RemoteError) as error:
                return error.code

        with ThreadPoolExecutor(3) as threads:
            receipts = list(threads.map(ask, range(12)))
        shown = {release.request: release for release in curator.history()}
        for number, receipt in enumerate(receipts):
            release = shown[f"r{number}"]
            if receipt.isdigit():
                assert (str(release.number), release.outcome) == (receipt, "answered")
                assert curator.answer(receipt).receipt == receipt
            else:
                assert release.outcome == "abandoned"
        assert sum(receipt.isdigit() for receipt in receipts) >= 10  # at most what the killed worker had at work
    for _ in range(100):
        if len(workers(process)) == 2:
            break
        time.sleep(0.1)
    assert len(workers(process)) == 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    with Ledger.open(policy.with_name("hush.ledger"), anchor="none") as ledger:
        assert ledger.verify().charges == 12
        spent = ledger.budget(Actor.analyst("me"))[0].spent.epsilon
        assert spent == len(ledger.history(Actor.analyst("me")))


def test_language_models_are_answered_by_any_worker(shared, capsys) -> None:
    policy, told = shared
    token = answered(capsys, "people", "token", "me", "--policy", policy)["token"]

    async def asks() -> list[object]:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
        async with http, Client(streamable_http_client(f"{told['address']}/mcp", http_client=http)) as client:
            results = [await client.call_tool("explain", {"question": COUNT, "epsilon": "1"}) for _ in range(8)]
        return [result.structured_content["price"]["epsilon"] for result in results]

    assert asyncio.run(asks()) == ["1"] * 8


def test_forwarded_headers_are_believed_of_listed_proxies_alone(shared) -> None:
    _, told = shared

    def attempt(number: int) -> int:
        body = urllib.parse.urlencode({"name": f"x{number}", "password": "y"}).encode()
        headers = {"X-Forwarded-For": f"192.0.2.{number}", "X-Real-IP": f"192.0.2.{number}"}
        request = urllib.request.Request(f"{told['address']}/sign-in", body, headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    codes = [attempt(number) for number in range(30)]
    assert codes[:20] == [401] * 20
    assert 429 in codes[20:]  # one address, whatever it says it is


def test_people_and_their_backup(policy: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["people", "add", "alice", "--policy", str(policy)]) == 2
    assert "add [analysts.alice] with its data first" in capsys.readouterr().err
    data = Policy.read(policy).analysts["me"].data[0]
    policy.write_text(f'{policy.read_text()}\n[analysts.alice]\ndata = ["{data}"]\n', encoding="utf-8")
    assert run(["people", "add", "alice", "--policy", str(policy), "--address", "https://hush.example/"]) == 0
    assert capsys.readouterr().out.startswith("https://hush.example/welcome/")
    answered(capsys, "people", "remove", "alice", "--policy", policy)
    made = answered(capsys, "people", "add", "alice", "--policy", policy)
    assert str(made["link"]).startswith("/welcome/")
    answered(capsys, "people", "token", "alice", "--policy", policy, "--days", "1", "--scope", "read")
    answered(capsys, "people", "link", "alice", "--policy", policy)
    listed = answered(capsys, "people", "list", "--policy", policy)["people"]
    assert {"name": "alice", "roles": ["analyst"], "tokens": 1, "sessions": 0} in listed
    assert answered(capsys, "people", "sign-out", "alice", "--policy", policy) == {"sessions": 0, "tokens": 1}
    answered(capsys, "people", "backup", tmp_path / "copy", "--policy", policy)
    answered(capsys, "people", "remove", "alice", "--policy", policy)
    copied = answered(capsys, "people", "list", "--people", tmp_path / "copy")["people"]
    assert len(copied) == len(answered(capsys, "people", "list", "--policy", policy)["people"]) + 1
    assert run(["people", "remove", "nobody", "--policy", str(policy)]) == 2
    restored = answered(capsys, "people", "restore", tmp_path / "copy", "--policy", policy)["people"]
    assert restored == [row["name"] for row in copied]
    given = answered(capsys, "people", "roles", "alice", "--role", "owner", "--role", "analyst", "--policy", policy)
    assert given["roles"] == ["analyst", "owner"]
    assert run(["people", "roles", "alice", "--role", "king", "--policy", str(policy)]) == 2
    acts = answered(capsys, "ledger", "acts", "--policy", policy)["acts"]
    told = [act["text"] for act in acts if act["kind"] == "act"]
    assert told[0].startswith("added")
    assert "removed alice" in told
    assert told[-2:] == [
        "restored the people of the service (people: 2)",
        "changed the roles of alice (roles: analyst, owner)",
    ]
    assert all(act["by"].endswith("machine") for act in acts if act["kind"] == "act")
    capsys.readouterr()
    assert run(["ledger", "verify", "--policy", str(policy)]) == 0
    assert run(["people", "list", "--policy", str(policy)]) == 0
    assert "me" in capsys.readouterr().out


def test_a_second_factor_is_set_up_at_the_machine(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hush.server.auth.credentials import STEP, totp

    def show_code(*_: object, **__: object) -> str:
        secret = capsys.readouterr().err.partition("secret=")[2].partition("&")[0]
        return totp(secret, int(time.time() // STEP))

    monkeypatch.setattr("typer.prompt", show_code)
    made = answered(capsys, "people", "factor", "me", "--policy", policy)
    assert len(str(made["recovery"]).split()) == 8
    assert run(["people", "factor", "me", "--policy", str(policy)]) == 2  # there is one already
    assert answered(capsys, "people", "factor", "me", "--off", "--policy", policy)["recovery"] == ""
    assert run(["people", "factor", "nobody", "--policy", str(policy)]) == 2
    assert answered(capsys, "people", "unbind", "me", "--policy", policy) == {"name": "me", "unbound": False}


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "hush.example", "::"])  # noqa: S104 - refused
def test_beyond_this_machine_only_with_tls(policy: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(policy), "--host", host, "--json"]) == 2
    assert "--behind-proxy" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_the_first_start_prints_a_link_once_there_is_nobody(policy: Path) -> None:
    from hush.server.auth.people import People
    from hush.server.settings import ServiceSettings
    from hush.server.workers import first_link

    settings = ServiceSettings(policy=str(policy), people=str(policy.with_name("other.people")))
    secret = first_link(settings)
    assert secret is not None
    people = People(settings.people)
    assert people.use_link(secret) is not None
    assert first_link(settings) is not None  # nobody can sign in yet
    people.set_password("owner", "correct horse battery")
    assert first_link(settings) is None
    people.close()
