# `make demo` and `make test` set everything up on a fresh machine; `make help` lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One more than the two processors that the tests are sized for: many wait for programs or files.
JOBS   ?= 3
# Modules are compiled once, whatever the environment says: the tests start some hundred Pythons.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: sbom help setup demo check lint analyze types test fast-tests test-core test-long test-gpu fuzz inject differential corpus bench bench-arm figures release clean figures-check
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## virtual environment, Debian packages that help, warmed tool caches

$(VENV)/.ready: pyproject.toml scripts/setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) bash scripts/setup.sh
	@touch $@

# ziglang's libraries in every form that the tests link: static programs for the emulator, programs for this machine.
# Types of other packages and byte code of test files, which mypy and pytest keep.
$(VENV)/.ready-to-test: $(VENV)/.ready
	@echo "setup: filling the caches of ziglang, mypy and pytest for the tests (some minutes, once)" >&2
	@$(BIN)/python -m scripts.warm_toolchain tests
	@$(BIN)/python -m scripts.warm_checks
	@touch $@

demo: setup ## both pipelines: a program and a network, their libraries built, run on emulated cores and here
	@$(BIN)/python examples/demo.py

lint: setup figures-check ## ruff, formats, spelling, docstrings, clang-tidy; figures against their records; large commits are named
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/codespell *.md docs mavcg kernels passes runtime profiles bench tests examples fuzz scripts Makefile
	@$(BIN)/python -m scripts.docstring_check
	@bash scripts/lint_c.sh format
	@bash scripts/lint_c.sh tidy
	@$(BIN)/python -m scripts.commit_check

figures-check: setup ## figures of the pages: as the records have them, and "old" where they are
	@$(BIN)/python -m bench.figures_check

analyze: setup ## clang's static analyzer over the runtime's C; a part of test-long
	@bash scripts/lint_c.sh analyze

types: setup ## mypy, strict
	@$(BIN)/mypy

# 2026-12-01, Intel Xeon with AMX, 2 CPUs, virtual, quiet: 14,628 fast tests took 415 s of CPU and 3 min 52 s where the
# user's cache has the code that they compile, and 607 s and 5 min 27 s after a day's changes (MAVCG_CACHE=off: all of it
# is compiled). The first run on a fresh machine took 845 s and 7 min 38 s on 2026-11-30. tests/cpu_seconds.py has the
# budget; `pytest --cpu` prints what takes most. All long tests were never run together.
# The types are checked while the tests run. Files of tests stay in their order: xdist would put those of few tests, which
# are the slow ones, last, where one worker waits for the other. Builds under test run a make of their own, whose flags
# are not this one's.
test: setup $(VENV)/.ready-to-test ## lint, types and the fast tests (some 10 minutes on two processors)
	@$(MAKE) --no-print-directory -j 3 lint types fast-tests

fast-tests: setup $(VENV)/.ready-to-test
	@env -u MAKEFLAGS -u MFLAGS $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --cpu -m "not long"

test-core: setup $(VENV)/.ready-to-test ## the fast tests without those of accelerators, lab and apps
	@env -u MAKEFLAGS -u MFLAGS $(BIN)/pytest --core -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not long"

check: test ## the same gate by its usual name

test-long: setup $(VENV)/.ready-to-test analyze ## everything, the long checks too
	@env -u MAKEFLAGS -u MFLAGS $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=40

test-gpu: setup ## the CUDA kernels on this machine's GPU; "not run" without one
	@$(BIN)/pytest -rs tests/mavcg/accelerators/gpu/test_driver.py

FUZZ_SECONDS ?= 300
FUZZ_TARGETS ?=
fuzz: setup ## coverage-guided fuzzing of every reader, MINUTES or FUZZ_SECONDS (300) all together; fuzz/README.md
	@bash scripts/fuzz_compiler.sh
	@$(BIN)/python -m fuzz.run $(if $(MINUTES),--minutes $(MINUTES),--seconds $(FUZZ_SECONDS)) $(FUZZ_TARGETS)

INJECT ?=
inject: setup ## failure by number: the n-th malloc, mmap, futex, write, rename, .. fails; MINUTES=10 INJECT="engine blas"
	@$(BIN)/python -m fuzz.inject.run $(if $(MINUTES),--minutes $(MINUTES)) $(INJECT)

SEED ?= 1
differential: setup ## random chains of operators against three judges, MINUTES (30), seed SEED; goes on where it ended
	@$(BIN)/python -m bench.chains $(if $(MINUTES),--minutes $(MINUTES)) --seed $(SEED)

CORPUS ?=
corpus: setup ## Debian's source packages under mavcg launch; MINUTES (60), CORPUS="opus lame"; goes on where it ended
	@$(BIN)/python -m bench.corpus $(if $(MINUTES),--minutes $(MINUTES)) $(CORPUS)

FIGURES ?=
figures: setup ## the headline figures (30 minutes), README and docs/figures.md; FIGURES="--only dispatch": these alone
	@$(BIN)/python -m bench.figures $(FIGURES)

bench: setup ## every record in bench/results/ that this machine can measure; takes many hours
	@$(BIN)/python -m bench.all

bench-arm: setup ## other runtimes' aarch64 builds beside mavcg on simulated cores (needs qemu-user); hours
	@$(BIN)/python -m bench.arm_peers

LIB  ?= examples/small_cnn/build/libsmall_cnn.so
SBOM ?= build/sbom.cdx.json
sbom: setup ## CycloneDX bill of materials of the library LIB (that of `make demo`), in SBOM
	@mkdir -p $(dir $(SBOM))
	@$(BIN)/mavcg inspect $(LIB) --sbom $(SBOM)
	@echo "$(SBOM)"

PYTHONS ?= $(PYTHON)
KEY     ?=
release: setup ## wheel, source archive, bills of materials, sums in dist/; PYTHONS="python3.11 python3.14", KEY=ssh key
	@$(BIN)/python -m scripts.release $(foreach python,$(PYTHONS),--python $(python)) $(if $(KEY),--key $(KEY))

clean: ## build outputs; keeps the environment
	rm -rf build dist *.egg-info
