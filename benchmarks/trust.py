"""Privacy without a trusted curator: secure sums between processes, shares of noise, shuffling, decoding, and accuracy.

    python benchmarks/trust.py [--parties 100] [--counters 10000] [--dropouts 20] [--runs 1000]

The secure sum is compared with the key streams and key agreements that its masks need, timed in the same run; the
accuracy of the four models of trust with their formulas.
"""

import argparse
import math
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hush import local
from hush.accounting.pairs.shuffle import shuffled_epsilon
from hush.distributed import LaplaceShare, Session, SkellamShare, aggregate, join, listen, new_key, price_of_trust
from hush.distributed import network as lines
from hush.distributed.messages import stream
from hush.mechanisms import Laplace, RandomizedResponse
from hush.noise import laplace_share

PEOPLE = 10_000


def best(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the shortest processor time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def line(what: str, measured: str, asked: str) -> None:
    print(f"{what:<58} {measured:>34}   asked: {asked}", flush=True)


def party(session: Session, name: str, key: bytes, values: Any, address: Any, *, killed: bool) -> None:
    """Take part; a killed party dies when it should send its masked vector, the costliest moment for the others."""
    if killed:
        send = lines._Line.send  # noqa: SLF001 - to die at the right moment

        def send_or_die(self: Any, message: Any, deadline: float) -> None:
            if message.kind == "mask":
                os.kill(os.getpid(), signal.SIGKILL)
            send(self, message, deadline)

        lines._Line.send = send_or_die  # type: ignore[method-assign]  # noqa: SLF001
    join(session, name, key, values, address, seconds=600)


def secure_sum(parties: int, counters: int, dropouts: int) -> None:
    keys, (private, public) = {f"party-{i:04}": new_key() for i in range(parties)}, new_key()
    session = Session(
        name="benchmark", parties={name: key[1] for name, key in keys.items()}, aggregator=public,
        dropouts=dropouts, colluding=(parties - 2 * dropouts - 1) // 2, length=counters, epsilon=1,
    )  # fmt: skip
    values = np.arange(counters)
    server = listen("127.0.0.1", 0)
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(
            target=party, args=(session, name, key[0], values, server.getsockname()), kwargs={"killed": i < dropouts}
        )
        for i, (name, key) in enumerate(keys.items())
    ]
    for process in processes:
        process.start()
    before, own = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    connected: list[float] = []
    total = aggregate(
        session, private, server, seconds=600, progress=lambda _step, _count: connected.append(time.time())
    )
    seconds, own = time.time() - connected[0], time.process_time() - own
    for process in processes:
        process.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    survivors = parties - dropouts
    error = np.abs(total.values - survivors * values).max()
    if len(total.survivors) != survivors or error > 60 * total.deviation:
        raise SystemExit(f"the sum is wrong: {len(total.survivors)} survivors, error {error}")
    what = f"secure sum, {parties} parties × {counters:,} counters, {dropouts} killed"
    line(what, f"{seconds:.2f} s once all are up", "≤ 15 s")
    cores = os.cpu_count() or 1
    line("  processor time: parties, aggregator", f"{children:.2f} s, {own:.2f} s", "")
    line(f"  that is, on {cores} cores with nothing else to do, about", f"{(children + own) / cores:.2f} s", "≤ 15 s")
    streams = best(lambda: [stream(bytes(32), 8 * counters) for _ in range(100)]) / 100
    ours, theirs = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    agreement = best(lambda: [ours.exchange(theirs) for _ in range(100)]) / 100
    # Each party makes a mask towards every other; the aggregator makes those towards the lost ones, and self masks.
    masks = parties * (parties - 1) + dropouts * survivors + survivors
    agreements = masks + parties * (parties - 1)
    limit = masks * streams + agreements * agreement
    line("  key streams and agreements alone", f"{limit:.2f} s, ratio {(children + own) / limit:.1f}", "")


