# The whole developer interface; CI calls the same targets (.ci/run).
PYTHON ?= python3
FOR ?= x86_64
BIN := .venv/bin
FOUND_CC := $(shell command -v cc || command -v gcc || command -v clang)
CORE := $(sort $(shell find rtmw -name "*.c"))
HEADERS := $(sort $(shell find rtmw -name "*.h"))
STRICT := -Wall -Wextra -Werror -fsyntax-only
INCLUDE = -isystem $(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')

.DEFAULT_GOAL := help
.PHONY: help setup demo test check wheel style native bench bench-docs torture clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: .venv/.core  ## set up, then show this machine's telemetry flowing, recorded, in Spark, and replayed
	@$(BIN)/rtmw demo --install-spark

test: setup  ## set up, then run every test
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 5 --dist loadfile

check: setup style native  ## lint, types, house rules, C warnings, native races under the sanitizers

wheel: .venv/.core  ## a wheel for Linux x86-64 with glibc 2.28 or newer, into dist/; FOR=aarch64: for that processor
	@$(PIP) 'setuptools>=77' ziglang auditwheel
	@rm -rf build  # what was built for another processor
	RTMW_WHEEL=$(FOR) $(BIN)/python -m pip --quiet wheel --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/auditwheel show dist/rtmw-*manylinux_2_28_$(FOR).whl

bench: setup .venv-bench/.installed  ## rtmw beside its peers, a quarter of an hour; ARGS=--quick: about five
	@.venv-bench/bin/python -m bench $(ARGS)

bench-docs: .venv-bench/.installed  ## bring the last results of make bench into bench/results
	@.venv-bench/bin/python -m bench --docs

torture: setup  ## every fault at every point: an hour; make torture-soak and so on for one part
	@$(BIN)/python -m tests.torture

torture-%: setup
	@$(BIN)/python -m tests.torture $*

clean:  ## remove the environment and everything that was built
	rm -rf .venv .venv-bench build dist *.egg-info `find rtmw -name "*.so"` rtmw/shm/rtmw.pc .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find rtmw topics examples bench tests -name __pycache__ -type d -exec rm -rf {} +
	@if [ -f tests/native/Makefile ]; then $(MAKE) -C tests/native clean; fi

setup: .venv/.installed  ## create .venv and build, if something changed that needs it
	@$(BIN)/python -m compileall -q rtmw topics

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CORE) $(HEADERS) examples/c/*.c examples/c/*.cpp bench/baselines/*.[ch] tests/torture/*/*.[ch] tests/net/foreign/*.cpp
	$(BIN)/mypy && $(BIN)/pyright
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_exports.py tests/test_stubs.py tests/test_sources.py tests/test_orders.py tests/test_docs.py tests/test_api_reference.py

native: setup
	@for file in $(CORE); do echo "$(CC) $(STRICT) $$file" && $(CC) -std=gnu11 -D_GNU_SOURCE $(STRICT) $(INCLUDE) $$file || exit 1; done
	echo '#include "rtmw/shm/rtmw.h"' | $(CXX) -std=c++17 $(STRICT) -I. -x c++ -
	$(MAKE) -C tests/native check

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'rtmw needs Python 3.11 or newer; point PYTHON=... at one.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo 'This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@$(PYTHON) -m venv .venv

.venv-bench/.installed: bench/requirements.txt pyproject.toml .venv/bin/pip
	$(BIN)/python -m bench.environment .venv-bench
	@touch $@

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.venv/.core: .venv/bin/pip pyproject.toml setup.py $(CORE) $(HEADERS)
	@echo 'Building the C core, and installing the packages that rtmw needs, into .venv: half a minute or so ...'
	$(if $(FOUND_CC),,$(PIP) ziglang)
	@$(PIP) --editable .
	@touch $@

.venv/.installed: .venv/.core
	@echo 'Installing what tests and checks need: about 120 packages and 2 GB, some minutes on a slow line ...'
	@$(PIP) 'rtmw[dev]'
	@touch $@
