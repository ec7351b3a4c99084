"""SQL for DuckDB, made from the question tree of pieces that are quoted and escaped where they are made."""
