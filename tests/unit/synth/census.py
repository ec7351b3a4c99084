"""The sizes of the UCI Adult table, and small random tables."""

from __future__ import annotations

import numpy as np

from hush.synth import CodedTable, Domain

ADULT = {
    "age": 85, "workclass": 9, "fnlwgt": 100, "education-num": 16, "marital-status": 7, "occupation": 15,
    "relationship": 6, "race": 5, "sex": 2, "capital-gain": 100, "capital-loss": 100, "hours-per-week": 99,
    "native-country": 42, "income>50K": 2,
}  # fmt: skip


def random_table(domain: Domain, rows: int, seed: int) -> CodedTable:
    generator = np.random.default_rng(seed)
    return CodedTable.of(domain, {name: generator.integers(0, domain.size(name), rows) for name in domain.names})


def correlated_table(domain: Domain, rows: int, seed: int) -> CodedTable:
    """Rows whose columns all follow one hidden variable."""
    generator = np.random.default_rng(seed)
    hidden = generator.random(rows)
    codes = {}
    for name in domain.names:
        mixed = np.where(generator.random(rows) < 0.7, hidden, generator.random(rows))
        codes[name] = np.minimum((mixed * domain.size(name)).astype(int), domain.size(name) - 1)
    return CodedTable.of(domain, codes)
