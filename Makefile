# make test | mnist | build | check | clean.  VENV, PYTHON and JOBS can be set on the command line;
# TORCH_INDEX=https://download.pytorch.org/whl/cpu takes torch's smaller CPU build.
VENV ?= .venv
PYTHON ?= python3
JOBS ?= 2
ARGS ?=
PYTEST_ARGS ?= -n $(JOBS)
TORCH_INDEX ?=

BIN := $(abspath $(VENV))/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
PINNED := $(addprefix requirements/,build.txt runtime.txt test.txt example.txt)
export PATH := $(BIN):$(PATH)
export PYTHONPATH := $(CURDIR)/python
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

.PHONY: build test mnist check clean

build: build/build.ninja
	@cmake --build build
	@$(MAKE) --no-print-directory $(VENV)/.linked

test: build
	@status=0; \
	ctest --test-dir build --output-on-failure -j $(JOBS) || status=1; \
	$(BIN)/python -m pytest $(PYTEST_ARGS) || status=1; \
	exit $$status

mnist: build
	@$(BIN)/python examples/mixed_mnist.py $(ARGS)

check:
	@$(BIN)/python tools/check

clean:
	rm -rf build python/torch_pjrt/_C.*

$(BIN)/python:
	@PYTHON=$(PYTHON) tools/install_system_packages build
	$(PYTHON) -m venv $(VENV)

# TORCH_INDEX comes first and alone, since the packages of the two sites must not be mixed.
$(VENV)/.packages: $(PINNED) requirements/runtime-no-deps.txt | $(BIN)/python
	@echo "installing the pinned packages into $(VENV)"
	@$(if $(TORCH_INDEX),$(PIP) --index-url $(TORCH_INDEX) $(shell grep '^torch==' requirements/runtime.txt))
	@$(PIP) $(addprefix -r ,$(PINNED))
	@$(PIP) --no-deps -r requirements/runtime-no-deps.txt
	@touch $@

build/build.ninja: CMakeLists.txt $(VENV)/.packages
	@PYTHON=$(BIN)/python tools/install_system_packages build test
	@cmake -S . -B build -G Ninja -DPython_EXECUTABLE=$(BIN)/python $(if $(CI),-DTORCH_PJRT_UNITY=ON)
	@touch $@

# The link makes `import torch` find torch_pjrt's entry point. A linked environment belongs to
# another checkout, whose link stays.
$(VENV)/.linked: pyproject.toml tools/build_backend.py $(VENV)/.packages
	@test -L $(VENV) || { $(PIP) --no-build-isolation --no-deps -e . && touch $@; }
