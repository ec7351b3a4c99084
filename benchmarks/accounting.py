"""How close, how fast: the accountant against dp-accounting (PLD, RDP) and prv-accountant, in one run.

    python benchmarks/accounting.py [golden.json]

Every figure is measured in this run. Truth is the golden value of each case, known to 1e-15 unless it says otherwise. A
peer that is not installed is named and left out. Peers get the settings their documentation recommends: dp-accounting's
PLD its default interval of 1e-4, prv-accountant an error target of 1e-2 in ε and δ/1000 in δ.
Memory is limited to 3 GB, so that a peer that asks for more fails by itself.
"""

from __future__ import annotations

import json
import logging
import math
import resource
import statistics
import sys
import time
import warnings
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.accounting import (
    ApproximateDPEvent,
    Bound,
    DiscreteGaussianEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    compose,
    event_from_json,
)

logging.disable(logging.WARNING)
warnings.filterwarnings("ignore")

try:
    import dp_accounting
    from dp_accounting import pld as google_pld
    from dp_accounting import rdp as google_rdp
except ImportError:
    dp_accounting = None
try:
    import prv_accountant
except ImportError:
    prv_accountant = None

if TYPE_CHECKING:
    from collections.abc import Callable

Case = dict[str, Any]
GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "accounting.json"


def timed(function: Callable[[], Any], repeat: int = 3) -> tuple[Any, float]:
    """Return the result and the best of a few times, in milliseconds; a slow call is made once."""
    best = math.inf
    result = None
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        best = min(best, 1e3 * (time.perf_counter() - start))
        if best > 300:
            break
    return result, best


# -- the peers' own words for the same mechanisms --------------------------------------------------------------------


def google_event(item: Case) -> Any:
    kind, count = item["type"], item["count"]
    if kind == "gaussian":
        event = dp_accounting.GaussianDpEvent(item["sigma"] / item["sensitivity"])
    elif kind == "laplace":
        event = dp_accounting.LaplaceDpEvent(item["scale"] / item["sensitivity"])
    elif kind == "poisson_gaussian":
        event = dp_accounting.PoissonSampledDpEvent(item["q"], dp_accounting.GaussianDpEvent(item["sigma"]))
    elif kind == "zcdp":
        event = dp_accounting.ZCDpEvent(item["rho"])
    else:
        return None
    return dp_accounting.SelfComposedDpEvent(event, count)


def google_law(item: Case) -> Any:
    """dp-accounting's privacy-loss distributions of what its events do not name."""
    law = google_pld.privacy_loss_distribution
    kind = item["type"]
    if kind == "gaussian":
        found = law.from_gaussian_mechanism(item["sigma"], sensitivity=item["sensitivity"])
    elif kind == "laplace":
        found = law.from_laplace_mechanism(item["scale"], sensitivity=item["sensitivity"])
    elif kind == "discrete_gaussian":
        found = law.from_discrete_gaussian_mechanism(item["sigma"], sensitivity=item["sensitivity"])
    elif kind == "discrete_laplace":
        found = law.from_discrete_laplace_mechanism(item["parameter"], sensitivity=item["sensitivity"])
    elif kind == "randomized_response":
        found = law.from_randomized_response(2 / (1 + math.exp(item["epsilon"])), 2)
    elif kind == "approx_dp":
        found = law.from_privacy_parameters(
            google_pld.common.DifferentialPrivacyParameters(item["epsilon"], item["delta"])
        )
    elif kind == "poisson_gaussian":
        found = law.from_gaussian_mechanism(
            item["sigma"],
            sampling_prob=item["q"],
            neighboring_relation=google_pld.privacy_loss_distribution.NeighboringRelation.ADD_OR_REMOVE_ONE
            if hasattr(google_pld.privacy_loss_distribution, "NeighboringRelation")
            else dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        )
    else:
        return None
    return found.self_compose(item["count"]) if item["count"] > 1 else found


def by_google_pld(case: Case) -> float | None:
    total = None
    for item in case["mechanisms"]:
        law = google_law(item)
        if law is None:
            return None
        total = law if total is None else total.compose(law)
    if case["query"] == "epsilon at delta":
        return total.get_epsilon_for_delta(case["at"])
    return total.get_delta_for_epsilon(case["at"])


def by_google_rdp(case: Case) -> float | None:
    accountant = google_rdp.RdpAccountant()
    for item in case["mechanisms"]:
        event = google_event(item)
        if event is None or not accountant.supports(event):
            return None
        accountant.compose(event)
    if case["query"] == "epsilon at delta":
        return accountant.get_epsilon(case["at"])
    return accountant.get_delta(case["at"])


