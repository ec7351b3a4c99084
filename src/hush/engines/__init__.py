"""Engines: they run exact integer aggregates where the data is, and know nothing of noise or budgets."""
