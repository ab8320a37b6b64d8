# coldforge: `make bundle`, then `make invoke IMAGE=photo.jpg`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODEL ?= emotion
BUNDLE ?= dist/$(firstword $(MODEL))
IMAGE ?= tests/data/face.jpg
# docker, host, or auto: in Docker when an engine answers. Both give the same library.
BUILD_IN ?= auto
# x86_64, arm64 (Graviton) or all; empty is what model.toml says, and x86_64 if it says nothing.
TARGET ?=
VENV  := .venv
PY    := $(VENV)/bin/python
# The first in $(1) that TensorFlow's wheel and the locks support.
supported = $(shell for python in $(1); do "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	2> /dev/null && echo "$$python" && break; done)
# PYTHON=... chooses another. These goals need none:
ifneq ($(filter-out help help-developers tools clean,$(MAKECMDGOALS)),)
ifeq ($(origin PYTHON),undefined)
PYTHON := $(call supported,$(wildcard $(PY)) python3.13 python3.12 python3.11 python3 python)
ifeq ($(PYTHON),)
$(error coldforge needs Python 3.11, 3.12 or 3.13, and there is none on PATH. Install one (apt-get install python3-venv, dnf install python3.12, brew install python@3.13 or uv python install 3.13), or name it with PYTHON=/path/to/python3)
endif
else ifeq ($(call supported,"$(PYTHON)"),)
$(error PYTHON=$(PYTHON) is not Python 3.11, 3.12 or 3.13, which coldforge needs)
endif
endif
# What runs commands that need no package: the virtual environment's where there is one.
ANY_PY = $(or $(wildcard $(PY)),"$(PYTHON)")
# A lock is complete: --no-deps leaves pip nothing to resolve.
PIP   := -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes

CORS ?=

.PHONY: help help-developers doctor setup bundle explain tune accuracy invoke serve sam test test-all test-unit tools lint lock clean

help: ## this list; `make help-developers` has what coldforge itself is tested, measured and changed with
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'
	@echo "  MODEL=emotion|digits|languages|age_gender|path/to/model.toml   V=1 (verbose)   BUILD_IN=docker|host|auto   TARGET=x86_64|arm64|all   PYTHON=python3.12"

help-developers: ##- what changes to coldforge are made with
	@grep -hE '^[a-z0-9-]+:.*##- ' $(MAKEFILE_LIST) | awk -F':.*##- ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(VENV)/.build: requirements/build.txt pyproject.toml
	@$(PY) -m pip --version > /dev/null 2>&1 || "$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: install its venv (apt-get install python3-venv)" >&2; exit 19; }
	@echo "setting up $(VENV) with $(PYTHON) (once; about 700 MB to fetch)"
	@$(PY) -m pip --version > /dev/null 2>&1 || "$(PYTHON)" -m venv $(VENV)
	@$(PY) $(PIP) -r requirements/build.txt
	@$(PY) -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: requirements/test.txt $(VENV)/.build
	@$(PY) $(PIP) -r requirements/test.txt
	@touch $@

# SAM CLI pins many packages of its own, so it lives apart.
.venv-sam/.done: requirements/sam.txt
	@test -x .venv-sam/bin/python || "$(PYTHON)" -m venv .venv-sam
	@.venv-sam/bin/python $(PIP) -r requirements/sam.txt
	@touch $@

# The AWS emulator that the end-to-end tests deploy to.
.venv-aws/.done: requirements/aws.txt
	@test -x .venv-aws/bin/python || "$(PYTHON)" -m venv .venv-aws
	@.venv-aws/bin/python $(PIP) -r requirements/aws.txt
	@touch $@

# What a layer with OpenTelemetry brings: a folder on the function's path, as in /opt/python.
.venv-otel/.done: requirements/otel.txt $(VENV)/.build
	@rm -rf .venv-otel/python
	@$(PY) $(PIP) --target .venv-otel/python -r requirements/otel.txt
	@touch $@

