# Every target sets itself up in .venv from pinned versions: nothing to install first but Python.
PYTHON ?= python3
BIN := .venv/bin

# No search of λ, no training, no other processes.
FAST := tests/algebra --ignore=tests/algebra/test_lambda_search.py tests/tuning/test_config.py \
	tests/benchmark/test_comparison.py tests/benchmark/test_metrics.py tests/benchmark/test_results.py \
	tests/benchmark/test_run_names.py tests/benchmark/test_scenarios.py tests/cli/test_console.py \
	tests/model/test_file.py tests/test_habits.py tests/images tests/test_memory.py \
	tests/test_progress.py tests/test_public.py tests/test_registry.py tests/test_seeds.py tests/test_formats.py

.PHONY: demo serve test test-fast test-all coverage lint bench torture setup clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[hf,onnx,heic,parquet,ray,serve,dev]'
	touch $@

demo: setup
	$(BIN)/layup demo

# A page and an API on a few digits, at http://127.0.0.1:8000, until Ctrl-C.
serve: setup
	$(BIN)/layup serve --demo

test: lint
	$(BIN)/pytest -n auto --dist worksteal

# While you write: under a minute.
test-fast: setup
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n auto $(FAST)

# What `make test` leaves out too: every configuration of every estimator, and the built package.
test-all: lint
	$(BIN)/pytest -n auto --dist worksteal -m ""

# How much of src/layup the tests of `make test` reach, line by line and branch by branch.
coverage: setup
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: setup
	$(BIN)/python -m benchmarks

torture: setup
	$(BIN)/python -m torture

clean:
	rm -rf .venv build dist demo .coverage .coverage.*
