# Every target prepares .venv by itself; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# Passed on to the command of demo, test, soak and others: make test ARGS='-k queue -x'
ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.package ## make .venv: what requirements/dev.txt pins, by hash, and schedcache installed editable

$(BIN)/python:
	@python=$$(hack/find-python); echo "$(VENV): $$("$$python" --version)"; "$$python" -m venv $(VENV)

$(VENV)/.requirements: requirements/dev.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --no-input --quiet --require-hashes --only-binary :all: --requirement requirements/dev.txt
	@touch $@

$(VENV)/.package: pyproject.toml $(VENV)/.requirements
	$(BIN)/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: demo
demo: setup ## schedule a mixed workload on a control plane of its own (ARGS=--exit ends it by itself)
	@$(BIN)/schedcache demo $(ARGS)

.PHONY: test
test: setup ## run the tests, against a real kube-apiserver and etcd (ARGS go to pytest)
	@$(BIN)/pytest -m "not long" $(ARGS)

.PHONY: test-long
test-long: setup ## the tests that `make test` leaves out: leader election, faults, a minute of soak (ARGS go to pytest)
	@$(BIN)/pytest -m long $(ARGS)

.PHONY: soak
soak: setup ## half an hour of load and random faults: is memory flat, the cache true, every pod bound (ARGS='--minutes 5 --source kopf')
	@$(BIN)/python -m tests.soak $(ARGS)

# Of make seeds: how many, or one of them (SEED=123), only some of its actions (KEEP=1,5), with a bug planted (BUG=no-uid).
N ?= 2000
SEED ?=
KEEP ?=
BUG ?=

.PHONY: seeds
seeds: setup ## simulate the scheduler with many seeds (N=100000), or show one (SEED=123)
	@$(BIN)/python -m tests.seeds --count $(N) $(if $(SEED),--seed $(SEED)) --keep '$(KEEP)' --bug '$(BUG)' $(ARGS)

.PHONY: lint
lint: setup ## ruff, the layers between packages, yamllint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict .

.PHONY: types
types: setup ## mypy --strict, of the package and of a program that uses its public names
	$(BIN)/mypy --strict schedcache
	$(BIN)/mypy --strict tests/typing

.PHONY: manifests
manifests: setup ## check what is deployed: the chart and deploy/ (schemas, pod security, RBAC), what the pages say
	@$(BIN)/pytest tests/packaging $(ARGS)

.PHONY: check
check: lint types test test-long ## all of lint, types and tests (which has the manifests' checks in it)

.PHONY: format
format: setup ## let ruff format and mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: docs
docs: setup ## write what is generated: docs/api.md, the dump's schema, docs/faults.md's tables, all of the chart's, deploy/
	@$(BIN)/python hack/api_reference.py
	@$(BIN)/python hack/dump_schema.py
	@$(BIN)/python -m tests.faults.page
	@$(BIN)/python hack/chart_docs.py
	@$(BIN)/python hack/dashboard.py
	@$(BIN)/python hack/render_deploy.py

.PHONY: faults
faults: setup ## every fault, with both event sources, against a real control plane (about two hours, as root)
	@$(BIN)/python -m tests.faults $(ARGS)

.PHONY: lock
lock: setup ## pin the newest versions that keep to what the lock files hold (ARGS=--upgrade: all the newest)
	@hack/lock $(ARGS)

.PHONY: image
image: setup ## build the container image (BASE=python:3.11-slim, IMAGE=...)
	@hack/image

.PHONY: kind-up
kind-up: setup ## with Docker and kind: make the cluster of kind-config.yaml (CLUSTER)
	@hack/kind-up

.PHONY: kind-load
kind-load: setup ## build the image and give it to the cluster's nodes (CLUSTER, BASE, IMAGE)
	@hack/kind-load

.PHONY: kind-demo
kind-demo: setup ## install the chart there, and pods that it places; does the two before if need be
	@hack/kind-demo $(ARGS)

.PHONY: kind-test
kind-test: setup ## check the chart and deploy/ in any kind cluster that has the image (CLUSTER, KUBECONFIG)
	@$(BIN)/python hack/kind_test.py $(ARGS)

.PHONY: kind-down
kind-down: setup ## delete the cluster (CLUSTER)
	@hack/kind-down

.PHONY: clean
clean: ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist deploy/build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find schedcache tests hack -name __pycache__ -type d -prune -exec rm -rf {} +
