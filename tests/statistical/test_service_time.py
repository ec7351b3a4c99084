"""Neighbours are answered at the same moments, whatever is asked and wherever the borders of an engine lie.

Two services run whose data differ in one person. She has the most rows, the longest texts, keys of her own and a stray
quote. Whoever asks knows all other rows, and says in each question how many of them take part, so that hers are the
ones that cross a border: of 2,048 rows, of a join that makes 65,536, of 122,880. *Which* number of rows tells most is
searched for by a program (`worst`): it measures each kind of question on both data sets without slots, at many numbers
of rows, and takes the one where the times differ most. There the running services are compared.

Compared are the seconds of every response beyond the question's own first slot, which is the same in both; and which
slot each outcome left at, by the ledger. The comparisons of a test are Kolmogorov-Smirnov tests, at 1e-6 together: the
probability of a false alarm. A busy machine delays whoever is asked then, and the second of two otherwise than the
first: so the services take turns in being first. That a test sees a difference is shown in `test_service_secrecy`.

`make nightly` takes 123,000 rows and asks 50 questions of each kind (HUSH_QUESTIONS).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest
from neighbouring_services import Asked, served, told_apart

from hush.curator.curator import Curator
from hush.curator.opening import open_policy
from hush.curator.pipeline import prepare
from hush.server.auth.people import People, Role

_QUESTIONS = int(os.environ.get("HUSH_QUESTIONS", "40"))
_EACH = max(2, _QUESTIONS // 40)
"""With one question of each kind the comparison of all kinds together could never reach 1e-6."""
_ENOUGH = 18
"""So many on each side differ at 1e-6 if all of them do."""
_KNOWN = 123_000 if _QUESTIONS > 100 else 2_100
_HERS = 60
_TICK = 0.1
_BORDERS = [6, 2_048 - _HERS, 2_047, 65_535, 65_536 - _HERS, 122_879, 122_880 - _HERS]
_PUBLIC = 1_100
"""Her rows, joined with so many, are more than 65,536."""
_POLICY = """
[data.clinic]
unit = "id"
cache = "0"
budget = {{ epsilon = "1000000", delta = "1e-2" }}
[data.clinic.tables.visits]
source = "visits.csv"
rows = {rows}
max_rows = 3
max_groups = 2
columns.n = {{ type = "integer", lower = 0, upper = 1000000 }}
columns.x = {{ type = "decimal", lower = 0, upper = 100, step = "0.01" }}
columns.g = {{ type = "text", values = ["a", "b", "c"] }}
columns.city = {{ type = "integer", values = [{cities}] }}
columns.word = {{ type = "text" }}
columns.note = {{ type = "text" }}
[data.clinic.tables.days]
source = "days.csv"
public = true
columns.c = "integer"
[analysts.me]
data = ["clinic"]
budget = {{ epsilon = "1000000", delta = "1e-2" }}
"""
_SOME = "(n < {k} OR n = 999999)"
KINDS = {
    "count": f"SELECT COUNT(*) AS v FROM visits WHERE {_SOME}",
    "public keys": f"SELECT g, SUM(x) AS v FROM visits WHERE {_SOME} GROUP BY g",
    "many public keys": f"SELECT city, AVG(x) AS v FROM visits WHERE {_SOME} GROUP BY city",
    "private keys": f"SELECT word, COUNT(*) AS v FROM visits WHERE {_SOME} GROUP BY word",
    "median": f"SELECT MEDIAN(x) AS v FROM visits WHERE {_SOME}",
    "median by key": f"SELECT g, MEDIAN(x) AS v FROM visits WHERE {_SOME} GROUP BY g",
    "per unit": "SELECT AVG(CLIP(m, 0, 5)) AS v FROM (SELECT id, COUNT(*) AS m FROM visits "
    f"WHERE {_SOME} GROUP BY id) q",
    "regular expression": f"SELECT COUNT(*) AS v FROM visits WHERE REGEXP_MATCHES(note, 'a+b+c.*d') AND {_SOME}",
    "like": f"SELECT COUNT(*) AS v FROM visits WHERE note LIKE '%a_b%c%' AND {_SOME}",
    "distinct": f"SELECT COUNT(DISTINCT word) AS v FROM visits WHERE {_SOME}",
    "window": "SELECT COUNT(*) AS v FROM (SELECT id, n, ROW_NUMBER() OVER (PARTITION BY id ORDER BY note) AS o "
    f"FROM visits) q WHERE o < 3 AND {_SOME}",
    "public join": f"SELECT COUNT(*) AS v FROM visits, days WHERE {_SOME}",
    "join of private tables": "SELECT COUNT(*) AS v FROM visits AS a JOIN visits AS b ON a.id = b.id WHERE a."
    + _SOME.format(k="{k}").strip("()").replace("OR n", "OR a.n"),
    "over an answer": f"SELECT SUM(v) AS v FROM (SELECT g, COUNT(*) AS v FROM visits WHERE {_SOME} GROUP BY g) q",
}

_LEVEL = 1e-6 / (len(KINDS) + 2)
"""Of one comparison of a test that compares each kind of question, and all together in two ways."""


def _write(folder: Path, known: int, *, hers: bool) -> Path:
    folder.mkdir()
    with (folder / "visits.csv").open("w") as file:
        file.write("id,n,x,g,city,word,note\n")
        for at in range(known):
            file.write(f"{at},{at},{at % 100}.5,{'abc'[at % 3]},{at % 100},word {at % 997},a note of usual length\n")
        for at in range(_HERS if hers else 0):
            quote = '"' if at == 7 else ""
            file.write(f"-1,999999,{at}.25,a,{at},hers {at},{quote}{'abc' * 600}{at}{quote and 'x'}\n")
    (folder / "days.csv").write_text("c\n" + "\n".join(map(str, range(_PUBLIC))))
    (folder / "hush.toml").write_text(_POLICY.format(rows=known + 100, cities=", ".join(map(str, range(100)))))
    open_policy(folder / "hush.toml", create=True).close()
    people = People(folder / "hush.people")
    people.add("me", roles=[Role.ANALYST])
    people.close()
    return folder / "hush.toml"


class World:
    """One of the data sets: what the library takes for a question, and a service."""

    def __init__(self, policy: Path) -> None:
        self.policy = policy

    def measured(self, curator: Curator, sql: str) -> float:
        """Return how long a question computes, without slots."""
        data_set, plan = curator.plan(sql, epsilon="0.001")
        program = prepare(plan, data_set)
        begun = time.perf_counter()
        program.compute()
        return time.perf_counter() - begun


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    folder = tmp_path_factory.mktemp("worlds")
    return World(_write(folder / "with", _KNOWN, hers=True)), World(_write(folder / "without", _KNOWN, hers=False))


def worst(worlds: tuple[World, World]) -> dict[str, tuple[str, float]]:
    """Return each kind of question where the times of neighbours differ most, and its first slot."""
    found: dict[str, tuple[str, float]] = {}
    sizes = [size for size in _BORDERS if size < _KNOWN]
    with ExitStack() as stack:
        curators = [stack.enter_context(open_policy(world.policy)) for world in worlds]
        for kind, text in KINDS.items():
            apart: dict[int, float] = {}
            for size in sizes:
                times = [
                    median(world.measured(curator, text.format(k=size)) for _ in range(1 if _EACH == 2 else 5))
                    for world, curator in zip(worlds, curators, strict=True)
                ]
                apart[size] = abs(math.log(times[0] / times[1]))
            sql = text.format(k=max(apart, key=lambda size: apart[size]))
            firsts = []
            for curator in curators:
                data_set, plan = curator.plan(sql, epsilon="0.001")
                firsts.append(max(_TICK, prepare(plan, data_set).seconds))
            assert firsts[0] == firsts[1], kind  # whatever rows there are
            found[kind] = (sql, firsts[0])
    return found


def _asked(services: tuple[Asked, Asked], sql: str, *, turn: int) -> list[float]:
    """Ask both services, in turns each of them first, and return their seconds."""
    body = {"question": sql, "epsilon": "0.001", "fresh": True}
    seconds = [0.0, 0.0]
    for which in (turn % 2, 1 - turn % 2):
        told, seconds[which] = services[which].post("/ask", body)
        assert told.status_code == 200, told.text
    return seconds


@pytest.fixture
def services(worlds: tuple[World, World]) -> Iterator[tuple[Asked, Asked]]:
    with served(worlds[0].policy, tick=_TICK) as here, served(worlds[1].policy, tick=_TICK) as there:
        yield here, there


def test_every_kind_of_question_is_answered_at_the_same_moment(
    worlds: tuple[World, World], services: tuple[Asked, Asked]
) -> None:
    beyond: tuple[list[float], list[float]] = ([], [])
    slots: tuple[list[float], list[float]] = ([], [])
    for kind, (sql, first) in worst(worlds).items():
        mine: tuple[list[float], list[float]] = ([], [])
        for turn in range(_EACH):
            seconds = _asked(services, sql, turn=turn)
            for which, service in enumerate(services):
                mine[which].append(seconds[which] - first)
                service.seen.recorded.clear()
                service.read_ledger(1)
                (recorded,) = service.seen.recorded
                assert recorded >= first - 0.01, kind
                slots[which].append(max(0, round(math.log2(recorded / first))))
        assert not told_apart(*mine, level=_LEVEL), kind
        for which in (0, 1):
            beyond[which].extend(mine[which])
    later = 1 + max(beyond[0]) - min(beyond[0])  # than all that the machine delayed
    assert told_apart(beyond[0], [seconds + later for seconds in beyond[0]], level=_LEVEL)
    assert not told_apart(*beyond, level=_LEVEL)
    assert not told_apart(*slots, level=_LEVEL)


def test_a_join_of_seven_people_with_many_public_rows_tells_none_of_them(tmp_path: Path) -> None:
    """Six known rows, and hers: 65,536 rows after the join were a border that doubled the time."""
    sql = KINDS["public join"].format(k=6)
    with (
        served(_write(tmp_path / "with", 20, hers=True), tick=0.05) as here,
        served(_write(tmp_path / "without", 20, hers=False), tick=0.05) as there,
    ):
        seconds = [_asked((here, there), sql, turn=turn) for turn in range(_ENOUGH + 1)][1:]
    assert not told_apart(*zip(*seconds, strict=True))


def test_what_is_free_takes_as_long_for_neighbours(services: tuple[Asked, Asked]) -> None:
    """Explanations and refusals, the first of them too: nobody's request reads the file with the stray quote."""
    bodies = [{"question": text.format(k=7), "epsilon": "0.001"} for text in KINDS.values()]
    bodies += [{"question": "SELECT note FROM visits", "epsilon": "1"}, {"question": "SELECT", "epsilon": "1"}]
    seconds: tuple[list[float], list[float]] = ([], [])
    said: tuple[list[str], list[str]] = ([], [])
    for number, body in enumerate(bodies * max(1, _EACH // 5)):
        order = (0, 1) if number % 2 else (1, 0)  # what the first of two warms up is the second's
        for which in order:
            told, spent = services[which].post("/explain", body)
            seconds[which].append(spent)
            said[which].append(f"{told.status_code} {told.text}")
    assert said[0] == said[1]
    assert not told_apart(*seconds)


def test_releases_leave_at_the_same_moment(services: tuple[Asked, Asked]) -> None:
    bodies = [
        ("/releases/marginals", {"table": "SELECT g, city FROM visits", "epsilon": "1", "fresh": True}),
        ("/releases/synth", {"question": "SELECT g, city FROM visits", "epsilon": "1", "fresh": True}),
    ]
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn, (path, body) in enumerate(bodies * max(1, _EACH // 5)):
        for which in (turn % 2, 1 - turn % 2):
            told, spent = services[which].post(path, body)
            assert told.status_code == 200, told.text
            seconds[which].append(spent)
    assert not told_apart(*seconds)
