"""hush audits itself: mechanisms, estimators, every kind of question and release, on made-up rows.

Each part is a function of rows with its claim, audited as anybody's would be. Questions go the whole way through
``curator.ask``; the curator of a data set is opened once in the child process, and every run asks anew. Whole releases
and models are costly, and are audited in one run, with a canary in each category.

>>> parts = ourselves()
>>> len(parts) > 40, parts["count"].audit(seconds=1, level="1e-6").violation is None
(True, True)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

import hush
from hush.audit.black_box import Report, audit
from hush.audit.canaries import OneRun, one_run

_CATEGORIES = ["a", "b", "c"]
_DELTA = "0.05"
"""A δ that is large enough for an audit to see."""
_CANARIES = 64


@dataclass(frozen=True, slots=True)
class AuditedPart:
    """Something of hush with its claim."""

    function: Callable[[Any], Any]
    claim: dict[str, Any]

    def audit(self, **options: Any) -> Report | OneRun:
        """Audit it as a black box, or in one run."""
        if "canaries" in self.claim:
            return one_run(self.function, level=options.get("level", "0.05"), **self.claim)
        return audit(self.function, **{**self.claim, **options})


def ourselves() -> dict[str, AuditedPart]:
    """Return everything that hush audits of itself, by name."""
    return {**_mechanisms(), **_estimators(), **_local(), **_questions(), **_releases()}


def _part(function: Callable[[Any], Any], **claim: Any) -> AuditedPart:
    return AuditedPart(function, {"epsilon": 1, "schema": (0, 1), "outside": False, **claim})


def _releasing(mechanism: Any, prepare: Callable[[Any], Any] = np.array, **claim: Any) -> AuditedPart:
    return _part(lambda rows: mechanism.release(prepare(rows)), **claim)


def _mechanisms() -> dict[str, AuditedPart]:
    scores: dict[str, Any] = {"pairs": [([3, 1, 0], [2, 0, 0]), ([0, 0, 0], [1, 1, 1]), ([2, 0, 1], [1, 1, 2])]}
    laplace, gaussian = hush.Laplace(sensitivity=1, epsilon=1), hush.Gaussian(sensitivity=1, epsilon=1, delta=_DELTA)
    smooth, quantile = hush.SmoothNoise(epsilon=1, step="0.25"), hush.Quantile(bounds=(0, 10), epsilon=1, step=1)
    proposed = hush.ProposeTestRelease(epsilon="0.5", delta=_DELTA, eta=1, step=1)
    total, near = proposed.event.total(), int(proposed.threshold)
    keys, few = hush.KeySelection(epsilon=1, delta=_DELTA), [([0] * n, [0] * (n - 1)) for n in (1, 3, 5)]
    return {
        "Laplace": _releasing(laplace, len, law=(laplace, len)),
        "Laplace of a vector": _releasing(hush.Laplace(sensitivity=3, epsilon=1), **scores),
        "Gaussian": _releasing(gaussian, len, epsilon=None, guarantee=hush.compose([gaussian]), law=(gaussian, len)),
        "Exponential": _releasing(hush.Exponential(epsilon=1), **scores),
        "PermuteAndFlip": _releasing(hush.PermuteAndFlip(epsilon=1), **scores),
        "TopK": _releasing(hush.TopK(k=2, epsilon=1), **scores),
        "AboveThreshold": _releasing(hush.AboveThreshold(threshold=2, epsilon=1), **scores),
        "Quantile": _releasing(quantile, schema=(0, 10)),
        "SmoothNoise": _part(lambda rows: smooth.release(*rows), pairs=[([0, 1], [1, 1])]),
        "ProposeTestRelease": _part(
            lambda rows: str(proposed.release(*rows)), epsilon=total.epsilon, delta=total.delta,
            pairs=[([0, near], [1, near + 1])],
        ),
        "KeySelection": _releasing(keys, lambda rows: [len(rows)], delta=_DELTA, pairs=few),
    }  # fmt: skip


def _estimators() -> dict[str, AuditedPart]:
    """Return the estimators: rows are numbers from 0 to 10, or words."""
    bounds, words = {"bounds": (0, 10), "step": 1}, {"categories": _CATEGORIES}
    listed: dict[str, Any] = {
        "count": {}, **dict.fromkeys(("sum", "mean", "median", "min", "max", "variance", "std"), bounds),
        "quantile": {**bounds, "q": "0.9"}, "quantiles": {**bounds, "q": ["0.1", "0.9"]},
        "histogram": words, "mode": words, "top_k": {**words, "k": 2},
    }  # fmt: skip

    def estimated(name: str, options: dict[str, Any]) -> Callable[[Any], Any]:
        return lambda rows: getattr(hush, name)(rows, epsilon=1, **options).value

    return {
        name: _part(estimated(name, options), schema=_CATEGORIES if "categories" in options else (0, 10))
        for name, options in listed.items()
    }


def _local() -> dict[str, AuditedPart]:
    """Return mechanisms of local privacy (neighbours replace the one answer), and a sum of shares of noise."""
    claim: dict[str, Any] = {"neighbours": "replace", "pairs": [(["a"], ["b"]), (["c"], ["a"])]}
    share = hush.distributed.LaplaceShare(sensitivity=1, epsilon=1, parties=4, honest=4)
    kinds: tuple[Any, ...] = (hush.RandomizedResponse, hush.LocalHashing, hush.SubsetSelection)
    parts = {"LaplaceShare": _part(lambda rows: len(rows) + sum(int(share.draw()) for _ in range(4)))}
    for kind in kinds:
        parts[kind.__name__] = _releasing(kind(epsilon=1, categories=_CATEGORIES), lambda rows: rows[0], **claim)
    return parts


# -- the whole way ------------------------------------------------------------------------------------------------

_SQL = {
    "count": "SELECT COUNT(*) AS n FROM visits",
    "public keys": "SELECT c, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY c",
    "average": "SELECT AVG(x) AS a, COUNT(*) AS n FROM visits",
    "quantile": "SELECT MEDIAN(x) AS m FROM visits",
    "quantiles": "SELECT QUANTILE_CONT(x, 0.1) AS low, QUANTILE_CONT(x, 0.9) AS high FROM visits",
    "mode": "SELECT MODE(c) AS m FROM visits",
    "distinct": "SELECT COUNT(DISTINCT who) AS n FROM visits",
    "filter": "SELECT COUNT(*) AS n FROM visits WHERE x > 5",
    "range keys": "SELECT day, COUNT(*) AS n FROM visits GROUP BY day",
    "join": "SELECT COUNT(*) AS n FROM visits JOIN stays ON visits.who = stays.who",
    "window": "SELECT SUM(CLIP(r, 0, 5)) AS s FROM "
    "(SELECT ROW_NUMBER() OVER (PARTITION BY who ORDER BY x) AS r FROM visits) AS w",
    "roll-up": "SELECT c, day, COUNT(*) AS n FROM visits GROUP BY ROLLUP (c, day)",
    "private keys": "SELECT k, COUNT(*) AS n FROM visits GROUP BY k",
}


def _row(who: str, day: int = 0, x: Any = 5, c: Any = "a", k: str = "p") -> dict[str, Any]:
    return {"who": who, "day": day, "x": x, "c": c, "k": k}


def question_pairs() -> list[tuple[list[Any], list[Any]]]:
    """Return neighbours for questions: a unit with one row, with many, in many groups, with strange values."""
    base = [_row(f"u{index}", index % 4, index % 10, _CATEGORIES[index % 3]) for index in range(6)]
    units = [
        [_row("new", 0, 10)],
        [_row("new", 0, 10)] * 30,
        [_row("new", index % 4, 10, _CATEGORIES[index % 3], "pqrs"[index % 4]) for index in range(30)],
        [_row("new", 0, None, None, "q")],
        [_row("new", 0, 10**6, "new", "s")],
    ]
    return [(base + unit, base) for unit in units]


@lru_cache(maxsize=64)
def _curator(rows: str, delta: str) -> Any:
    """Return a curator of rows, given as JSON so that they are a key of the cache."""
    listed = json.loads(rows)
    stays = [{"who": row["who"], "bed": 1} for row in listed]
    kinds = {"visits.day": "integer", "visits.x": "integer", "visits.c": "text", "visits.k": "text", "bed": "integer"}
    return hush.protect(
        {"visits": listed, "stays": stays}, unit="who", types=kinds, max_rows=2, max_groups=2,
        bounds={"day": (0, 3), "x": (0, 10), "bed": (0, 1)}, values={"c": _CATEGORIES},
        budget={"epsilon": "10000000000"} | ({"delta": delta} if delta != "0" else {}),
    )  # fmt: skip


def asked(sql: str, rows: Any, delta: str) -> Any:
    """Ask a question about rows anew, and return the answer as the analyst sees it."""
    answer = _curator(json.dumps(rows), delta).ask(sql, epsilon="1", fresh=True).to_json()
    return {"rows": answer["rows"], "errors": answer["errors"]}


def _questions() -> dict[str, AuditedPart]:
    parts = {}
    for name, sql in _SQL.items():
        delta = _DELTA if name == "private keys" else "0"
        # in this process: each pair has engines of its own, and a limit of memory would end those of the later side
        asking = partial(asked, sql, delta=delta)
        parts[f"ask: {name}"] = _part(asking, delta=delta, pairs=question_pairs(), isolated=False)
    return parts


# -- whole releases, in one run: one canary in each category and on each day ---------------------------------------

_NAMES = [f"k{index:03}" for index in range(_CANARIES)]
_DAYS = [str(day) for day in np.arange("2025-01-01", "2026-01-01", dtype="datetime64[D]")]


def _canaries(coins: list[bool]) -> Any:
    """Return a curator of rows with a canary in its own category for every coin, and one more row."""
    included = [index for index, coin in enumerate(coins) if coin]
    rows = {
        "who": [*included, -1],
        "k": [*(_NAMES[index] for index in included), _NAMES[0]],
        "x": [*(1 for _ in included), 0],
        "day": [*(_DAYS[index] for index in included), _DAYS[-1]],
    }
    return hush.protect(
        rows, unit="who", bounds={"x": (0, 1), "day": (_DAYS[0], _DAYS[-1])}, values={"k": _NAMES},
        types={"day": "date"}, budget={"epsilon": "100", "delta": "1e-6"},
    )  # fmt: skip


def _marginals(coins: list[bool]) -> list[float]:
    table = _canaries(coins).marginals("data", by=["k"], degree=1, epsilon="1")["k"]
    counts = {row[0]: float(row[1]) for row in table.to_json()["rows"]}
    return [counts.get(name, 0.0) for name in _NAMES]


def _synth(coins: list[bool]) -> list[float]:
    table = _canaries(coins).synth("SELECT k, x FROM data", epsilon="1").table
    return [float(table["k"].to_pylist().count(name)) for name in _NAMES]


def _stream(coins: list[bool]) -> list[float]:
    days = _canaries(coins).stream.create(
        "SELECT day, COUNT(*) AS n FROM data GROUP BY day", name="days", horizon="365 days", epsilon="1"
    )
    days.advance(_DAYS[-1])
    counts = dict(zip(map(str, days.table["day"].to_pylist()), days.table["n"].to_pylist(), strict=True))
    return [float(counts[day]) for day in _DAYS[:_CANARIES]]


def _fit(coins: list[bool]) -> list[float]:
    model = _canaries(coins).fit("SELECT k, x FROM data", target="x", model="regression", epsilon="1")
    return [float(value) for value in model.predict({"k": _NAMES})]


def _releases() -> dict[str, AuditedPart]:
    claim = {"epsilon": 1, "delta": "1e-6", "canaries": _CANARIES}
    made = {"marginals": _marginals, "synth": _synth, "stream": _stream, "fit": _fit}
    return {f"curator.{name}": AuditedPart(function, claim) for name, function in made.items()}
