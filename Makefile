# Two commands do everything on a machine with Python >= 3.11, make and git:
#   make demo    create .venv, install hush, run the tour
#   make test    lint, types, layers, tests, documentation
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
# One more than there are processors: tests wait for services, browsers and databases a quarter of the time.
WORKERS ?= 3

DIST   := $(VENV)-dist
OLDEST := $(VENV)-oldest
SAIL   := $(VENV)-sail
DUCKDB := $(shell sed -n 's/.*"duckdb>=\([0-9.]*\),.*/\1/p' pyproject.toml)

# Modules are compiled once, and not by every process that a test starts; arrays get memory that others gave back, and
# not new pages every time (glibc; elsewhere these say nothing).
unexport PYTHONDONTWRITEBYTECODE
check nightly: export MALLOC_MMAP_THRESHOLD_ = 1073741824
check nightly: export MALLOC_TRIM_THRESHOLD_ = 2147483648

.PHONY: demo demo-spark test lint types layers check timed examples oldest sail docs bench nightly dist clean format

demo: $(VENV)/.core
	$(BIN)/hush demo

# The demo's questions on Spark, which runs in this process; needs Java 17 or newer.
demo-spark: $(VENV)/.spark
	$(BIN)/hush demo --engine 'local[*]'

# What runs in one process runs beside another.
test: $(VENV)/.test
	$(MAKE) --jobs=$(JOBS) types docs lint layers $(OLDEST)/.test
	$(MAKE) check
	$(MAKE) --jobs=$(JOBS) timed examples oldest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

# Without a cache: an old one names modules that have moved.
layers: $(VENV)/.test
	$(BIN)/lint-imports --no-cache

check: $(VENV)/.test
	$(BIN)/pytest -n $(WORKERS) --dist worksteal tests $(addprefix --ignore=,$(TIMED))

# What measures when answers leave runs where not all processors are busy; it mostly waits.
TIMED := $(addprefix tests/statistical/test_,release_secrecy.py service_secrecy.py service_time.py)
timed: $(VENV)/.test
	$(BIN)/pytest -p no:cacheprovider $(TIMED)

examples: $(VENV)/.test
	$(BIN)/pytest -p no:cacheprovider src docs README.md

# Files, casts and bounds of work on the oldest DuckDB that pyproject.toml allows; `check` runs them on the newest.
oldest: $(OLDEST)/.test
	PYTHONPATH=$(OLDEST) $(BIN)/python -c 'import duckdb; assert duckdb.__version__ == "$(DUCKDB)", duckdb.__version__'
	PYTHONPATH=$(OLDEST) $(BIN)/pytest tests/unit/engines/duckdb/test_text_files.py tests/unit/curator/test_data_sets.py \
		tests/conformance/test_text_files.py tests/conformance/test_sources.py tests/conformance/test_more_sources.py \
		tests/conformance/same_as_duckdb/test_statements.py tests/conformance/same_as_duckdb/test_from_clauses.py tests/attacks/test_work.py

# The suite of engines on Sail, a Spark Connect server without a JVM, whose clients are older than PySpark's newest.
sail: $(SAIL)/.test
	$(SAIL)/bin/pytest $(addprefix tests/conformance/engines/test_,same_integers.py functions.py sail.py spark_escapes.py) -k sail

docs: $(VENV)/.test
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

# What takes too long for every change: a thousand processes killed at random moments, thousands of random statements.
nightly: $(VENV)/.test
	HUSH_AUDIT_SECONDS=70 $(BIN)/pytest tests/unit/audit/test_ourselves.py -k all_parts
	HUSH_KILLS=1000 $(BIN)/pytest tests/conformance/ledger -k 'kill or many_ledgers'
	HUSH_EVERY_BYTE=1 $(BIN)/pytest tests/attacks/ledger/test_ledger_flips.py
	HUSH_HOSTILE=1 $(BIN)/pytest tests/attacks/test_mcp.py tests/unit/server/test_pages_owner.py
	HYPOTHESIS_PROFILE=explore HUSH_CASES=5000 $(BIN)/pytest -n $(JOBS) tests/unit tests/theory tests/conformance/test_sensitivity.py tests/conformance/test_over_answers.py tests/conformance/test_whole_way.py tests/conformance/same_as_duckdb/test_wide_numbers.py tests/attacks/test_borders.py
	HUSH_CASES=1 $(BIN)/pytest -n $(JOBS) tests/statistical/test_coverage.py tests/statistical/test_mechanisms_audit.py
	$(BIN)/python benchmarks/mutants.py
	HUSH_CASES=2000 HUSH_SPARK_CASES=200 $(BIN)/pytest tests/conformance/engines
	HUSH_SAIL_CASES=200 $(MAKE) sail
	HUSH_SPARK_SERVER=connect $(BIN)/pytest $(addprefix tests/conformance/engines/test_,same_integers.py functions.py spark.py spark_faults.py spark_escapes.py) -k spark
	HUSH_SPARK_SERVER=cluster $(BIN)/pytest $(addprefix tests/conformance/engines/test_,same_integers.py spark_faults.py spark_escapes.py) -k spark
	HUSH_STATEMENTS=10000 $(BIN)/pytest -n $(JOBS) tests/conformance/same_as_duckdb/test_random_statements.py
	HUSH_EXAMPLES=200 HUSH_QUESTIONS=2000 HUSH_RELEASES=300 $(BIN)/pytest tests/conformance/test_api_document.py tests/statistical/test_service_secrecy.py tests/statistical/test_service_time.py tests/statistical/test_release_secrecy.py

# Measures hush against its peers on this machine, and writes docs/benchmarks.md.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py

# Builds the source distribution, and the wheel from it; the wheel alone then runs the demo, in an environment outside of this folder.
dist: $(DIST)/.build
	rm -rf dist
	$(DIST)/bin/python -m build --outdir dist .
	set -e; empty=$$(mktemp -d); trap 'rm -rf '$$empty EXIT; \
		$(PYTHON) -m venv $$empty; $$empty/bin/python -m pip install --quiet dist/hush-*.whl; cd $$empty; bin/hush demo

format: $(VENV)/.test
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(OLDEST) $(SAIL) $(DIST) dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hush needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.core: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[arrow,charts]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile -e '.[arrow,test]'
	touch $(VENV)/.core $@

$(VENV)/.bench: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	touch $@

$(DIST)/.build:
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet build
	touch $@

# A folder that comes before the environment on the path: all but DuckDB is the same.
$(OLDEST)/.test: $(VENV)/.test
	rm -rf $(OLDEST)
	$(BIN)/python -m pip install --quiet --no-deps --target $(OLDEST) duckdb==$(DUCKDB)
	touch $@

$(VENV)/.spark: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e '.[spark]'
	touch $@

$(SAIL)/.test: pyproject.toml
	$(PYTHON) -m venv $(SAIL)
	$(SAIL)/bin/python -m pip install --quiet --upgrade pip
	$(SAIL)/bin/python -m pip install --quiet -e '.[arrow,postgresql]' pysail 'pyspark-client>=4.0,<4.1' deltalake 'pyiceberg[pyarrow,sql-sqlite]' hypothesis pandas pytest sybil
	touch $@
