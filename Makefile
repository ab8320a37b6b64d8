# coldforge: `make bundle`, then `make invoke IMAGE=photo.jpg`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: help help-developers doctor setup bundle wasm bindings invoke serve sam sam-build local-invoke local-api \
	deploy publish docs test test-all test-unit test-frameworks tools instructions coverage fuzz conformance lint lock clean
# BUILD_IN: docker, host, or auto, which is Docker when an engine answers. Both give the same library.
# TARGET: x86_64, arm64 (Graviton) or all; empty is what model.toml says, and x86_64 if it says nothing.
# PACKAGE: zip, the function with two layers; or image, a container image, for models that no layer holds.
# INSTANCES: not empty for Lambda Managed Instances. ENV: an environment of samconfig.toml, such as dev or prod.
MODEL ?= emotion
IMAGE ?= tests/data/face.jpg
BUILD_IN ?= auto
PACKAGE ?= zip
ENV ?= default
LANGUAGE ?= c
LANGUAGES := c rust go node python
PY := .venv/bin/python
# MODEL is one model or several: a list, or one path that may have spaces in it.
MODELS = if [ -e "$(MODEL)" ]; then set -- "$(MODEL)"; else set -- $(MODEL); fi
# Examples whose model is trained here rather than fetched, which needs what a build needs.
TRAINED := digits age_gender languages minilm wine

$(if $(and $(INSTANCES),$(filter image,$(PACKAGE))),$(error INSTANCES is for zip functions, PACKAGE=image for containers))
$(if $(filter bindings,$(MAKECMDGOALS)),$(if $(filter $(LANGUAGE),$(LANGUAGES)),,$(error there are no bindings for \
	LANGUAGE=$(LANGUAGE); it is one of: $(LANGUAGES))))
# The first in $(1) that TensorFlow's wheel and the locks support. PYTHON=... chooses another.
supported = $(shell for python in $(1); do "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	2> /dev/null && echo "$$python" && break; done)
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
# Commands that need no package run in the virtual environment where there is one, and without one where there is none.
COLDFORGE = $(or $(wildcard $(PY)),"$(PYTHON)") -m builder.cli

help: ## this list; `make help-developers` has what coldforge itself is tested and changed with
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	@echo "  MODEL=emotion|digits|languages|age_gender|path/to/model.toml   V=1 (verbose)   BUILD_IN=docker|host|auto   TARGET=x86_64|arm64|all   PYTHON=python3.12"
help-developers: ##- what changes to coldforge are made with
	@grep -hE '^[a-z0-9-]+:.*##- ' Makefile | awk -F':.*##- ' '{printf "  make %-17s %s\n", $$1, $$2}'

# Virtual environments. A lock is complete: --no-deps leaves pip nothing to resolve.
PIP := -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes
.venv/.build: requirements/build.txt pyproject.toml
	@$(PY) -m pip --version > /dev/null 2>&1 || "$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: install its venv (apt-get install python3-venv)" >&2; exit 19; }
	@echo "setting up .venv with $(PYTHON) (once; about 700 MB to fetch)"
	@$(PY) -m pip --version > /dev/null 2>&1 || "$(PYTHON)" -m venv .venv
	@$(PY) $(PIP) -r requirements/build.txt
	@$(PY) -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

# Packages beside a build's: those of tests (.test), and optional ones of commands (.wasm, .parquet).
.venv/.%: requirements/%.txt .venv/.build
	@$(PY) $(PIP) -r $<
	@touch $@

# Environments of their own: SAM, checkov and MkDocs, an emulator of AWS, and what tests call.
.venv-%/.done: requirements/%.txt
	@test -x $(@D)/bin/python || "$(PYTHON)" -m venv $(@D)
	@$(@D)/bin/python $(PIP) -r $<
	@touch $@

# A layer with OpenTelemetry brings a folder on the function's path, as in /opt/python.
.venv-otel/.done: requirements/otel.txt .venv/.build
	@rm -rf .venv-otel/python
	@$(PY) $(PIP) --target .venv-otel/python -r $<
	@touch $@

doctor: ## what this machine has, and what it lacks for which command
	@$(COLDFORGE) doctor
setup: .venv/.build ## the virtual environment with everything a build needs; .venv/bin/coldforge has all commands
	@:
$(TRAINED:%=build/%/model.keras): build/%/model.keras: | setup
	@$(PY) -m builder.sources.trained_examples $*
bundle: $(if $(filter $(TRAINED),$(MODEL)),setup) ## compile MODEL and pack it for Lambda, in dist/; MODEL="a b" packs both
	@$(MODELS); route=$$("$(PYTHON)" -m builder.cli where "$$@" --in $(BUILD_IN)) || exit $$?; python="$(PYTHON)"; \
	if [ $$route = host ]; then $(MAKE) --no-print-directory setup; fi; if [ -x $(PY) ]; then python=$(PY); fi; \
	"$$python" -m builder.cli bundle "$$@" --in $$route --target "$(TARGET)" --package $(PACKAGE) $(if $(V),--verbose)
wasm: .venv/.wasm ## compile MODEL to WebAssembly, in dist/<model>/wasm/
	@$(PY) -m builder.cli wasm "$(MODEL)"
bindings: $(if $(STATIC),setup) $(if $(filter node,$(LANGUAGE)),wasm) bundle ## a package that calls MODEL from LANGUAGE=c|rust|go|node|python, in dist/bindings/; STATIC=1 adds libmodel.a
	@$(COLDFORGE) bindings "$(MODEL)" --lang $(LANGUAGE) --target "$(TARGET)" $(if $(STATIC),--static) $(if $(OUT),--out "$(OUT)")

