# Two commands do all the set-up that they need: `make demo` and `make test`.
# A fresh machine needs only Python 3.11 or newer, make and git.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test evidence lint types bench bench-quick bench-publish docs docs-serve clean
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

# The evidence behind docs/guarantees.md, one part after another; about half an hour.
evidence: $(VENV)/.installed
	$(BIN)/python -m tests.model
	$(BIN)/python -m tests.simulation --seeds 3000
	$(BIN)/python -m pytest -q tests/simulation/test_controls.py tests/simulation/test_directed.py
	$(BIN)/python -m pytest -q tests/faults tests/masters
	$(BIN)/python -m bench.soak --masters 3 --ttl 2 --minutes 1.5
	$(BIN)/python -m bench.soak --masters 5 --ttl 10 --minutes 1.5
	$(BIN)/python -m bench.soak --counter --minutes 0.7
	$(BIN)/python -m bench.soak --controls

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# How fast it is, next to its peers and the limit, into build/bench/; 15 minutes. The quick one takes three, and its
# figures mean nothing. Publish once a release: docs/performance.md and its plots, from build/bench/results.json.
bench: $(VENV)/.installed
	$(BIN)/python -m bench $(ARGS)

bench-quick: $(VENV)/.installed
	$(BIN)/python -m bench --quick $(ARGS)

bench-publish: $(VENV)/.installed
	$(BIN)/python -m bench.report build/bench/results.json

# Fails on any warning. Builds and is read without a network: `python -m http.server -d site`, or open a file.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=true PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --clean

docs-serve: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=true PYTHONPATH=. $(BIN)/python -m mkdocs serve

clean:
	rm -rf $(VENV) site dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache
