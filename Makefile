# Every target sets itself up in .venv from pinned versions: nothing to install first but Python.
PYTHON ?= python3
BIN := .venv/bin

# No search of λ, no training, no other processes.
FAST := tests/algebra --ignore=tests/algebra/test_lambda_search.py tests/tuning/test_config.py \
	tests/benchmark/test_comparison.py tests/benchmark/test_metrics.py tests/benchmark/test_results.py \
	tests/benchmark/test_run_names.py tests/benchmark/test_scenarios.py tests/cli/test_console.py \
	tests/model/test_file.py tests/test_habits.py tests/images tests/test_memory.py \
	tests/test_progress.py tests/test_public.py tests/test_registry.py tests/test_seeds.py tests/test_formats.py

.PHONY: demo docs serve test test-fast test-all coverage lint bench torture release setup setup-all clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[hf,onnx,heic,parquet,ray,remote,serve,dev]'
	touch $@

# What documentation and releases need besides.
setup-all: .venv/ready-all

.venv/ready-all: .venv/ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs,release]'
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
test-all: lint setup-all
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

# The site of docs/ and of all public names.
docs: setup-all
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site is in build/site. To look at it: python3 -m http.server -d build/site"

bench: setup
	$(BIN)/python -m benchmarks

torture: setup
	$(BIN)/python -m torture

# The sdist, the wheel, their bill of materials and checksums in dist/, after all checks of docs/releasing.md.
release: setup-all
	$(BIN)/python -m pip install --quiet --no-deps -e .  # so that the installed metadata has the version of today
	$(BIN)/python -m release

clean:
	rm -rf .venv build dist demo .coverage .coverage.*
