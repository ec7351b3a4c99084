"""DuckDB, embedded: the engine for files and frames, with its caches."""
