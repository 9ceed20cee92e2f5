# Everything a developer types. The first run of any target makes .venv and .cache (tools/setup).
SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)

PYTEST := pytest --quiet --durations=5
SCENARIOS := default preflight
LONG_SCENARIOS := change sparse_2p2d mooncake_layerwise mooncake context_parallel external_ranks xpyd aggregated real_engine

.PHONY: help
help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: demo demo-real demo-down
demo: ## two simulated A3 hosts, deployed by site.yml, answer a completion
	@tools/demo
demo-real: ## the same with two real vLLM engines for the CPU (4 GB of packages), where those can be had
	@tools/demo real
demo-down: ## remove every trace of the demo
	@lab/lab clean

.PHONY: test test-all
test: dev ## everything CI runs
	@tools/test lint unit sanity mutate molecule
test-all: dev ## test, and the long scenarios
	@tools/test lint unit sanity mutate molecule-all

.PHONY: dev lint unit sanity mutate molecule molecule-all
dev: ## tools, collections and the symlink tree, so that ansible-playbook works from here
	@tools/setup --tools
lint: dev ## ansible-lint, yamllint, ruff, mypy, changelog, documentation markup
	@tools/lint
unit: dev ## tests that need no host
	@$(PYTEST) --junitxml=reports/unit.xml
sanity: dev ## ansible-test sanity on the built artefact
	@tools/sanity
mutate: dev ## every planted mistake is caught by the test that is named for it
	@$(PYTEST) --junitxml=reports/mutate.xml tests/mutate
molecule: dev ## deploy the scenarios of SCENARIOS on lab hosts
	@tools/molecule $(SCENARIOS)
molecule-all: dev ## deploy every scenario, on one lab
	@tools/molecule $(SCENARIOS) $(LONG_SCENARIOS)
