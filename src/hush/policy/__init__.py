"""The owner's file: tables, columns, units, limits and budgets; a first draft of it; the ledger that belongs to it."""
