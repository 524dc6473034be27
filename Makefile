# Every verb of the project. `make help` lists them; CI calls `make test` and nothing else.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Both files are exported from uv.lock by `make lock`; tests/tidy checks that they agree with it.
REQUIREMENTS := requirements/dev.txt
CODE := src tests conformance bench

# How long the crash tests go on: short inside `make test`, long in `make crash`.
CRASH_SHORT := --crash-cycles 20 --crash-states 500
CRASH_LONG := --crash-cycles 200 --crash-states 5000

# How many seeds the simulated world runs through, and how long hypothesis searches.
SIM_SHORT := --world-seeds 150
SIM_LONG := --world-seeds 5000 --hypothesis-profile=long

TEST_STEPS := lint types layers unit property tidy integration sim-short crash-short conformance interop

.PHONY: help
help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP) ## build .venv with everything that running and testing need
	@:

$(STAMP): $(REQUIREMENTS) pyproject.toml
	@test -n "$(PYTHON)" || { echo "python3.11 or newer is needed" >&2; exit 1; }
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than Python 3.11; set PYTHON=..." >&2; exit 1; }
	if ! [ -x $(BIN)/python ]; then
	  echo "building $(VENV) with $(PYTHON)" >&2
	  # Some systems ship Python without ensurepip: then pip of the system installs into the environment.
	  "$(PYTHON)" -m venv $(VENV) 2>/dev/null || "$(PYTHON)" -m venv --clear --without-pip $(VENV)
	fi
	pip() {
	  if [ -x $(BIN)/pip ]; then $(BIN)/python -m pip "$$@"
	  else "$(PYTHON)" -m pip --python $(BIN)/python "$$@"; fi
	}
	pip install --quiet --disable-pip-version-check --require-hashes -r $(REQUIREMENTS)
	pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: run
run: setup ## start the server on 127.0.0.1:4437 with data in ./data (ARGS="--port 8080 ...")
	@exec $(BIN)/millstream serve $(ARGS)

.PHONY: test
test: setup ## everything: lint, types, layers and all tests (20 kill cycles)
	@report=""
	started=$$SECONDS
	for step in $(TEST_STEPS); do
	  echo "== $$step"
	  began=$$SECONDS
	  if ! $(MAKE) $$step; then
	    echo "$$report== $$step FAILED after $$((SECONDS - began)) s" >&2
	    exit 1
	  fi
	  report+="$$(printf '   %-14s %4d s' $$step $$((SECONDS - began)))"$$'\n'
	done
	echo "== all passed in $$((SECONDS - started)) s"
	printf '%s' "$$report"

.PHONY: lint
lint: setup ## ruff: rules and format
	@$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

.PHONY: fmt
fmt: setup ## let ruff fix and format
	@$(BIN)/ruff check --fix-only --quiet $(CODE)
	$(BIN)/ruff format $(CODE)

.PHONY: types
types: setup ## mypy --strict over sources and tests
	@$(BIN)/mypy

.PHONY: layers
layers: setup ## import-linter: who may import whom
	@$(BIN)/lint-imports

.PHONY: unit
unit: setup ## unit tests, slow ones included
	@$(BIN)/pytest tests/unit tests/bench

.PHONY: property
property: setup ## property tests against small models
	@$(BIN)/pytest tests/property

.PHONY: tidy
tidy: setup ## the tests about the tree itself
	@$(BIN)/pytest tests/tidy

.PHONY: integration
integration: setup ## tests against real server processes
	@$(BIN)/pytest tests/integration

.PHONY: sim-short
sim-short: setup
	@$(BIN)/pytest tests/sim $(SIM_SHORT)

.PHONY: sim
sim: setup ## the long simulation: 5000 seeds, and a long search against the models
	@$(BIN)/pytest tests/sim tests/property $(SIM_LONG)

.PHONY: crash-short
crash-short: setup
	@$(BIN)/pytest tests/crash $(CRASH_SHORT)

.PHONY: crash
crash: setup ## the long crash run: 200 kill cycles, 5000 power-loss states
	@$(BIN)/pytest tests/crash $(CRASH_LONG)

.PHONY: conformance
conformance: setup ## the official protocol suite against a fresh server (ARGS="--only REGEX")
	@$(BIN)/python conformance/run.py $(ARGS)

.PHONY: interop
interop: setup ## the npm client against our server, our client against the Node reference server
	@$(BIN)/pytest tests/interop

.PHONY: bench
bench: setup ## measure beside the peers, about 10 minutes (ARGS="--only W1,W4 --peers redis-always")
	@$(BIN)/python -m bench.run $(ARGS)

.PHONY: bench-quick
bench-quick: setup ## the same in about 2 minutes, rougher
	@$(BIN)/python -m bench.run --quick $(ARGS)

.PHONY: bench-client
bench-client: setup ## measure our client beside the official Python client (ARGS="--repeats 9")
	@$(BIN)/python -m bench.client.run $(ARGS)

.PHONY: lock
lock: setup ## pin again after a change of dependencies, and export what setup installs
	@$(BIN)/uv lock
	export="$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --no-annotate"
	$$export --extra server --group dev -o $(REQUIREMENTS)
	$$export --only-group node -o requirements/node.txt

.PHONY: clean
clean: ## remove everything that the other verbs made, except ./data
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	rm -rf conformance/node_modules conformance/.node bench/node_modules bench/.peers bench/data
	rm -rf tests/interop/node_modules
	find src tests conformance -name __pycache__ -type d -prune -exec rm -rf {} +
