# Two commands do all the set-up that they need: `make demo` and `make test`.
# A fresh machine needs only Python 3.11 or newer, make and git.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test evidence lint types bench bench-quick docs docs-serve clean
.DEFAULT_GOAL := test

# One stamp for everything: reinstalled when the list of packages changes.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/rlock demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

evidence: $(VENV)/.installed
	$(BIN)/python -m bench.evidence $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# How fast it is, next to its peers and the limit; under 15 minutes. The quick one takes two and tells little.
bench: $(VENV)/.installed
	$(BIN)/python -m bench $(ARGS)

bench-quick: $(VENV)/.installed
	$(BIN)/python -m bench --quick $(ARGS)

# Fails on any warning. Builds and is read without a network: `python -m http.server -d site`, or open a file.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=true PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --clean

docs-serve: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=true PYTHONPATH=. $(BIN)/python -m mkdocs serve

clean:
	rm -rf $(VENV) site dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache
