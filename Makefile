# `make` without a target says what there is. PYTHON, TORCH, FAULT, RANK, KEEP, WORKERS, HEALTHY, ZIPAPP_FOR, VERSIONS,
# SCENARIOS, NCCL and REHEARSE are taken from the command line.

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PACKAGES := agent cli collector shared
PYTEST_ARGS ?=
# Of all tests most wait, of the quick ones most compute. On a large machine a dozen.
WORKERS ?=
ALL_WORKERS := $(or $(WORKERS),$(shell n=$$(nproc); echo $$((n > 4 ? 12 : 3 * n))))
QUICK_WORKERS := $(or $(WORKERS),$(shell n=$$(nproc); echo $$((n > 6 ? 12 : 2 * n))))
PYTEST = $(BIN)/python -m pytest --no-loadscope-reorder
ALL := not bench and not repeated and not frameworks and not release
# Where the tests are that wait, or that a busy machine would fail, marked `steady`.
STEADY := tests/system/e2e tests/system/frameworks tests/system/live tests/system/pages tests/system/preflight tests/system/slurm \
	tests/unit/agent/sources tests/unit/collector/gather/fanout
# Tests of values, and of one process each; whole services and installations are left to `make test`.
QUICK := tests/architecture tests/unit/shared tests/unit/collector tests/unit/agent tests/system/fuzz \
	$(addprefix --ignore tests/unit/collector/,agents gather/fanout notify show/mcp test_serve.py)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-quick repeat frameworks preflight zoo healthy lab check lint format types bench \
	wheel release openapi zipapp constraints layouts clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## make .venv with everything that the other targets need

$(INSTALLED): pyproject.toml constraints.txt deploy/wheel/launch.py deploy/wheel/build_hook.py deploy/dev/install.sh
	@PYTHON='$(PYTHON)' TORCH='$(TORCH)' VENV='$(VENV)' deploy/dev/install.sh
	@touch $@

demo: $(INSTALLED) ## hang a real 4-rank job and diagnose it; FAULT=..., RANK=..., KEEP=1 leaves it running
	@$(BIN)/python deploy/demo/demo.py $(if $(FAULT),--fault '$(FAULT)') $(if $(RANK),--rank '$(RANK)') $(if $(KEEP),--keep)

test: $(INSTALLED) ## run all tests; PYTEST_ARGS=... chooses, WORKERS=0 runs one after the other
ifdef PYTEST_ARGS
	$(PYTEST) -n $(ALL_WORKERS) -m '$(ALL)' $(PYTEST_ARGS)
else
	@VENV='$(VENV)' WORKERS='$(ALL_WORKERS)' MARKS='$(ALL)' STEADY='$(STEADY)' deploy/dev/test.sh
endif

test-quick: $(INSTALLED) ## run what takes little time, and no real job: for while you edit
	$(PYTEST) -n $(QUICK_WORKERS) -m '$(ALL) and not live and not slow' $(PYTEST_ARGS) $(QUICK)

repeat: $(INSTALLED) ## the same questions again and again about jobs that move, and 400 kills; takes half an hour
	$(BIN)/python -m pytest -m repeated

frameworks: $(INSTALLED) ## jobs as Ray, transformers, DeepSpeed, Ignite and TorchX start them, on nccl, too; installs these into build/frameworks
	$(BIN)/python -m deploy.lab.environment
	$(BIN)/python -m pytest -n 0 -m frameworks

preflight: $(INSTALLED) ## try `unhang preflight` on hosts with thirty faults, as root; takes half an hour
	$(BIN)/python -m pytest -n 0 -m bench tests/system/preflight

zoo: $(INSTALLED) ## every program that hangs, with the probe and without, as a table; takes half an hour
	$(BIN)/python -m tests.system.live.zoo

healthy: $(INSTALLED) ## jobs that are well, each looked at five times, as a table; HEALTHY='--fast backs_off' for fewer; hours
	$(BIN)/python -m tests.system.live.healthy $(HEALTHY)

# Beside PyTorch's wheel the lab needs what unhang needs, and no PyTorch for CPUs: without .venv it makes a smaller one.
LAB_VENV := $(if $(wildcard $(INSTALLED)),$(VENV),build/lab/venv)
build/lab/venv/.installed: pyproject.toml constraints.txt
	@echo 'lab: making build/lab/venv'
	@$(PYTHON) -m venv build/lab/venv
	@build/lab/venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[collector]' jsonschema slack-sdk trustme
	@touch $@

lab: $(LAB_VENV)/.installed ## what hangs on nccl, without a GPU, as a table; VERSIONS='2.9.1 2.14.1', SCENARIOS=..., ALARMS=20, NCCL=FILE; gigabytes
	@$(LAB_VENV)/bin/python -m tests.lab $(addprefix --version ,$(VERSIONS)) $(addprefix --alarms ,$(ALARMS)) \
		$(if $(NCCL),--nccl '$(NCCL)') $(SCENARIOS)

check: lint types test ## what CI runs: style, types, tests, and the wheel as it installs

lint: $(INSTALLED) ## check style and format, and that each test can be imported
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null || $(BIN)/python -m pytest --collect-only -qq

format: $(INSTALLED) ## put the sources into the one format, and mend what can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED) ## check types
	$(BIN)/mypy

bench: $(INSTALLED) ## measure against the budgets
	$(BIN)/python -m tests.bench

wheel: $(INSTALLED) ## build the distribution into dist/
	$(BIN)/python -m build --no-isolation

release: $(INSTALLED) ## run the tests of a release, build wheel, zipapp, bill of materials and sums into dist/, try each; REHEARSE=1 before it is dated
	@$(BIN)/python -m deploy.release.build $(if $(REHEARSE),--rehearse)

openapi: $(INSTALLED) ## write collector/show/openapi.json again, after a change to the API
	$(BIN)/python -m deploy.wheel.openapi

zipapp: ## build dist/unhang.pyz, which needs nothing on a node but Python; ZIPAPP_FOR='3.12-x86_64 3.13' for fewer Pythons
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "needs Python 3.11 or newer: make PYTHON=... zipapp")'
	@$(PYTHON) -m deploy.zipapp.build $(if $(ZIPAPP_FOR),--for '$(ZIPAPP_FOR)')

constraints: $(INSTALLED) ## write constraints.txt again from what is installed in .venv, and the lists with hashes made of it
	deploy/dev/constraints.sh $(BIN)/pip > constraints.new && mv constraints.new constraints.txt
	$(BIN)/python -m deploy.zipapp.lock
	deploy/locked/lock.sh $(BIN)/uv

layouts: $(INSTALLED) ## where PyTorch keeps its recorder, from official wheels; VERSIONS='2.14.1 2.15.0' for fewer; gigabytes
	$(BIN)/python -m deploy.layouts.build $(VERSIONS)
	$(BIN)/python -m tests.lab --records --write $(addprefix --version ,$(VERSIONS))

clean: ## remove what the other targets made, .venv too
	rm -rf $(VENV) build dist bench-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(PACKAGES) tests deploy -type d -name __pycache__ -prune -exec rm -rf {} +
