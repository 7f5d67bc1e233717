# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` need Python >= 3.11 with pip, and make. Everything they install goes into .venv.
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/run.stamp
DEV := $(VENV)/dev.stamp
MODEL ?= examples/unet_128.int8.tflite
BOARD ?= rk3588
PORT ?= 2222

KERNELS := aarch64 x86_64

# The first Python that is new enough and has pip (which .venv's own, if it is activated, has not);
# `make PYTHON=/path/to/python3.12 test` overrides it.
PYTHON ?= $(shell PATH=$$(echo "$$PATH" | tr ':' '\n' | grep -vxF "$(CURDIR)/$(BIN)" | paste -sd:); \
	for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$python && break; done)

.PHONY: help demo kernels kernels-test kernels-bench test lint fuzz bench vendors runtimes board board-matrix \
	census-board serve-board docs system-deps clean
.DELETE_ON_ERROR:

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' Makefile | expand -t 14

demo: $(RUN)  ## plan MODEL for BOARD and print the report
	$(BIN)/edgedeploy partition $(MODEL) --board $(BOARD)

kernels: $(KERNELS:%=kernels_neon/edgedeploy_kernels/lib/%/libedgedeploy.so)  ## build libedgedeploy.so for aarch64 and x86-64

# zig's compiler comes from pip and links against a C library as old as boards have it. Make asks the sources what is new.
kernels_neon/edgedeploy_kernels/lib/%/libedgedeploy.so: $(DEV) $(shell find kernels_neon/Makefile kernels_neon/src -type f)
	$(MAKE) --no-print-directory -C kernels_neon CC='$(abspath $(BIN))/python -m ziglang cc -target $*-linux-gnu.2.17' MACHINE=$* BUILD=build/zig-$*
	install -D kernels_neon/build/zig-$*/libedgedeploy.so $@

kernels-test: $(DEV)  ## prove the kernels on thousands of cases: NEON is scalar, scalar is the stock runtime
	KERNEL_CASES=2000 $(BIN)/python -m pytest -n auto -q -rP tests/kernels

kernels-bench: $(DEV)  ## count the instructions of the kernels and of the stock runtime, emulated
	$(BIN)/python -m benchmarks.kernels

test: lint kernels  ## lint, build libedgedeploy.so, then all tests
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(DEV)  ## ruff, clang-format, mypy --strict, the import contracts, Python 3.9 for the agent
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run -Werror $(shell find kernels_neon benchmarks -name '*.[ch]' -not -path '*/build/*')
	$(BIN)/mypy host partitioner profiles kernels_neon protos device_agent tests benchmarks tools
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --no-tips --target=3.9- --violations device_agent

fuzz: $(DEV)  ## feed the reader 20,000 broken models
	$(BIN)/python tools/fuzz_reader.py --mutants 20000 examples/*.tflite

bench: $(DEV)  ## predictions against published latencies and measured memory, the solver, the start, the agent beside a plain loop
	$(BIN)/python -m benchmarks.cost
	$(BIN)/python -m benchmarks.memory
	PYTHONPATH=tests $(BIN)/python benchmarks/solver.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/agent_overhead.py

vendors: $(DEV)  ## install the vendor compilers that pip has, and test the support tables against them
	$(PYTHON) -m pip --python $(BIN)/python install --quiet -c constraints.txt -e '.[ethosu]'
	$(BIN)/python -m pytest -n auto tests/vendors

# Each cannot be installed beside another one; tflite-runtime has wheels up to Python 3.11 and wants NumPy 1.
runtimes: $(DEV) .runtimes/ai-edge-litert-2.1.0.stamp .runtimes/tflite-runtime-2.14.0.stamp  ## get the other TFLite runtimes, and test against them
	$(BIN)/python -m pytest -n auto -m runtimes

.runtimes/tflite-runtime-2.14.0.stamp: WITH = 'numpy<2'
.runtimes/ai-edge-litert-2.1.0.stamp .runtimes/tflite-runtime-2.14.0.stamp: .runtimes/%.stamp:
	$(PYTHON) -m venv --without-pip .runtimes/$*
	$(PYTHON) -m pip --python .runtimes/$*/bin/python install --quiet $(shell echo $* | sed 's/-\([^-]*\)$$/==\1/') $(WITH)
	touch $@

board: $(DEV)  ## make the emulated arm64 board, and test on it
	cd tests && ../$(BIN)/python -m support.userland
	$(BIN)/python -m pytest -n auto -m board

board-matrix: $(DEV)  ## the same with boards of Debian 11 and 13 (Python 3.9, 3.13), and with the other TFLite runtimes
	cd tests && ../$(BIN)/python -m support.userland --all
	$(BIN)/python -m pytest -n auto -m board

census-board: $(DEV)  ## take XNNPACK's census here and on the emulated board, and list what differs: about an hour
	PYTHONPATH=tests nice $(BIN)/python tools/census_on_board.py --keep .board/census

serve-board: $(DEV)  ## serve the emulated board on PORT (2222) of this machine, until Ctrl-C
	cd tests && ../$(BIN)/python -m support.board $(PORT)

docs: $(DEV)  ## make docs/support, docs/plans.md, and what the commands in README.md and docs/cli.md print, again
	cd tests && ../$(BIN)/python -m support.support_pages
	$(BIN)/python tools/plan_table.py
	cd tests && ../$(BIN)/python -m support.documents

system-deps:  ## Debian packages that make and Python need, those that emulate an arm64 board, and those that prove kernels (root)
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends python3 python3-pip
	apt-get install -y -qq --no-install-recommends qemu-user-static mmdebstrap openssh-client openssh-server
	apt-get install -y -qq --no-install-recommends gcc libc6-dev qemu-user

clean:  ## remove the environment and every cache
	rm -rf $(VENV) kernels_neon/build kernels_neon/edgedeploy_kernels/lib .board .runtimes .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "needs Python 3.11 or later with pip: apt-get install python3 python3-pip"; exit 1; }
	$(PYTHON) -m venv --without-pip $(VENV)

$(RUN): pyproject.toml constraints.txt | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python install --quiet -c constraints.txt -e .
	touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PYTHON) -m pip --python $(BIN)/python install --quiet -c constraints.txt -e '.[dev]'
	touch $(RUN) $@