# OpenAI's client, which the function's embeddings are asked by.
.venv-openai/.done: requirements/openai.txt
	@test -x .venv-openai/bin/python || "$(PYTHON)" -m venv .venv-openai
	@.venv-openai/bin/python $(PIP) -r requirements/openai.txt
	@touch $@

# Other people's rules for templates.
.venv-checkov/.done: requirements/checkov.txt
	@test -x .venv-checkov/bin/python || "$(PYTHON)" -m venv .venv-checkov
	@.venv-checkov/bin/python $(PIP) -r requirements/checkov.txt
	@touch $@

# The site's own packages, which nothing else needs.
.venv-docs/.done: requirements/docs.txt
	@test -x .venv-docs/bin/python || "$(PYTHON)" -m venv .venv-docs
	@.venv-docs/bin/python $(PIP) -r requirements/docs.txt
	@touch $@

# Ray and Spark, which the Python package runs under.
.venv-frames/.done: requirements/frames.txt
	@test -x .venv-frames/bin/python || "$(PYTHON)" -m venv .venv-frames
	@.venv-frames/bin/python $(PIP) -r requirements/frames.txt
	@touch $@

.PHONY: docs
docs: .venv-docs/.done ## the pages of docs/ as a site in build/site, every link checked
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build
	@echo "open build/site/index.html, or for the search: $(PYTHON) -m http.server -d build/site"

doctor: ## what this machine has, and what it lacks for which command
	@$(ANY_PY) -m builder.cli doctor

setup: $(VENV)/.build ## the virtual environment with everything a build needs
	@:

# MODEL is a list of models, or one path that may have spaces in it.
MODELS = if [ -e "$(MODEL)" ]; then set -- "$(MODEL)"; else set -- $(MODEL); fi

# Examples whose model is trained here rather than fetched, which needs what a build needs.
TRAINED := digits age_gender languages minilm
$(TRAINED:%=build/%/model.keras): build/%/model.keras: | setup
	@$(PY) -m builder.trained $*

bundle: $(if $(filter $(TRAINED),$(MODEL)),setup) ## compile MODEL and pack it for Lambda, in dist/; MODEL="a b" packs both
	@$(MODELS); route=$$("$(PYTHON)" -m builder.cli where "$$@" --in $(BUILD_IN)) || exit $$?; python="$(PYTHON)"; \
	if [ $$route = host ]; then $(MAKE) --no-print-directory setup; fi; if [ -x $(PY) ]; then python=$(PY); fi; \
	"$$python" -m builder.cli bundle "$$@" --in $$route --target "$(TARGET)" --package $(PACKAGE) \
		$(if $(V),--verbose)

explain: setup ## what MODEL runs step by step, and how long each step takes here
	@$(PY) -m builder.cli explain "$(MODEL)"

tune: setup ## time the algorithms of MODEL's layers here; writes tuning.json beside model.toml
	@$(PY) -m builder.cli tune "$(MODEL)"

accuracy: setup ## what each type of weights costs MODEL; IMAGES="FOLDER ..." adds pictures
	@$(PY) -m builder.cli accuracy "$(MODEL)" $(IMAGES:%=--images %)

# The engine that a module is verified in.
$(VENV)/.wasm: requirements/wasm.txt $(VENV)/.build
	@$(PY) $(PIP) -r requirements/wasm.txt
	@touch $@

# What `coldforge batch` reads and writes Parquet with.
$(VENV)/.parquet: requirements/parquet.txt $(VENV)/.build
	@$(PY) $(PIP) -r requirements/parquet.txt
	@touch $@

.PHONY: wasm
wasm: $(VENV)/.wasm ## compile MODEL to WebAssembly, in dist/<model>/wasm/
	@$(PY) -m builder.cli wasm "$(MODEL)"

LANGUAGES := c rust go node python
# One of these. STATIC=1 adds libmodel.a.
LANGUAGE ?= c
.PHONY: bindings language
language:
	@test -n "$(filter $(LANGUAGE),$(LANGUAGES))" || \
		{ echo "there are no bindings for LANGUAGE=$(LANGUAGE); it is one of: $(LANGUAGES)" >&2; exit 2; }

