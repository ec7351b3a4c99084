"""The owner's policy file: tables, columns, units, limits and budgets; its first draft; its ledger."""
