# Everything a developer or CI does. Needs make and Python 3.11 or newer; the rest comes from the package registry
# into .venv and side environments. `make PYTHON=python3.13 test` chooses the interpreter.

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# Where benchmarks put their figures as NAME.json.
BENCH_JSON ?= build/bench
# Recreated when missing; a stamp inside an environment makes a second run instant while its inputs are unchanged.
INTEROP := .venv-pycose/.stamp .venv-scitt-cose/.stamp .venv-s3/.stamp

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test lint format demo bench environments system-deps python clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## */  make \1	/' | expand -t 22

test: .venv/.stamp-test $(INTEROP)  ## lint, types and every test, as CI does
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist loadfile $(ARGS)

lint: .venv/.stamp-test  ## ruff and mypy only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.stamp-test  ## let ruff format and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: .venv/.stamp-server  ## a log, a signed session, its receipt, offline verification, and two forgeries failing
	$(BIN)/transparency demo

bench: .venv/.stamp-server  ## benchmarks, as ratios to a bare signature-verify loop; JSON in build/bench
	@set -e; export BENCH_JSON="$(BENCH_JSON)"; for file in benchmarks/[!_]*.py; do $(BIN)/python "$$file" $(ARGS); done

environments: .venv/.stamp-test $(INTEROP)  ## only create or refresh the environments

system-deps:  ## system packages needed beyond Python and make
	@echo "no system packages are needed"

clean:  ## remove environments, caches and build output
	rm -rf .venv .venv-pycose .venv-scitt-cose .venv-s3 build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "Python 3.11 or newer is needed and $(PYTHON) is %d.%d; name another: make PYTHON=python3.13" % v[:2])'

.venv/.stamp-server: pyproject.toml constraints.txt | python
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[server]'
	@touch $@

# The test extra includes the server extra, so its stamp covers both.
.venv/.stamp-test: pyproject.toml constraints.txt | python
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[test]'
	@touch .venv/.stamp-server $@

.venv-%/.stamp: tests/interop/requirements-%.txt | python
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python $(PIP_INSTALL) -r $<
	@touch $@