bindings: language $(if $(STATIC),setup) $(if $(filter node,$(LANGUAGE)),wasm) bundle ## a package that calls MODEL from LANGUAGE=c|rust|go|node|python, in dist/bindings/
	@$(ANY_PY) -m builder.cli bindings "$(MODEL)" --lang $(LANGUAGE) --target "$(TARGET)" \
		$(if $(STATIC),--static) $(if $(OUT),--out "$(OUT)")

.PHONY: export selftest
export: setup ## MODEL's weights (safetensors), frozen graph and configuration, in dist/<model>-export/
	@$(PY) -m builder.cli export "$(MODEL)"

selftest: setup ## a test and a benchmark program for the bundle of MODEL, in dist/<model>/
	@$(PY) -m builder.cli selftest "$(MODEL)" --target "$(TARGET)"

# BUNDLE=dist/NAME; KEY=FILE is an ed25519 key in PEM: the private one to sign, the public one to verify.
.PHONY: sign verify-bundle reproduce
sign: setup ## sign the statement of BUNDLE with the private KEY
	@$(PY) -m builder.cli sign "$(BUNDLE)" --key "$(KEY)"

verify-bundle: $(if $(KEY),setup) ## check every file of BUNDLE against its statement, and the signature with KEY=public.pem
	@$(ANY_PY) -m builder.cli verify-bundle "$(BUNDLE)" $(if $(KEY),--key "$(KEY)")

reproduce: setup ## build BUNDLE again from its recorded inputs, and say "identical" or what differs
	@$(PY) -m builder.cli reproduce "$(BUNDLE)"

# IMAGE's default is for models that take a picture alone, which the command knows.
invoke: ## run the bundle of MODEL on IMAGE, on TEXT, or on the request in INPUTS=FILE|-, in Lambda's emulator, without Docker
	@$(MODELS); $(ANY_PY) -m builder.cli invoke "$$@" --target "$(TARGET)" \
		$(if $(INPUTS),--inputs "$(INPUTS)",$(if $(TEXT),--text "$$TEXT",$(if \
		$(filter-out file,$(origin IMAGE)),--image "$(IMAGE)")))

serve: ## the bundle of MODEL behind http://127.0.0.1:8080 (PORT=...), without Docker
	@$(MODELS); $(ANY_PY) -m builder.cli serve "$$@" --port $(or $(PORT),8080) --cors "$(CORS)"

.PHONY: bench-model report
report: setup ## what the bundle of MODEL runs, weighs and costs, as a page: dist/<model>/report.html
	@$(PY) -m builder.cli report "$(MODEL)"

bench-model: setup ## how fast the bundle of MODEL is here: p50, p90, p99, and cold starts; one line to paste
	@$(PY) -m builder.cli bench "$(MODEL)"

.PHONY: cost
cost: setup ## what a million requests to the function of MODEL cost, by memory
	@$(PY) -m builder.cli cost "$(MODEL)"

sam: .venv-sam/.done ## AWS SAM CLI in .venv-sam
SAM := SAM_CLI_TELEMETRY=0 .venv-sam/bin/sam

# $(DEPLOY) FLAGS: the bundle of MODEL in the stack that SAM builds.
DEPLOY = $(MODELS); $(ANY_PY) -m builder.cli deploy "$$@" --target "$(TARGET)" --package $(if $(INSTANCES),instances,$(PACKAGE)) \
	--env "$(ENV)" --stack "$(STACK)" $(if $(PARAMETERS),--parameters $(PARAMETERS))

.PHONY: sam-build local-invoke local-api deploy publish
sam-build: sam ## the stack with the bundle of MODEL, in .aws-sam
	@$(DEPLOY) --build-only

local-invoke: sam-build ## the function on IMAGE in Lambda's container image (Docker)
	@"$(PYTHON)" -c 'import base64, json, sys; \
		print(json.dumps({"image": base64.b64encode(open(sys.argv[1], "rb").read()).decode()}))' "$(IMAGE)" \
		| $(SAM) local invoke Function --event - $(SAM_FLAGS)

