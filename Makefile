# Every target makes .venv and installs what it needs: Python 3.11+, make and a package index are enough.
# Another interpreter: make check PYTHON=python3.13

PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
AGENTS := $(VENV)/.agents
ORIGINALS := $(VENV)/originals
RAY := $(VENV)/.ray
DOCS := $(VENV)/.docs
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LOWEST := .venv-lowest
CORE := $(VENV)/core

# More workers than CI has cores: many tests wait for a process or a server.
WORKERS := -n 4 --dist worksteal

unexport PYTHONDONTWRITEBYTECODE # hundreds of processes of the tests import the same modules

.PHONY: help demo test test-system test-slow test-ray test-lowest check check-core bench bench-calls bench-profile bench-scale simulate images transcripts docs constraints clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo           run the example suite and see a verdict'
	@echo 'make test           the tests, without those of the next two'
	@echo 'make test-system    the tests of whole jobs, checkouts, retries and kills, seconds each'
	@echo 'make test-slow      the tests that take minutes, and more examples of the generated ones'
	@echo 'make test-ray       the tests of Ray clusters alone, which make test-slow has, too'
	@echo 'make test-lowest    the tests with the oldest dependencies that pyproject.toml allows'
	@echo 'make check          format, lint, types, imports, workflows, then the tests'
	@echo 'make check-core     types and tests of the core alone, without ci_evals/plugins'
	@echo 'make bench          measure against a bare aiohttp loop'
	@echo 'make bench-calls    count the modules of each door, and the Python calls of a run and of a case'
	@echo 'make bench-profile  show where the time of a run goes'
	@echo 'make bench-scale    measure Ray and shards: the tables of docs/scale.md'
	@echo 'make simulate       how often verdicts are wrong: the tables of docs/statistics.md'
	@echo 'make docs           build the docs site into site/'
	@echo 'make images         take the pictures of the docs again (needs Chromium)'
	@echo 'make transcripts    record the coding agents of npm again for the tests (needs Node.js)'
	@echo 'make constraints    pin what the action installs again, with hashes'
	@echo 'make clean          remove everything that was made here'

demo: $(RUNTIME)
	@$(BIN)/ci-evals run -c examples/flight_agent/evals.yaml --out ci-evals-results
	@echo
	@echo 'Where to look next:'
	@echo '  ci-evals-results/report.html        the verdict, and every case with its runs: ci-evals view'
	@echo '  ci-evals-results/summary.md         the verdict and what failed, for a reviewer'
	@echo '  ci-evals-results/results.jsonl      every answer with its grades, one run a line'
	@echo '  examples/flight_agent/evals.yaml    the suite: change an expectation and run it again'
	@echo '  examples/flight_agent/agent.py      the agent under test'

test: $(DEV)
	$(BIN)/pytest -m 'not slow and not system' $(WORKERS)

test-system: $(DEV)
	$(BIN)/pytest -m 'system and not slow' $(WORKERS)

test-slow: $(DEV) $(AGENTS) $(ORIGINALS)/.installed $(RAY)
	$(BIN)/pytest -m slow
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -m 'hypothesis and not slow' $(WORKERS)

test-ray: $(DEV) $(RAY)
	$(BIN)/pytest tests/plugins/ray/test_ray.py

test-lowest:
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(LOWEST)/bin/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print('\n'.join(project['dependencies']).replace('>=', '=='))" > $(LOWEST)/oldest.txt
	@$(LOWEST)/bin/python -m pip install --quiet --editable . --group dev --constraint $(LOWEST)/oldest.txt
	$(LOWEST)/bin/pytest -m 'not slow' $(WORKERS)

# A copy without the plug-ins, with a small environment of its own that takes the tools from .venv; tests start uvicorn.
check-core: $(DEV)
	$(BIN)/python .ci/copy_core.py $(CORE)
	$(BIN)/python -m venv $(CORE)/.venv
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
	  $$($(CORE)/.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tools.pth
	$(CORE)/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable $(CORE)
	cd $(CORE) && .venv/bin/python -m mypy
	cd $(CORE) && PATH="$(CURDIR)/$(BIN):$$PATH" .venv/bin/python -m pytest -m 'not slow' $(WORKERS)

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet action.yml .github examples/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml examples/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.gitlab-ci examples/gitlab/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/ci-evals validate -c examples/flight_agent/evals.yaml
	$(BIN)/python -m benchmarks.doors --check
	$(BIN)/python -m benchmarks.calls --check
	$(MAKE) test

bench: $(DEV)
	$(BIN)/python -m benchmarks.bench
	$(BIN)/python -m benchmarks.quota

bench-calls: $(DEV)
	$(BIN)/python -m benchmarks.doors
	$(BIN)/python -m benchmarks.calls

bench-profile: $(DEV)
	$(BIN)/python -m benchmarks.hotspots

bench-scale: $(DEV) $(RAY)
	$(BIN)/python -m benchmarks.scale

simulate: $(DEV)
	$(BIN)/python -m benchmarks.simulate
	$(BIN)/python -m benchmarks.drift
	$(BIN)/python -m benchmarks.pictures

images: $(DEV)
	PYTHONPATH=tests/support:tests/plugins/support $(BIN)/python tests/plugins/support/screenshots.py docs/images

transcripts: $(DEV)
	PYTHONPATH=tests/support $(BIN)/python tests/plugins/support/record_transcripts.py $(VENV)/coding-agents \
	  tests/data/transcripts

COMPILE := $(BIN)/uv pip compile --quiet --no-config --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-annotate --custom-compile-command 'make constraints'

constraints: $(RUNTIME)
	@$(PIP) install uv
	$(COMPILE) pyproject.toml --output-file .ci/constraints.txt
	echo 'hatchling>=1.26' | $(COMPILE) - --output-file .ci/build-constraints.txt

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf site $(VENV) $(LOWEST) build dist ci-evals-results .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find ci_evals tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ci-evals needs Python 3.11 or later: try make PYTHON=python3.13")'
	@echo 'Installing into $(VENV) ...'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --editable .
	@touch $@

$(DEV): $(RUNTIME)
	@echo 'Installing the development tools ...'
	@$(PIP) install --group dev
	@touch $@

$(DOCS): $(RUNTIME)
	@echo 'Installing what makes the docs site ...'
	@$(PIP) install --group docs
	@touch $@

$(AGENTS): $(DEV)
	@echo 'Installing the agent frameworks of the examples ...'
	@$(PIP) install --group agents
	@touch $@

# The tools whose suites are imported, which tests compare with what the import makes of them.
$(ORIGINALS)/.installed: $(DEV)
	@echo 'Installing the tools that suites are imported from ...'
	@$(PYTHON) -m venv $(ORIGINALS)
	@$(ORIGINALS)/bin/python -m pip install --quiet --disable-pip-version-check 'inspect_ai>=0.3.285' 'pydantic-evals>=2.62'
	@if command -v npm > /dev/null; then \
	  npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(ORIGINALS) 'promptfoo@>=0.121'; \
	else echo 'no npm: tests with promptfoo are skipped'; fi
	@touch $@

$(RAY): $(DEV)
	@echo 'Installing Ray ...'
	@$(PIP) install --editable '.[ray]' --group ray
	@touch $@
