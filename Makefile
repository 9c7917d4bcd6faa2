# Two commands do all the set-up that they need: `make demo` and `make test`.
# A fresh machine needs only Python 3.11 or newer, make and git.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: demo dev test test-all evidence evidence-publish hunt lint types bench bench-quick bench-publish docs docs-serve clean-tree dist release clean
.DEFAULT_GOAL := test

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp for each dependency group of pyproject.toml: `make test` installs no Django. The pip of Python 3.11 knows
# no groups.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group $*
	touch $@

# What a user installs, and no test tool.
$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

# Everything that the other targets need.
dev: $(VENV)/.installed-dev

demo: $(VENV)/.installed-demo
	$(BIN)/rlock demo

# The quick set: at most five minutes on two cores. docs/contributing/tests.md says which tests are in it.
test: $(VENV)/.installed-test
	$(PYTEST) -m 'not slow' $(ARGS)

test-all: $(VENV)/.installed-test-all
	$(PYTEST) $(ARGS)

# The evidence behind docs/guarantees.md: models beside real masters, each part also if another one fails.
# ARGS=--quick for some minutes of it, ARGS="--only soak-3" for one part. build/evidence/ gets output and results;
# evidence-publish puts these into docs/.
evidence: $(VENV)/.installed-test-all
	$(BIN)/python -m evidence $(ARGS)

evidence-publish: $(VENV)/.installed-dev
	$(BIN)/python -m evidence --publish

# Random schedules with new seeds, on all cores. A find is saved in evidence/hunt/found/, and becomes a test.
hunt: $(VENV)/.installed-test
	$(BIN)/python -m evidence.hunt --minutes $(or $(MINUTES),10) $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/zizmor --offline --quiet .github
	@if command -v actionlint; then actionlint .github/workflows/*; \
	elif command -v go >/dev/null; then go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 .github/workflows/*; \
	else echo "skipped: actionlint on .github/workflows: neither it nor Go is on this machine"; fi

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# How fast it is, next to its peers and the limit, into build/bench/; 15 minutes. The quick one takes three, and its
# figures mean nothing. Publish once a release: docs/performance.md and docs/performance/, from build/bench/results.json.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m bench $(ARGS)

bench-quick: $(VENV)/.installed-dev
	$(BIN)/python -m bench --quick $(ARGS)

bench-publish: $(VENV)/.installed-dev
	$(BIN)/python -m bench.report build/bench/results.json

# Fails on any warning. Builds and is read without a network: `python -m http.server -d site`, or open a file.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=true PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --clean

docs-serve: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=true PYTHONPATH=. $(BIN)/python -m mkdocs serve

# Builds, checks and tags the version of pyproject.toml. It uploads nothing: a person pushes the tag, and
# .github/workflows/release.yml publishes.
clean-tree:
	@test -z "$$(git status --porcelain)" || { echo "release: commit or remove these first:"; git status --short; exit 1; }

dist: $(VENV)/.installed-release
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

release: VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
release: clean-tree
	@! grep '\.example/' pyproject.toml || { echo "release: set the addresses in [project.urls]"; exit 1; }
	@! git rev-parse --quiet --verify refs/tags/v$(VERSION) || { echo "release: v$(VERSION) is tagged already"; exit 1; }
	$(MAKE) --no-print-directory dist
	git tag --annotate v$(VERSION) --message "quorum-rlock $(VERSION)"

clean:
	rm -rf $(VENV) site dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache
