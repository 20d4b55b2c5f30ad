# What a newcomer needs: `make demo` and `make test`. Both set up everything from Python 3.11 and Java 17 alone.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
TOOLS := .tools
UV_VERSION := 0.13.9
UV := $(or $(shell command -v uv 2>/dev/null),$(TOOLS)/bin/uv)
RUN := .venv/bin
STAMP := .venv/.synced
PYTEST := $(RUN)/python -m pytest --durations=10
# A worker for each of two cores: each has servers of its own. The tests of a file stay together.
SIDE_BY_SIDE := -n $(or $(WORKERS),2) --dist loadfile
CHAOS := $(RUN)/python -m tests.chaos.random_run
LOG_DAY := $(RUN)/python -m tests.chaos.log_day
LIVE := $(RUN)/python -m tests.dags.live_hour

export GX_ANALYTICS_ENABLED := false
# Where it is set, each process that a test starts compiles all of shipper anew.
export PYTHONDONTWRITEBYTECODE :=
export AIRFLOW__CORE__LOAD_EXAMPLES := false

.PHONY: help setup words demo sim power test lint docs format release unit dags servers long nightly scheduler chaos log-day live faults chaos-short bench schema clean mutants mutants-short model model-short

help:  ## Show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## Install everything into .venv (uv is fetched if it is not there)

$(STAMP): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' \
	  || { echo "shipper needs Python 3.11 or 3.12, and $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=python3.11" >&2; exit 2; }
	@command -v "$(UV)" >/dev/null || { echo "fetching uv into $(TOOLS)"; $(PYTHON) -m venv $(TOOLS) && $(TOOLS)/bin/pip install --quiet uv==$(UV_VERSION); }
	$(UV) sync --locked --all-extras --python "$$(command -v $(PYTHON))" --compile-bytecode --quiet
	$(RUN)/python -m spark_jobs.make_class_data
	@touch $@

demo: setup  ## Real S3, real Kafka, a real Airflow DAG run, the report; then again: 0 sent. KEEP=1 leaves Airflow's UI up
	$(RUN)/shipper demo $(if $(KEEP),--keep) $(if $(LINES),--lines $(LINES))

# Types need one core, and random faults and a scheduler mostly wait: they go beside the tests, and what they print comes
# after. Simulated histories take the time that servers leave. Whatever fails, all of it is run and told.
test: setup  ## All that CI runs for each change: lint, unit, dags, servers, scheduler, simulated runs, random faults
	@mkdir -p build
	@$(MAKE) --no-print-directory scheduler >build/scheduler.log 2>&1 & scheduler=$$!; \
	  { failed=0; $(MAKE) --no-print-directory -k lint chaos SECONDS=30 || failed=1; \
	    nice -n 19 $(MAKE) --no-print-directory sim || failed=1; exit $$failed; } >build/beside.log 2>&1 & beside=$$!; \
	  failed=0; $(MAKE) --no-print-directory -k unit dags servers || failed=1; \
	  wait $$beside || failed=1; wait $$scheduler || failed=1; cat build/beside.log build/scheduler.log; exit $$failed

lint: setup  ## Style, types, import contracts, generated docs
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports
	$(RUN)/shipper schema --check
	$(RUN)/python -m shipper_tools.words --check
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet

docs: setup  ## Build the site of docs/ into build/site
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict
	@echo "to read it with search: $(PYTHON) -m http.server --directory build/site"

format: setup  ## Format the code
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

unit: setup  ## Fast tests: no servers
	$(PYTEST) $(SIDE_BY_SIDE) tests/unit tests/property tests/sim

dags: setup  ## DAG tests with Airflow, without a scheduler
	$(PYTEST) $(SIDE_BY_SIDE) tests/dags -m "not scheduler and not long"

servers: setup  ## Real Kafka, real Spark, through the commands that users have: each promise once
	$(PYTEST) $(SIDE_BY_SIDE) --no-loadscope-reorder tests/integration -m "not long"

