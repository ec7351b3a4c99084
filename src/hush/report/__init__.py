"""Reports: answers as tables, charts and files. Nothing here knows of engines or ledgers."""