def by_prv(case: Case) -> tuple[float, float] | None:
    if case["query"] != "epsilon at delta" or case["at"] < 1e-10:
        return None  # its mesh would need an error below double precision
    laws, counts = [], []
    for item in case["mechanisms"]:
        kind = item["type"]
        if kind == "gaussian":
            laws.append(prv_accountant.GaussianMechanism(item["sigma"] / item["sensitivity"]))
        elif kind == "laplace":
            laws.append(prv_accountant.LaplaceMechanism(item["scale"] / item["sensitivity"]))
        elif kind == "randomized_response":
            laws.append(prv_accountant.PureDPMechanism(item["epsilon"]))
        elif kind == "approx_dp":
            laws.append(prv_accountant.ApproximateDPMechanism(item["epsilon"], item["delta"]))
        elif kind == "poisson_gaussian":
            laws.append(prv_accountant.PoissonSubsampledGaussianMechanism(item["q"], item["sigma"]))
        else:
            return None
        counts.append(item["count"])
    accountant = prv_accountant.PRVAccountant(
        prvs=laws, max_self_compositions=counts, eps_error=1e-2, delta_error=case["at"] / 1000
    )
    low, _, high = accountant.compute_epsilon(delta=case["at"], num_self_compositions=counts)
    return low, high


def by_hush(case: Case) -> Bound:
    guarantee = compose([event_from_json(item) for item in case["mechanisms"]])
    return guarantee.epsilon(case["at"]) if case["query"] == "epsilon at delta" else guarantee.delta(case["at"])


# -- tables ----------------------------------------------------------------------------------------------------------


def shown(value: float | None, truth: float) -> str:
    if value is None:
        return "—"
    if not math.isfinite(value):
        return str(value)
    return f"{(value - truth) / truth:+.1e}"


def attempt(function: Callable[[Case], Any], case: Case) -> tuple[Any, float | None]:
    try:
        return timed(lambda: function(case))
    except Exception as error:
        return f"{type(error).__name__}", None


def one_case(case: Case, peers: dict[str, Callable[[Case], Any]]) -> Case:
    bound, mine = timed(lambda: by_hush(case))
    truth, slack = case["value"], 1e-13 * case["value"]
    row = {"name": case["name"], "hush": (bound.upper, mine), "notes": []}
    if not (bound.lower <= case["upper"] + slack and bound.upper >= case["lower"] - slack):
        row["notes"].append("hush: VIOLATION")
    for name, function in peers.items():
        found, spent = attempt(function, case)
        if spent is None:
            row["notes"].append(f"{name}: {found}")
            continue
        if found is None:
            continue
        if isinstance(found, tuple):
            high = found[1]
            if high < case["lower"] - slack:
                row["notes"].append(f"{name}: 'upper bound' below the truth ({high:.9g} < {truth:.9g})")
            found = high
        elif found < case["lower"] - slack:
            row["notes"].append(f"{name}: below the truth by {(truth - found) / truth:.1e}")
        if not math.isfinite(found):
            row["notes"].append(f"{name}: gives up ({found})")
        row[name] = (found, spent)
    return row


def accuracy(cases: list[Case]) -> None:
    peers = {}
    if dp_accounting is not None:
        peers |= {"PLD": by_google_pld, "RDP": by_google_rdp}
    else:
        print("dp-accounting is not installed: its columns are left out (pip install dp-accounting)\n")
    if prv_accountant is not None:
        peers["PRV"] = by_prv
    else:
        print("prv-accountant is not installed: its column is left out (pip install prv-accountant)\n")
    columns = ["hush", *peers]
    print("Relative error of the upper bound, and time in ms (best of three)\n")
    print(f"{'case':28s}" + "".join(f"{name:>20s}" for name in columns))
    rows = []
    for case in cases:
        row = one_case(case, peers)
        rows.append(row)
        cells = [
            f"{shown(row[name][0], case['value'])} {row[name][1]:8.2f}" if name in row else "—" for name in columns
        ]
        print(f"{row['name']:28s}" + "".join(f"{cell:>20s}" for cell in cells), flush=True)
        for note in row["notes"]:
            print(f"    ! {note}")
    print()
    floor = 2.0**-53
    errors = [max(abs(row["hush"][0] / case["value"] - 1), floor) for case, row in zip(cases, rows, strict=True)]
    print(f"hush: median error {statistics.median(errors):.1e}, largest {max(errors):.1e}")
    for name in peers:
        both = [(case, row) for case, row in zip(cases, rows, strict=True) if name in row]
        faster = statistics.median(row[name][1] / row["hush"][1] for _, row in both)
        closer = statistics.median(
            max(abs(row[name][0] / case["value"] - 1), floor) / max(abs(row["hush"][0] / case["value"] - 1), floor)
            for case, row in both
        )
        print(f"against {name}, in the median of {len(both)} cases: {faster:.1f}× faster, {closer:.2g}× closer")
    print()


def ten_thousand() -> list[Event]:
    return [
        (
            LaplaceEvent(scale=Fraction(20000 + i, 100)),
            GaussianEvent(sigma=Fraction(30000 + i, 100)),
            RandomizedResponseEvent(epsilon=Fraction(1000 + i, 10**6)),
            ApproximateDPEvent(epsilon=Fraction(1000 + i, 10**6), delta=Fraction(i + 1, 10**16)),
        )[i % 4]
        for i in range(10_000)
    ]


