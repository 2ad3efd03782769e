# Every target sets itself up in .venv from pinned versions: nothing to install first but Python.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test bench torture setup clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[hf,onnx,dev]'
	touch $@

demo: setup
	$(BIN)/layup demo

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n auto

bench: setup
	$(BIN)/python -m benchmarks

torture: setup
	$(BIN)/python -m torture

clean:
	rm -rf .venv build dist demo
