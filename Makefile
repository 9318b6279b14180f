# `make demo` and `make test` each set up what they need in .venv and work from a clean clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes with a thread each: with two each, they would wait for one another on two cores, twice as long in all.
# Three of them, because some wait for other processes.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-engines test-fast test-readme coverage check docs format clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/demo.stamp ## Set up, then train on the bundled graph and show what it learned
	$(BIN)/glace demo

test: $(VENV)/dev.stamp ## Set up, then run the tests
	$(PYTEST)

test-engines: $(VENV)/engines.stamp ## Set up Spark and Ray (Java from the system), then run the tests that need them
	$(PYTEST) tests/test_spark.py tests/test_ray.py tests/test_recipes.py

test-fast: $(VENV)/dev.stamp ## Run the tests without those marked slow, in under a minute
	$(PYTEST) -m 'not slow'

test-readme: $(VENV)/dev.stamp ## Run the demo, and compare its figures with those of the README
	GLACE_TEST_README=1 $(BIN)/python -m pytest tests/test_readme.py

coverage: $(VENV)/dev.stamp ## Run the tests and fail if they reach less than 95 % of the lines
	$(PYTEST) --cov --cov-report=term:skip-covered

check: $(VENV)/dev.stamp ## Lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/dev.stamp ## Build the API reference into docs/_build, with warnings as errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

format: $(VENV)/dev.stamp ## Format the code and fix what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what the other commands made
	rm -rf $(VENV) glace-demo docs/_build docs/generated .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "glace needs Python 3.11 or newer, but $(PYTHON) is older; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[plots]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@# Compile most kernels once: every process of the tests would compile them by itself, all at the same time.
	$(BIN)/python -c 'import glace; glace.GLACE(max_steps=1).fit(glace.datasets.planted(200))'
	@touch $@

$(VENV)/engines.stamp: $(VENV)/dev.stamp
	$(PIP) -e '.[dev,spark,ray]'
	@touch $@