local-api: sam-build ## the function behind http://127.0.0.1:3000/predict (Docker)
	@$(SAM) local start-api --port $(or $(PORT),3000) --warm-containers LAZY $(SAM_FLAGS)

# zip: the function with two layers. image: a container image, for models that no layer holds.
PACKAGE ?= zip
# Anything: on Lambda Managed Instances, whose capacity provider PARAMETERS name.
INSTANCES ?=
ifneq ($(and $(INSTANCES),$(filter image,$(PACKAGE))),)
$(error INSTANCES is for zip functions, and PACKAGE=image asks for a container image)
endif
# NAME=VALUE ..., the template's parameters
PARAMETERS ?=
# An environment of samconfig.toml, such as dev, staging or prod; its parameters come before PARAMETERS.
ENV ?= default
# The stack's name; empty is coldforge-MODEL-ENV, so that two models are two stacks.
STACK ?=

deploy: setup sam ## the bundle of MODEL to AWS, with sam deploy, as the stack coldforge-MODEL (ENV=dev|staging|prod, STACK=...)
	@$(DEPLOY) --sam-flags="$(SAM_FLAGS)"

publish: setup ## the layer of MODEL to AWS (PUBLISH_FLAGS="--bucket B --prune 3")
	@$(MODELS); $(PY) -m builder.cli publish "$$@" --target "$(TARGET)" $(PUBLISH_FLAGS)

# A process for each CPU; the tests of one xdist_group share one. JOBS=0: none but this one.
JOBS ?= $(shell nproc)
PYTEST = $(PY) -m pytest -n $(JOBS) --maxprocesses 8 --dist loadscope --no-loadscope-reorder

# What tests bring into the environments must be there before several processes use them.
TESTED := $(VENV)/.test $(VENV)/.wasm $(VENV)/.parquet sam .venv-aws/.done

test: $(TESTED) ## every part for real, in minutes: the units, a build of each kind of model, the emulator, README's commands
	@$(PYTEST) -m "not slow and not full"

# Containers and emulators keep its processes waiting: one more than there are CPUs.
test-all: JOBS = $(shell expr $$(nproc) + 1)
test-all: $(TESTED) .venv-checkov/.done .venv-docs/.done .venv-otel/.done .venv-openai/.done .venv-frames/.done ## every test, Docker, QEMU, Bochs, Node, Chromium, SAM and an AWS emulator included (half an hour)
	@$(PYTEST)

test-unit: $(VENV)/.test ##- tests/unit, which needs no compiler
	@$(PY) -m pytest tests/unit

tools: ##- what the tests call and this machine lacks, from the distribution's packages (as root)
	@tests/tools.sh

.PHONY: test-emulated
test-emulated: $(VENV)/.test ##- the AVX-512 kernels, on a processor that Bochs emulates
	@command -v bochs-bin > /dev/null || { echo "NOTHING WAS RUN: there is no bochs-bin (make tools)" >&2; exit 2; }
	@$(PY) -m pytest tests/integration/test_avx512*.py

.PHONY: instructions
instructions: $(VENV)/.test ##- count again how many instructions runs take, after a change that is meant; writes tests/data/instructions.json
	@RECORD_INSTRUCTIONS=1 $(PY) -m pytest -q -n 0 tests/integration/test_instructions.py -k "emotion or digits or layer"

# Flax, which makes the networks of JAX that are tested.
.venv-flax/.done: requirements/flax.txt
	@test -x .venv-flax/bin/python || "$(PYTHON)" -m venv .venv-flax
	@.venv-flax/bin/python $(PIP) -r requirements/flax.txt
	@touch $@

.PHONY: test-frameworks
test-frameworks: $(VENV)/.test .venv-flax/.done ##- networks of JAX and PyTorch, each built and held against the framework's own answers (minutes)
	@$(PY) -m pytest -m "slow or not slow" tests/integration/test_frameworks.py

