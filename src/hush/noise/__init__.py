"""Random bits and exact samplers."""
