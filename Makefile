# everhold: `make` alone lists what can be done. Every target sets up the virtual environment it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-oldest check bench bench-paper fuzz torture clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; a minute or two)"
	@env -u PYTHONPATH -u PYTHONHOME $(PYTHON) -m venv --clear $(VENV)
	@env -u PYTHONPATH -u PYTHONHOME $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)  ## see it work: a plain holdout fooled, everhold not, then a replay without the data
	@$(BIN)/python -m everhold.cli.demo

serve: $(READY)  ## the demo's study behind a server: open the address, sign in with the token it prints
	@$(BIN)/python -m everhold.cli.demo_study out/demo.everhold
	@echo "Sign in with this token (it lasts a day):"
	@$(BIN)/everhold token create me --scope custodian --days 1 --tokens out/demo.tokens.json | head -n 1
	@$(BIN)/everhold serve out/demo.everhold --tokens out/demo.tokens.json

test: $(READY)  ## the whole test suite, doctests and docs included; ROOM=ledger for one room without its slow tests
ifdef ROOM
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not browser" $(wildcard tests/$(ROOM) src/everhold/$(ROOM) src/everhold/$(ROOM).py)
else
	@$(BIN)/python -m pytest -n $(JOBS)
endif

test-oldest:  ## the scikit-learn side with the oldest scikit-learn that is supported
	@env -u PYTHONPATH -u PYTHONHOME $(PYTHON) -m venv --clear $(VENV)-oldest
	@grep -v '^scikit-learn==' constraints.txt > $(VENV)-oldest/constraints.txt
	@env -u PYTHONPATH -u PYTHONHOME $(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(VENV)-oldest/constraints.txt --editable '.[dev]' 'scikit-learn==1.6.1'
	@$(VENV)-oldest/bin/python -m pytest tests/learn/test_testset.py tests/learn/test_learners.py -n $(JOBS) -W ignore

check: $(READY)  ## ruff, mypy (strict) and the order of the rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY)  ## every benchmark: speed as ratios, the tables of the docs
	@$(BIN)/python -m benchmarks

bench-paper: $(READY)  ## everhold against its rivals: half an hour, resumable; QUICK=1 for two minutes, ALSO=FILE adds yours
	@$(BIN)/python -m benchmarks.paper $(if $(QUICK),--quick --out out/bench-paper-quick) $(if $(ALSO),--also $(ALSO)) $(if $(PUBLISH),--publish) --jobs $(JOBS)

fuzz: $(READY)  ## compare all engines on random tables and questions for an hour; MINUTES=5 for less, SEED=7 to repeat
	@$(BIN)/python -m tests.fuzz.engines --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

torture: $(READY)  ## kill and starve the durable ledger for a quarter of an hour (needs strace for faults)
	@$(BIN)/python -m tests.faults.torture

clean:  ## remove the virtual environment and everything generated
	rm -rf $(VENV) $(VENV)-oldest out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