def scale() -> None:
    events = ten_thousand()
    bound, spent = timed(lambda: compose(events).epsilon("1e-6"))
    print(f"10,000 different mechanisms, composed and asked for ε: {spent:.0f} ms")
    print(f"    ε = {bound:.12g}, certified to {bound - bound.lower:.0e}")
    live = compose(events)
    live.epsilon("1e-6")
    times = []
    for i in range(40):
        start = time.perf_counter()
        live += LaplaceEvent(scale=Fraction(1001 + i, 3))
        live.epsilon("1e-6")
        times.append(1e3 * (time.perf_counter() - start))
    print(f"one event added to that live guarantee, and ε asked again: median {statistics.median(times):.1f} ms")
    print("\nk equal mechanisms, ms to compose and ask for ε at δ = 1e-6")
    kinds = {
        "laplace, scale √k": lambda k: LaplaceEvent(scale=max(2, math.isqrt(k))),
        "gaussian, σ √k": lambda k: GaussianEvent(sigma=max(2, math.isqrt(k))),
        "response, ε 1/√k": lambda k: RandomizedResponseEvent(epsilon=Fraction(1, max(2, math.isqrt(k)))),
        "discrete gaussian, σ √k": lambda k: DiscreteGaussianEvent(sigma=max(2, math.isqrt(k))),
        "sampled gaussian": lambda k: PoissonGaussianEvent(rate=Fraction(1, max(2, math.isqrt(k))), sigma=2),
    }
    counts = [10**3, 10**4, 10**5, 10**6, 10**9]
    print(f"{'':26s}" + "".join(f"{f'k={count:.0e}':>12s}" for count in counts))
    for name, make in kinds.items():
        times = [
            timed(lambda make=make, count=count: compose([make(count) * count]).epsilon("1e-6"))[1] for count in counts
        ]
        print(f"{name:26s}" + "".join(f"{spent:12.2f}" for spent in times))
    print()


EXTREMES = [
    ("gaussian σ=1, δ=1e-15", [{"type": "gaussian", "sigma": 1.0, "sensitivity": 1, "count": 1}], 1e-15),
    ("gaussian σ=1, δ=1e-100", [{"type": "gaussian", "sigma": 1.0, "sensitivity": 1, "count": 1}], 1e-100),
    ("gaussian σ=1, δ=1e-300", [{"type": "gaussian", "sigma": 1.0, "sensitivity": 1, "count": 1}], 1e-300),
    ("gaussian σ=1e-3", [{"type": "gaussian", "sigma": 1e-3, "sensitivity": 1, "count": 1}], 1e-6),
    ("gaussian σ=1e6", [{"type": "gaussian", "sigma": 1e6, "sensitivity": 1, "count": 1}], 1e-9),
    ("laplace 1e5, 1e9 times", [{"type": "laplace", "scale": 1e5, "sensitivity": 1, "count": 10**9}], 1e-6),
    ("laplace 1 + gaussian 1e6", [
        {"type": "laplace", "scale": 1.0, "sensitivity": 1, "count": 1},
        {"type": "gaussian", "sigma": 1e6, "sensitivity": 1, "count": 1},
    ], 1e-6),
    ("response 1e-9, 1000 times", [{"type": "randomized_response", "epsilon": 1e-9, "count": 1000}], 1e-10),
    ("response 1e4, 3 times", [{"type": "randomized_response", "epsilon": 1e4, "count": 3}], 1e-10),
]  # fmt: skip


def extremes() -> None:
    print("Extremes: ε, upper bounds side by side\n")
    print(f"{'case':28s}{'hush':>24s}{'± (certified)':>16s}{'PLD':>20s}{'PRV':>20s}")
    for name, mechanisms, delta in EXTREMES:
        case = {"mechanisms": mechanisms, "query": "epsilon at delta", "at": delta}
        bound = by_hush(case)
        cells = []
        for peer, function in ((dp_accounting, by_google_pld), (prv_accountant, by_prv)):
            if peer is None or mechanisms[0]["count"] > 10**6 or (peer is prv_accountant and delta < 1e-12):
                cells.append("—")
                continue
            try:
                found = function(case)
                found = found[1] if isinstance(found, tuple) else found
                cells.append("—" if found is None else f"{found:.10g}")
            except Exception as error:
                cells.append(type(error).__name__)
        print(f"{name:28s}{float(bound):24.15g}{bound.upper - bound.lower:16.0e}{cells[0]:>20s}{cells[1]:>20s}")
    print()


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN
    cases = json.loads(path.read_text(encoding="utf-8"))
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    compose([LaplaceEvent(scale=1)]).epsilon("1e-6")  # load everything before the clock starts
    accuracy(cases)
    scale()
    extremes()


if __name__ == "__main__":
    main()