long: setup  ## What `make test` leaves out, and CI runs once a day: the rest of servers and of Airflow, and ten times as many random examples
	$(PYTEST) $(SIDE_BY_SIDE) --no-loadscope-reorder tests/integration tests/dags -m long
	$(PYTEST) $(SIDE_BY_SIDE) tests/property --hypothesis-profile=long

nightly: long faults chaos log-day mutants power model live scale  ## All that `make test` is too short for, some hours: every format with every codec on real servers, every fault, ten minutes of random ones

scheduler: setup  ## A real Airflow scheduler
	$(PYTEST) tests/dags/test_scheduler.py -m "not long"

sim: setup  ## Histories of runs in a simulated world for SECONDS (60) of each core's time; `.venv/bin/python -m tests.sim --kind runs --seed 17` for one
	$(RUN)/python -m tests.sim --seconds $(or $(SECONDS),60)

power: setup  ## Remove each rule that the simulated world runs, and show that the seed in tests/sim/power.md finds it
	$(RUN)/python -m tests.sim.power

chaos: setup  ## Random faults on three brokers for SECONDS (600) from SEED; with KILLS=40, as many kills of real Spark too
	$(CHAOS) --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))
	$(if $(KILLS),SHIPPER_KILLS=$(KILLS) $(PYTEST) tests/integration/test_kill.py --timeout 7200)

log-day: setup  ## A day of a real log directory (logrotate, late files, links, odd names, kills) from SEED, in STEPS (24) hours, on FS=file, hdfs or s3
	$(LOG_DAY) $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) $(if $(FS),--fs $(FS))

live: setup  ## A real Airflow, Spark and broker for MINUTES (60) from SEED, with outages, kills, clears and broken files; windows of EVERY (2) minutes
	$(LIVE) --minutes $(or $(MINUTES),60) --every $(or $(EVERY),2) $(if $(SEED),--seed $(SEED))

faults: setup  ## Each fault that must come at its moment, on three brokers
	$(PYTEST) tests/chaos --timeout 7200

chaos-short: setup  ## Some faults by themselves, then two minutes of random ones
	$(PYTEST) tests/chaos -m short
	$(CHAOS) --seconds $(or $(SECONDS),120) $(if $(SEED),--seed $(SEED))

mutants: setup  ## Remove each rule of DESIGN's invariants in turn, and show that its test fails; MUTANT=name for one
	$(RUN)/python -m tests.mutants $(MUTANT)

mutants-short: setup  ## The same for the rules whose tests start no server
	$(RUN)/python -m tests.mutants --short

# No setup: Python's standard library, spin and a C compiler are all they need.
model:  ## Check the protocol's model with SPIN, and that each rule that is taken out is caught: some minutes
	@$(PYTHON) model/check.py

model-short:  ## The same without the large configurations: what CI runs
	@$(PYTHON) model/check.py --short

bench: setup  ## Throughput near and far, beside what is used instead (PEERS=folder with spark/ and flink/)
	for scenario in distance end-to-end cold slow-broker; do $(RUN)/shipper bench $$scenario $(if $(PEERS),--peers $(PEERS)) || exit 1; done

words: setup  ## Figures of the prose: fragments among the docstrings, sentences and lines of the docs
	$(RUN)/python -m shipper_tools.words

schema: setup  ## Write config/schema/ anew
	$(RUN)/shipper schema

release: test  ## Wheels, sources, constraints, SBOM, changes and checksums into dist/VERSION; TAG=1 tags the commit
	$(RUN)/python -m shipper_tools.release "dist/$$($(RUN)/python -c 'from importlib.metadata import version; print(version("shipper"))')" $(if $(TAG),--tag)

clean:  ## Remove what setup and runs leave behind
	rm -rf .venv $(TOOLS) dist .dev runs .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.PHONY: scale
scale: setup  ## What reading the ledger costs with 10,000 and with 1,000,000 entries: a table, in some minutes
	$(PYTEST) tests/scale
