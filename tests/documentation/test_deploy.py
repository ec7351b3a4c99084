"""What is installed: the wheel has what it needs and no more, and the files of deploy/ name options that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from typer.main import get_command

from hush.cli import application

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in the wheel."""
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_the_wheel_has_the_package_and_nothing_else(wheel: set[str]) -> None:
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "hush").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel if ".dist-info/" not in name} == sources
    assert {"hush/py.typed", "hush/core/chart.css", "hush/server/pgwire/functions.sql"} <= wheel
    assert {"hush/server/pages/static/hush.js", "hush/server/pages/templates/ask.html"} <= wheel
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


def serve_options() -> set[str]:
    command = get_command(application("serve")).commands["serve"]
    return {option for parameter in command.params for option in parameter.opts}


def entrypoint() -> list[str]:
    return instruction("ENTRYPOINT ")


def instruction(start: str) -> list[str]:
    (line,) = [text for text in (DEPLOY / "Containerfile").read_text("utf-8").splitlines() if text.startswith(start)]
    return list(json.loads(line.removeprefix(start)))


def compose() -> dict[str, dict[str, dict[str, object]]]:
    read: dict[str, dict[str, dict[str, object]]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return read


def unit() -> str:
    return (DEPLOY / "hush.service").read_text("utf-8")


def test_every_option_of_a_start_is_one_of_hush_serve() -> None:
    command = compose()["services"]["hush"]["command"]
    started = next(line for line in unit().splitlines() if line.startswith("ExecStart=")).split()
    named = {word for word in [*entrypoint(), *command, *started] if word.startswith("--")}
    assert len(named) >= 5
    assert named <= serve_options()
    assert entrypoint()[:2] == ["hush", "serve"]
    assert started[1] == "serve"


def test_hush_believes_the_proxy_of_the_compose_file_and_answers_its_own_health_check() -> None:
    services = compose()["services"]
    command = services["hush"]["command"]
    address = services["proxy"]["networks"]["outside"]["ipv4_address"]
    assert command[command.index("--behind-proxy") + 1] == address
    hosts = [command[at + 1] for at, word in enumerate(command) if word == "--host-name"]
    assert hosts == ["${HUSH_HOST:?}", "127.0.0.1"]
    assert "http://127.0.0.1:8000/api/v1/health" in instruction("HEALTHCHECK CMD ")[-1]
    assert "networks" in services["database"]
    assert services["database"]["networks"] == ["inside"]
    assert compose()["networks"]["inside"] == {"internal": True}
    assert "ports" not in services["hush"]
    assert "ports" not in services["database"]


def test_the_proxy_reaches_hush_by_both_ways() -> None:
    caddy = (DEPLOY / "Caddyfile").read_text("utf-8")
    assert set(re.findall(r"{\$(\w+)", caddy)) == set(compose()["services"]["proxy"]["environment"])
    assert "{$HUSH_BACKEND:127.0.0.1:8000}" in caddy
    assert "--behind-proxy 127.0.0.1" in unit()


def test_the_page_says_what_the_files_need() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    variables = set(re.findall(r"\${(\w+):\?}", (DEPLOY / "compose.yaml").read_text("utf-8")))
    assert variables == set(re.findall(r"^(\w+)=", page, re.MULTILINE)) - {"as_hush"}
    extras = re.findall(r"\[(arrow,[\w,]+)\]", page + (DEPLOY / "Containerfile").read_text("utf-8"))
    assert len(extras) == 2
    assert len(set(extras)) == 1
    state = re.search(r"XDG_STATE_HOME=(\S+)", unit())
    assert state is not None
    assert f'XDG_STATE_HOME={state[1]}"' in page


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / "hush.service"
    copy.write_text(unit().replace("/opt/hush/bin/hush", "/bin/true"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
