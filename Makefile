# `make demo` and `make test` each set up what they need in .venv and work from a clean clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test check format clean

help: ## Show this help
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/demo.stamp ## Set up, then train on the bundled graph and show what it learned
	$(BIN)/glace demo

test: $(VENV)/dev.stamp ## Set up, then run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(VENV)/dev.stamp ## Lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what the other commands made
	rm -rf $(VENV) glace-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "glace needs Python 3.11 or newer, but $(PYTHON) is older; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[plots]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@