# IMAGE's default is for models that take an image alone, which the command knows.
invoke: ## run the bundle of MODEL on IMAGE, on TEXT, or on the request in INPUTS=FILE|-, in Lambda's emulator, without Docker
	@$(MODELS); $(COLDFORGE) invoke "$$@" --target "$(TARGET)" $(if $(INPUTS),--inputs "$(INPUTS)",$(if $(TEXT),--text \
		"$$TEXT",$(if $(filter-out file,$(origin IMAGE)),--image "$(IMAGE)")))
serve: ## the bundle of MODEL behind http://127.0.0.1:8080 (PORT=..., CORS=...), without Docker
	@$(MODELS); $(COLDFORGE) serve "$$@" --port $(or $(PORT),8080) --cors "$(CORS)"

SAM := SAM_CLI_TELEMETRY=0 .venv-sam/bin/sam
# $(DEPLOY) FLAGS: the bundle of MODEL in the stack of the template, WITH add-ons (A,B) and PARAMETERS (NAME=VALUE ...).
DEPLOY = $(MODELS); $(COLDFORGE) deploy "$$@" --target "$(TARGET)" --package $(if $(INSTANCES),instances,$(PACKAGE)) \
	--env "$(ENV)" --stack "$(STACK)" $(if $(WITH),--with "$(WITH)") $(if $(PARAMETERS),--parameters $(PARAMETERS))
sam: .venv-sam/.done ## AWS SAM CLI in .venv-sam
sam-build: sam ## the stack with the bundle of MODEL, in .aws-sam
	@$(DEPLOY) --build-only
local-invoke: sam-build ## the function on IMAGE in Lambda's container image (Docker)
	@printf '{"image": "%s"}' "$$(base64 < "$(IMAGE)" | tr -d '\n')" | $(SAM) local invoke Function --event - $(SAM_FLAGS)
local-api: override WITH := $(WITH:%=%,)http-api
local-api: sam-build ## the function behind http://127.0.0.1:3000/predict (Docker)
	@$(SAM) local start-api --port $(or $(PORT),3000) --warm-containers LAZY $(SAM_FLAGS)
deploy: setup sam ## the bundle of MODEL to AWS, with sam deploy, as the stack coldforge-MODEL (WITH=add-ons, ENV=dev|staging|prod, STACK=...)
	@$(DEPLOY) --sam-flags="$(SAM_FLAGS)"
publish: setup ## the layer of MODEL to AWS (PUBLISH_FLAGS="--bucket B --prune 3")
	@$(MODELS); $(PY) -m builder.cli publish "$$@" --target "$(TARGET)" $(PUBLISH_FLAGS)

docs: .venv-docs/.done ## the pages of docs/ as a site in build/site, every link checked
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build
# A process for each CPU; the tests of one xdist_group share one. JOBS=0: none but this one.
JOBS ?= $(shell nproc)
PYTEST = $(PY) -m pytest -n $(JOBS) --maxprocesses 8 --dist loadscope --no-loadscope-reorder
TESTED := .venv/.test .venv/.wasm .venv/.parquet sam .venv-aws/.done
test: $(TESTED) ## every part for real, in minutes: the units, a build of each kind of model, the emulator, README's commands
	@$(PYTEST) -m "not slow and not full"
# Containers and emulators keep its processes waiting: one more than there are CPUs.
test-all: JOBS = $(shell expr $$(nproc) + 1)
test-all: $(TESTED) $(patsubst %,.venv-%/.done,checkov docs otel openai frames) ## every test, Docker, QEMU, Bochs, Node, Chromium, SAM and an AWS emulator included (half an hour)
	@$(PYTEST)

test-unit: .venv/.test ##- tests/unit, which needs no compiler
	@$(PY) -m pytest tests/unit
test-frameworks: .venv/.test .venv-flax/.done ##- networks of JAX and PyTorch, each built and held against the framework's own answers (minutes)
	@$(PY) -m pytest -m "slow or not slow" tests/integration/test_frameworks.py tests/integration/test_published_models.py
tools: ##- what the tests call and this machine lacks, from the distribution's packages (as root)
	@tests/tools.sh
instructions: .venv/.test ##- count again how many instructions runs take, after a change that is meant; writes tests/data/instructions.json
	@RECORD_INSTRUCTIONS=1 $(PY) -m pytest -q -n 0 tests/integration/test_instructions.py -k "emotion or digits or layer or network"
coverage: .venv/.test ##- which lines and branches of builder/runtime and handler the tests run; build/coverage/report.md
	@$(PY) -m tests.coverage
fuzz: .venv/.test ##- atheris over what callers and models send; Hypothesis with more examples (SECONDS=300 each, TARGETS="image http")
	@$(PY) -m tests.fuzz --seconds $(or $(SECONDS),300) $(TARGETS)
	@HYPOTHESIS_PROFILE=long $(PY) -m pytest -q tests/handler
conformance: .venv/.test .venv-flax/.done ##- every layer and network of Keras, and those of test-frameworks, built and compared (hours); writes docs/conformance.md
	@$(PY) -m tests.conformance $(GROUPS)
lint: .venv/.test ##- ruff, mypy --strict and the budget of lines
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy
	@$(PY) -m tests.line_budget
lock: ##- resolve every requirements file again (needs uv)
	@requirements/lock.sh
clean: ## everything built; the virtual environments stay
	rm -rf build dist .aws-sam layers/*/content* layers/function layers/model
