# Everything a newcomer needs: `make quickstart` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Index that serves CPU builds of torch, where the default one does not:
# make quickstart TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
WORKERS ?= 2

export OMP_NUM_THREADS ?= 1

.PHONY: help setup quickstart test core lint types check-envs test-browser test-verl test-alfworld test-tau2 test-adapters test-repo test-dense test-exchange test-smollm test-vllm clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

setup: $(VENV)/.ready  ## Make .venv with everything for training on a CPU and for the tests.

$(VENV)/.ready: pyproject.toml requirements/cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -c requirements/cpu.txt -e '.[train,dev]'
	touch $@

quickstart: setup  ## Warm-start a small agent, train it with PivotOPD, show success before and after.
	$(BIN)/turnpoint train recipes/quickstart.yaml

test: lint types core  ## Lint, types and the core tests.

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

core: setup
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --ignore=tests/browser --ignore=tests/verl --ignore=tests/verl_train --ignore=tests/foreign --ignore=tests/real_alfworld --ignore=tests/real_tau2 --ignore=tests/real_repo --ignore=tests/real_dense --ignore=tests/real_adapters --ignore=tests/real_verifiers --ignore=tests/real_smollm --ignore=tests/real_vllm

# Their extras are not in .venv: they are checked by test-alfworld, test-tau2 and test-adapters.
ELSEWHERE := alfworld tau2 gymnasium openenv verifiers skyrl_gym reasoning_gym textarena

check-envs: setup  ## Prove the contract of every environment that .venv holds, with 500 resets each.
	$(BIN)/turnpoint envs check all $(addprefix --without ,$(ELSEWHERE))

test-browser:  ## Browser tests of the report and the inspector (needs Chromium).
	scripts/test-browser.sh

test-exchange:  ## Files of other libraries, checked by these libraries (own environment).
	scripts/test-exchange.sh

test-verl:  ## Formulas against verl's functions, and training through verl (own environment, 1.6 GB).
	TORCH_INDEX=$(TORCH_INDEX) scripts/test-verl.sh

test-alfworld: setup  ## The native household engine and the adapter against the real ALFWorld engine.
	scripts/test-alfworld.sh

test-dense: setup  ## The dense retriever with a real embedding model in a package (own environment, 260 MB).
	scripts/test-dense.sh

test-repo: setup  ## Repository repair in its sandbox: escapes, tampering, recipes (needs bubblewrap).
	scripts/test-repo.sh

test-tau2: setup  ## The tau2-bench adapter against the benchmark's own package.
	scripts/test-tau2.sh

test-adapters: setup  ## The adapters against Gymnasium, OpenEnv, skyrl-gym, verifiers, reasoning-gym and TextArena.
	scripts/test-adapters.sh

test-smollm: setup  ## A real chat model (SmolLM2) on a CPU, LoRA and the 8-bit optimizer (93 MB of weights).
	scripts/test-smollm.sh

test-vllm: setup  ## Rollouts and teachers by a real vLLM engine on a CPU (own environment, 1.2 GB).
	scripts/test-vllm.sh

clean:  ## Remove environments and caches.
	rm -rf $(VENV) .venvs .cache .mypy_cache .ruff_cache .pytest_cache