def shares() -> None:
    for name, share in (
        ("Laplace, ε = 1", LaplaceShare(epsilon=1, parties=100, honest=70)),
        ("Laplace, ε = 0.01", LaplaceShare(epsilon="0.01", parties=100, honest=70)),
        ("Skellam, ε = 1", SkellamShare(epsilon=1, delta="1e-6", parties=100, honest=70)),
    ):
        seconds = best(lambda share=share: share.draw(size=10**6), repeats=3)
        line(f"a share of noise, {name}", f"{seconds:.3f} µs a draw", "≤ 2 µs")
    whole = best(lambda: laplace_share(1, 1, size=10**6), repeats=3)
    line("  the whole noise by one party", f"{whole:.3f} µs a draw", "")


def shuffling() -> None:
    for reports in (10**4, 10**5, 10**6):
        bound = shuffled_epsilon(4, reports=reports, delta="1e-6")
        seconds = best(lambda reports=reports: shuffled_epsilon(4, reports=reports, delta="1e-6"))
        shown = f"ε ≤ {bound.upper:.4f} ± {bound.upper - bound.lower:.0e} in {seconds * 1e3:.1f} ms"
        line(f"shuffle bound, {reports:,} reports, ε₀ = 4", shown, {10**6: "≤ .0343, 1e-6, 50 ms"}.get(reports, ""))


def decoding() -> None:
    oracle = local.ProjectiveGeometry(epsilon=2, categories=10**5)
    reports = np.random.default_rng(1).integers(oracle.points, size=10**6)
    seconds = best(lambda: oracle.estimate(reports), repeats=3)
    line("frequencies of 10⁵ categories from 10⁶ reports, ε = 2", f"{seconds:.2f} s", "≤ 5 s")
    optimal = local.SubsetSelection(epsilon=2, categories=10**5)
    ratio = oracle.variance(count=1) / optimal.variance(count=1)
    line("  variance against the optimum", f"ratio {ratio:.4f}", "≤ 1.02")
    vectors = local.vector_mean(epsilon=4, dimensions=100)
    line("vector mean, d = 100, ε = 4: n·MSE", f"{vectors.squared_error(count=1):.1f}", "≤ 44")


def accuracy(runs: int) -> None:
    """Run all models of trust on one count many times, and compare their errors with the formulas."""
    yes = 3_000
    rows = {row.model: row for row in price_of_trust(epsilon=1, people=PEOPLE)}
    answers = [1] * yes + [0] * (PEOPLE - yes)

    def summed(lost: float) -> list[int]:
        share = LaplaceShare(epsilon=1, parties=PEOPLE, honest=PEOPLE - math.floor(PEOPLE * lost))
        return [int(share.draw(size=PEOPLE).sum()) for _ in range(runs)]

    def surveyed(epsilon: Any) -> list[float]:
        mechanism = RandomizedResponse(epsilon=epsilon)
        return [
            float(mechanism.estimate(mechanism.release(answers))[1]) * PEOPLE - yes for _ in range(max(50, runs // 5))
        ]

    curator = Laplace(sensitivity=1, epsilon=1)
    errors = {
        "central": [curator.release(yes) - yes for _ in range(runs)],
        "aggregated, 10% lost": summed(1 / 10),
        "aggregated, 33% lost": summed(1 / 3),
        "shuffled": surveyed(rows["shuffled"].local_epsilon),
        "local": surveyed(1),
    }
    asked = dict(zip(errors, ("1.36", "1.43", "1.66", "≤ 6.5", "≤ 96"), strict=True))
    for model, drawn in errors.items():
        measured, formula = float(np.sqrt(np.mean(np.square(drawn)))), rows[model].deviation
        shown = f"{measured:.2f} measured, {formula:.2f} formula, ratio {measured / formula:.2f}"
        line(f"deviation of a count, {model}, {len(drawn)} runs", shown, asked[model])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--counters", type=int, default=10_000)
    parser.add_argument("--dropouts", type=int, default=20)
    parser.add_argument("--runs", type=int, default=1000)
    chosen = parser.parse_args()
    secure_sum(chosen.parties, chosen.counters, chosen.dropouts)
    shares()
    shuffling()
    decoding()
    accuracy(chosen.runs)


if __name__ == "__main__":
    main()
