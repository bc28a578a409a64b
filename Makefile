# make run | test | check | definitions | pictures | strings | peers | gateway | security | crash | endurance | bench: each makes what it needs in .venv and nowhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
XDIST ?= -n 4 --dist worksteal
SECURITY_SIZE ?= full

PEERS := .peers

.PHONY: run test check definitions pictures strings peers gateway security crash endurance bench clean

run: $(VENV)/.installed
	@if [ ! -t 0 ] || [ ! -t 1 ]; then \
		exec $(BIN)/dirge demo --print $(ARGS); \
	elif $(BIN)/dirge config check >/dev/null 2>&1; then \
		exec $(BIN)/dirge $(ARGS); \
	else \
		echo "No provider is set up (export OPENAI_API_KEY or ANTHROPIC_API_KEY, or run $(BIN)/dirge config init): playing dirge demo."; \
		exec $(BIN)/dirge demo $(ARGS); \
	fi

test: $(VENV)/.tested
	$(BIN)/python -m pytest $(XDIST) $(ARGS)

check: $(VENV)/.checked
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(MAKE) test

# What requests need of the tools, from their modules and descriptions.
definitions: $(VENV)/.tested
	$(BIN)/python -m tests.tools.definitions

# The pictures of README.md and docs/, from the program itself; only the model is a script.
pictures: $(VENV)/.tested
	$(BIN)/python -m tests.ui.pictures

# Every sentence of the program with its place, to be read; ARGS=ui for one package.
strings: $(VENV)/.tested
	@$(BIN)/python -m tests.house.strings $(ARGS)

# Model servers that others wrote, for the tests that speak with them: 750 MB, in .peers.
peers: $(PEERS)/.installed

# Every wire format through a gateway; it takes a while to start, so `make test` leaves it out.
gateway: $(VENV)/.tested $(PEERS)/.installed
	$(BIN)/python -m pytest -m gateway -p no:xdist $(ARGS) tests/providers

# The tests of what must not happen, a few minutes of them; SECURITY_SIZE=whole takes an hour or two.
security: $(VENV)/.tested
	SECURITY_SIZE=$(SECURITY_SIZE) $(BIN)/python -m pytest -m security -p no:xdist $(ARGS)

# Programs killed at a thousand moments, session files damaged in ten thousand ways: half an hour.
crash: $(VENV)/.tested
	SECURITY_SIZE=whole $(BIN)/python -m pytest -m crash -p no:xdist $(ARGS)

# 1,500 scripts of weak models through the whole product, with a table: two minutes.
endurance: $(VENV)/.tested
	ENDURANCE=all $(BIN)/python -m pytest -p no:xdist $(ARGS) tests/endurance

# Every row with its ratio to a floor and to the last release; ARGS=--save makes this run the last release.
bench: $(VENV)/.tested
	for name in startup loop tools read_only sessions session_list scale ui snapshots providers; do \
		$(BIN)/python bench/$$name.py $(ARGS) || exit 1; \
	done

clean:
	rm -rf $(VENV) $(PEERS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dirge needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try PYTHON=python3.12 make $(MAKECMDGOALS)." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "This Python has no venv module. On Debian and Ubuntu: apt install python3-venv. On Fedora it is part of python3." >&2; exit 1; }
	@echo "Installing dirge into $(VENV), once. This takes up to a minute."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[syntax]'
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group test
	@touch $@

$(VENV)/.checked: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

$(PEERS)/.installed: $(VENV)/bin/python tests/providers/peers.txt
	$(BIN)/python -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --requirement tests/providers/peers.txt
	PATH="$(CURDIR)/$(PEERS)/bin:$$PATH" $(PEERS)/bin/npm install --prefix $(PEERS)/mock \
		--ignore-scripts --no-audit --no-fund --silent @copilotkit/aimock@1.43.0
	@touch $@
