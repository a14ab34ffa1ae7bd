# Everything a developer types. Each target makes what it needs, and `.venv` only once.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .venv-bench/.ready
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-emit-index-url --custom-compile-command 'make lock'
DIR ?=
ARGS ?=
# Tests run side by side; most of them wait for a daemon, so a few more than there are cores.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup run test check format bench soak docs lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv from the locked requirements

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "aiosd needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Making .venv; this takes a minute, once." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: $(READY) ## Start a daemon and look for duplicate files in a folder (DIR=...)
	@scripts/run.sh "$(DIR)"

test: $(READY) ## Run the tests (ARGS=... goes to pytest)
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

check: $(READY) ## Check format, lint, types, layers and tidiness
	@failed=0; \
	$(BIN)/ruff format --check --quiet . || { echo "not formatted; run: make format" >&2; failed=1; }; \
	$(BIN)/ruff check --quiet . || failed=1; \
	$(BIN)/lint-imports || failed=1; \
	$(BIN)/python -m pytest -q tests/test_tidy.py || failed=1; \
	$(BIN)/pyright || failed=1; \
	exit $$failed

format: $(READY) ## Format the code and mend what the linter can mend
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

bench: $(READY) $(PEERS) ## Measure, beside what one would use instead (ARGS=--help says what can be chosen)
	@$(BIN)/python -m bench $(ARGS)

$(PEERS): requirements/bench.txt
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt \
		|| echo "the peers could not be installed; they are left out" >&2
	@touch $@

soak: $(READY) ## Run the heavy tests at full size (AIOS_ROUNDS=...)
	@AIOS_ROUNDS=$${AIOS_ROUNDS:-10000} $(BIN)/python -m pytest -q -m soak --timeout 0 $(ARGS)

docs: $(READY) ## Make the generated parts of docs/
	@$(BIN)/python scripts/docs.py

lock: $(READY) ## Choose newest versions again and write requirements/*.txt
	@$(LOCK) --upgrade pyproject.toml --output-file requirements/runtime.txt
	@$(LOCK) --upgrade pyproject.toml --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt
	@$(LOCK) --upgrade --group bench --output-file requirements/bench.txt

clean: ## Remove all that make made
	@rm -rf .venv .venv-bench .aios-run build dist .coverage htmlcov .hypothesis .pytest_cache .ruff_cache .import_linter_cache
	@find src tests scripts docs -name __pycache__ -type d -prune -exec rm -rf {} +
