"""Private keys are shown with exactly the plan's probabilities, independently, through the whole curator.

Thousands of keys have n units each, for several n, in rows of a mixed order; the engine offers them in parts. How many
of them are shown is binomial with the plan's own p_n, and so is how many pairs are shown together. P-values are exact;
a check fails below `ALPHA` = 10⁻⁷, and no test makes more than ten, so none alarms falsely above 10⁻⁶.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import duckdb
import pytest
from noise_checks import ALPHA
from scipy import stats

from hush.curator.opening import protect
from hush.engines.duckdb import connection as private
from hush.mechanisms.grouped import KeySelection, KeyThreshold

KEYS = 4000
SQL = "SELECT k, COUNT(*) AS n FROM data GROUP BY k"


def probability(how: KeySelection | KeyThreshold, units: int) -> float:
    """Return with which probability a key is shown, from the definitions."""
    if isinstance(how, KeySelection):
        table = how.probabilities
        return float(table[min(units, len(table) - 1)])
    sigma, far = float(how.sigma), math.ceil(40 * float(how.sigma)) + 40
    masses = {z: math.exp(-z * z / (2 * sigma * sigma)) for z in range(-far, far + 1)}
    above = math.fsum(mass for z, mass in masses.items() if units + z >= how.threshold)
    return above / math.fsum(masses.values())


@pytest.mark.parametrize(
    ("groups", "epsilon", "delta", "numbers"),
    [
        (1, "1.5", "0.01", (1, 3, 5, 6, 8)),
        (3, "30", "0.001", (1, 2, 3, 4, 6)),
        (12, "10", "0.001", (3, 6, 8, 10, 12)),
    ],
    ids=["geometric", "geometric, three keys a unit", "threshold"],
)
def test_keys_are_shown_with_the_plans_probabilities(
    groups: int,
    epsilon: str,
    delta: str,
    numbers: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path,
) -> None:
    monkeypatch.setattr(private, "_AT_ONCE", 3000)  # several parts
    path = tmp_path / "rows.parquet"
    units = " UNION ALL ".join(f"SELECT {n}::BIGINT AS n" for n in numbers)
    # key i of kind n has the n units (n, i, 0 …); every unit has this one key
    duckdb.sql(
        f"SELECT n || ':' || i AS k, n * 1000000000 + i * 100 + j AS id FROM ({units}), range({KEYS}) AS a(i), "
        f"range({max(numbers)}) AS b(j) WHERE j < n ORDER BY hash(id, 5)"
    ).write_parquet(str(path))
    with protect(path, unit="id", budget={"epsilon": 10**6, "delta": "0.1"}, max_groups=groups, max_rows=1) as curator:
        _, how = curator.plan(SQL, epsilon=epsilon, delta=delta)
        assert how.selection is not None
        assert how.selection.gaussian == (groups == 12)
        answer = curator.ask(SQL, epsilon=epsilon, delta=delta, fresh=True)
    shown = [tuple(map(int, key.split(":"))) for key in answer.columns[0].values]
    assert len(set(shown)) == len(shown)
    found = Counter(n for n, _ in shown)
    pairs = Counter((n, i // 2) for n, i in shown)
    chances = [probability(how.selection.mechanism, n) for n in numbers]
    assert any(0.02 < chance < 0.98 for chance in chances), chances
    for n, chance in zip(numbers, chances, strict=True):
        assert stats.binomtest(found[n], KEYS, chance).pvalue > ALPHA, (n, found[n], chance)
        both = sum(pairs[n, i] == 2 for i in range(KEYS // 2))
        assert stats.binomtest(both, KEYS // 2, chance**2).pvalue > ALPHA, (n, both, chance)


def test_the_table_is_the_recursion() -> None:
    """p_n = min(e^ε·p_{n-1} + δ, 1 - e^{-ε}·(1 - p_{n-1} - δ), 1), to the last digits of a float, and never above."""
    from flint import arb, ctx

    ctx.prec = 300
    for epsilon, delta in ((Fraction(1, 2), Fraction(1, 10**6)), (Fraction(3), Fraction(1, 100))):
        now = arb(0)
        raised, slip = (
            (arb(epsilon.numerator) / epsilon.denominator).exp(),
            arb(delta.numerator) / delta.denominator,
        )
        for part in KeySelection(epsilon=epsilon, delta=delta).probabilities[1:]:
            now = min(raised * now + slip, 1 - (1 - now - slip) / raised, arb(1), key=lambda ball: float(ball.mid()))
            mine = arb(part.numerator) / part.denominator
            assert mine <= now + arb(2) ** -200
            assert now - mine < arb(2) ** -90
