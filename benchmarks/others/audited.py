"""Audit a peer in its own environment, with hush from this source tree; prints a line of JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))


def opendp(scale: float, seconds: float) -> dict[str, object]:
    """OpenDP's discrete Laplace noise as a black box."""
    import opendp.prelude as dp

    from hush.audit import audit

    dp.enable_features("contrib")
    measure = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=scale)
    stores: dict[int, list[int]] = {}

    def release(rows: list[int]) -> int:  # one of many independent releases of the same count, made at once for speed
        store = stores.setdefault(len(rows), [])
        if not store:
            store.extend(measure([len(rows)] * 1000))
        return store.pop()

    begun = time.monotonic()
    report = audit(release, epsilon=1 / scale * (1 + 1e-9), pairs=[([0], [])], seconds=seconds)
    found = report.violation
    return {
        "seconds": time.monotonic() - begun, "runs": report.runs, "violation": found is not None,
        "epsilon": found.epsilon if found else report.epsilon, "detectable": report.detectable,
        "event": found.event if found else "",
    }  # fmt: skip


def diffprivlib() -> dict[str, object]:
    """Diffprivlib's linear regression with bounds (0, 100), by replay."""
    import warnings

    import numpy as np
    from diffprivlib.models import LinearRegression

    from hush.audit.grey_box import replay

    warnings.simplefilter("ignore")

    def fit(rows):
        data = np.array(rows, dtype=float)
        model = LinearRegression(epsilon=1, bounds_X=(0, 100), bounds_y=(0, 100), fit_intercept=False)
        return model.fit(data[:, :1], data[:, 1]).coef_

    base = [[50.0, 50.0], [20.0, 60.0], [70.0, 10.0]]
    report = replay(fit, epsilon=1, pairs=[([*base, [100.0, 100.0]], [*base, [0.0, 100.0]])], neighbours="replace")
    return {"violation": report.violation, "text": str(report)}


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    print(json.dumps(globals()[arguments.pop("what")](**arguments)))