.PHONY: test-frames
test-frames: $(TESTED) .venv-frames/.done ##- the Python package in a cluster of Ray, in Spark (Java), and in 16 processes
	@$(PY) -m pytest tests/native/test_predictor.py tests/integration/test_frames.py

.PHONY: coverage
coverage: $(VENV)/.test ##- which lines and branches of builder/runtime and handler the tests run; build/coverage/report.md
	@$(PY) -m tests.coverage

# For each of the targets in tests/fuzz/targets.py; TARGETS="image http" chooses. The figures are in
# build/fuzz/report.json, too.
SECONDS ?= 300
.PHONY: fuzz
fuzz: $(VENV)/.test ##- atheris over what callers and models send, for faults, time and memory; Hypothesis with more examples (SECONDS=300 each)
	@$(PY) -m tests.fuzz --seconds $(SECONDS) $(TARGETS)
	@HYPOTHESIS_PROFILE=long $(PY) -m pytest -q tests/handler

.PHONY: conformance
conformance: $(VENV)/.test .venv-flax/.done ##- every layer of Keras, every network of keras.applications, and those of test-frameworks, built and compared (hours); writes docs/conformance.md
	@$(PY) -m tests.conformance $(GROUPS)

lint: $(VENV)/.test ##- ruff and mypy --strict
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

# Where builds of PyTorch for CPUs are: a folder or a page.
TORCH_WHEELS ?= https://download.pytorch.org/whl/cpu/torch/
LOCK := uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11
lock: ##- resolve every requirements file again (needs uv)
	@$(LOCK) --override requirements/build.overrides.txt --group build pyproject.toml -o requirements/build.txt
	@$(LOCK) -c requirements/build.txt --group test --group lint -o requirements/test.txt
	@$(LOCK) -c requirements/build.txt --override requirements/bench.overrides.txt \
		pyproject.toml requirements/bench.in -o requirements/bench.txt
	@echo wasmtime | $(LOCK) -c requirements/test.txt - -o requirements/wasm.txt
	@echo aws-sam-cli==1.170.0 | $(LOCK) - -o requirements/sam.txt
	@printf 'ministack==1.5.33\naws-sam-translator\ndocker\n' | $(LOCK) - -o requirements/aws.txt
	@printf 'opentelemetry-distro\nopentelemetry-exporter-otlp-proto-http\nopentelemetry-instrumentation-aws-lambda\n' \
		| $(LOCK) - -o requirements/otel.txt
	@echo openai==3.54.0 | $(LOCK) - -o requirements/openai.txt
	@echo checkov==3.3.30 | $(LOCK) - -o requirements/checkov.txt
	@printf 'jax==0.10.2\nflatbuffers\n' | $(LOCK) - -o requirements/jax.txt
	@printf 'torch==2.13.0\ntorchax==0.0.13\njax==0.10.2\nflatbuffers\n' | $(LOCK) --find-links $(TORCH_WHEELS) \
		-c requirements/jax.txt - -o requirements/torch.txt
	@printf 'flax==0.12.8\nflatbuffers\n' | $(LOCK) -c requirements/jax.txt - -o requirements/flax.txt
	@echo tokenizers==0.23.3 | $(LOCK) --no-deps - -o requirements/tokenizers.txt
	@echo pyarrow==26.0.1 | $(LOCK) --no-deps - -o requirements/parquet.txt
	@printf 'ray[data]==2.60.0\npyspark==4.3.0\npandas<3\npyarrow==26.0.1\nnumpy\npillow\n' \
		| $(LOCK) -c requirements/build.txt - -o requirements/frames.txt
	@echo mkdocs-material==9.8.1 | $(LOCK) - -o requirements/docs.txt
	@echo awslambdaric==4.2.2 | $(LOCK) - -o builder/local/requirements.txt
	@$(LOCK) layers/dependencies/requirements.in -o layers/dependencies/requirements.txt

clean: ## everything built; the virtual environments stay
	rm -rf build dist .aws-sam layers/model/content*
