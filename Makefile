# Everything runs in .venv; nothing but Python 3.11+ is needed first.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help env env-dev run test check fix bench soak lock

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Flashlane needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv

.venv/.run: requirements.lock pyproject.toml | .venv/bin/python
	@echo "installing what is needed to run into .venv, once (a minute or two) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

.venv/.dev: requirements-dev.lock .venv/.run
	@echo "installing what is needed to develop into .venv, once ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

env: .venv/.run ## Make .venv with what serving needs

env-dev: .venv/.dev

run: env ## Fetch the models, start everything, print the URL, a key and a curl line
	@exec $(BIN)/flashlane up

test: env-dev ## Run the tests (fetches the two local models once)
	$(BIN)/flashlane models pull
	$(BIN)/pytest

check: env-dev ## Lint, formatting, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

fix: env-dev ## Apply what ruff can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: env-dev ## Measure the gateway beside a plain pass-through (needs wrk and nginx)
	$(BIN)/python -m bench.gateway

soak: env-dev ## Send 20,000 requests, with clients that leave and engines that fail, and look for what is left
	$(BIN)/python -m bench.soak --requests 20000

lock: ## Renew the lock files from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes pyproject.toml --extra train --group dev \
		-c requirements.lock -o requirements-dev.lock
