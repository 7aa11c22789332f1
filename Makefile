# `make demo` plays the story, `make test` checks everything. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

ifndef PYTHON
PYTHON := $(shell .ci/choose-python)
endif
export PYTHON
# Hundreds of processes are started; without compiled files each of them compiles everything it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
VENV_NEXT := .venv-next
RUN := $(VENV)/bin/python
RUN_NEXT := $(VENV_NEXT)/bin/python
VENV_ADAPTERS := .venv-adapters
RUN_ADAPTERS := $(VENV_ADAPTERS)/bin/python
# Python compiles the modules that are used, which are a small part of these packages.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# `venv --clear` follows a link and empties the environment of another working tree.
REFUSE_LINK = @[[ ! -L $(@D) ]] || { echo "$(@D) is a link to another environment, which is out of date and would be emptied. Remove the link, or update that one." >&2; exit 1; }
# Without an address of a database, everything runs on SQLite.
ON_SQLITE := env -u HARNESS_DATABASE_URL -u HARNESS_DATABASE_URL_FILE
IN_MEMORY := $(RUN) -m tests.support.files_in_memory --
ON_POSTGRES := $(IN_MEMORY) $(RUN) -m tests.support.cluster --
# Some tests wait for disks and for other processes. Each process has a database of its own, and takes fifteen seconds of processor time
# to collect all tests and to load the site.
BESIDE := --numprocesses 3 --dist worksteal
# What Django itself renders, parses and reads most of. An exhaustive run tries the second list on the newest Django.
NEWEST_MATTERS := site notifications/test_mail_backend.py $(addprefix checkpoints/,resume versions) \
	$(addprefix review/test_,decision_card.py record_decision_from_form.py)
NEWEST_LESS_OFTEN := review
# What reads and writes the database in ways of its own: the pages above it are much the same on every database. An exhaustive run
# tries the second list on PostgreSQL.
POSTGRES_MATTERS := $(addprefix tests/,concurrency $(addprefix property/test_,state_machine.py hot_statements.py) \
	$(addprefix crash/test_,every_boundary.py http_kills.py) \
	$(addprefix integration/,api checkpoints search sessions/test_session_list.py review/test_queue.py)) \
	$(addprefix --ignore=tests/,$(addprefix integration/checkpoints/,importers archive loop_state test_open_and_migrate.py \
		$(addprefix integrity/test_,mistyped_values.py signed_decisions.py session_names_in_witness.py missing_sessions.py)) \
		concurrency/test_peers_over_http.py $(addprefix integration/api/,remote/test_contract.py test_reference_page_content.py test_bad_input.py)) \
	--deselect=tests/crash/test_http_kills.py::test_database_killed_in_each_write \
	--deselect=tests/crash/test_every_boundary.py::test_every_writing_operation_is_among_the_boundaries
POSTGRES_LESS_OFTEN := $(addprefix tests/integration/checkpoints/,test_configuration.py test_async_client.py write_behind \
	$(addprefix decisions/test_,refused_decisions.py verification.py) \
	$(addprefix integrity/test_,integrity_commands.py live_runs.py other_attacks.py attacks_on_resume.py) peers/test_secret_encryption.py \
	resume/test_unrepresentable_arguments.py sessions/test_async_session_handle.py sessions/test_program_listing.py \
	$(addprefix tools/test_,answered_versions.py async_dispatch.py foreign_tool_guard.py outcomes.py risk.py \
	tools_that_outlive_their_dispatch.py unanswered.py) $(addprefix workflows/test_,async_workflow.py step_values.py unknown_steps.py)) \
	$(addprefix tests/integration/api/,test_heartbeat_request_batching.py test_openai_conversations.py test_otlp_traces.py \
	test_token_requests.py $(addprefix remote/test_,http_connections.py page.py transport.py))

# What tries a part of its cases in an ordinary run, all of them with HARNESS_TEST_EXHAUSTIVE=1.
EXHAUSTIVE_MATTERS := $(addprefix tests/,concurrency crash mutations property \
	integration/hostile/test_forged_texts.py integration/api/test_bad_input.py \
	$(addprefix integration/checkpoints/,importers/test_import_workers.py versions/test_concurrent_modification.py $(addprefix integrity/test_, \
	mistyped_values.py sessions_verified_together.py signed_decisions.py session_names_in_witness.py missing_sessions.py)))
# On SQLite alone.
EXHAUSTIVE_ON_SQLITE := $(addprefix tests/,$(addprefix unit/core/test_,linear_growth.py masking_of_long_texts.py) integration/embedding/test_site.py integration/api/remote/test_contract.py \
	$(addprefix integration/hostile/test_,broken_records.py extreme_values.py hostile_text.py read_audit_of_every_url.py))

# All modules with more cases in an exhaustive run.
HAVE_MORE_CASES = $$(grep -rl --include='test_*.py' exhaustive_mode tests --exclude-dir=adapters)

# A browser of the session keeps the event loop of its process, so it has a process without other tests, beside them.
ADAPTERS_IN_BROWSER := tests/adapters/test_decided_in_browser.py
# Stores of the adapters, writers at the same time and kills. An exhaustive run tries the second list on PostgreSQL too: tools and other
# kills, which write with the same functions.
ADAPTERS_ON_POSTGRES := $(addprefix tests/adapters/, \
	langgraph/test_conformance.py langgraph/test_delta_channels.py langgraph/test_killed_updates.py \
	claude/test_compactions.py claude/test_conformance.py claude/test_real_program.py claude/test_session_store.py \
	google_adk/test_session_service.py \
	openai_agents/test_session.py pydantic_ai/test_conversations.py \
	strands/test_repository.py)
ADAPTERS_POSTGRES_LESS_OFTEN := $(addprefix tests/adapters/,google_adk/test_tools.py strands/test_tools.py \
	pydantic_ai/test_tools.py claude/test_tool_hooks.py \
	$(addprefix claude/test_real_program.py::,test_a_killed_agent_asks_in_each_fork_and_has_one_effect \
	test_a_killed_program_is_asked_about_by_the_process_that_started_it \
	test_a_call_of_a_killed_agent_that_is_confirmed_before_the_next_run_is_not_made_again))
# Each process imports all frameworks, which takes twelve seconds of processor time.
FEW_BESIDE := --numprocesses 2 --dist worksteal

# ------------------------------------------------------------------------------------------------ to run it

.PHONY: demo
demo: setup ## Play the story: an agent dies in a payment, you decide in the browser (PORT=8000)
	@$(RUN) manage.py migrate --verbosity 0
	@$(RUN) -m examples.demo

.PHONY: setup
setup: $(VENV)/.complete ## Set up the environment in .venv from requirements.lock

$(VENV)/.complete: requirements.lock
	$(REFUSE_LINK)
	@.ci/system-parts python
	@echo "Setting up $(VENV) (once, about a minute) …"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(RUN) $(PIP_INSTALL) --require-hashes -r requirements.lock
	@touch $@

# ---------------------------------------------------------------------------------------------- to check it

.PHONY: test
test: environments still suites ## Check everything

# Environments are set up beside each other and what the system lacks, because all of this waits for packages half of the time.
.PHONY: environments
environments:
	@.ci/system-parts python
	@.ci/side-by-side "$(MAKE) setup" "$(MAKE) next" "$(MAKE) typescript" "$(MAKE) system"

.PHONY: still
still: setup
	@.ci/side-by-side "$(MAKE) lint types contract check" "$(MAKE) adapters"

# The tests in the browser and of the adapters wait for programs half of the time, so they run beside all others from the beginning: at the
# end, the processors would have nothing else to do meanwhile.
.PHONY: suites
suites: setup adapters
	@.ci/side-by-side "$(MAKE) test-sqlite test-postgres test-next" "$(MAKE) test-e2e test-adapters"

.PHONY: system
system:
	@.ci/system-parts python chromium postgresql gettext

.PHONY: lint
lint: setup ## Style of code and templates
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	find templates -name '*.html' -print0 | xargs -0 $(VENV)/bin/djade --check

.PHONY: types
types: setup ## Types
	$(VENV)/bin/mypy

.PHONY: contract
contract: setup ## Who may import whom
	$(VENV)/bin/lint-imports --no-logo

.PHONY: check
check: setup ## Django's own checks, no migration is missing, and the tests with more cases in test-exhaustive can be collected with them
	$(ON_SQLITE) $(RUN) manage.py check --fail-level WARNING
	$(ON_SQLITE) $(RUN) manage.py makemigrations --check --dry-run
	HARNESS_TEST_EXHAUSTIVE=1 $(ON_SQLITE) $(RUN) -m pytest --collect-only -qq $(HAVE_MORE_CASES)

.PHONY: typescript
typescript: ## Set up the tools of the TypeScript client, whose tests run with the others
	@if command -v node >/dev/null && command -v npm >/dev/null && $(MAKE) clients/typescript/node_modules/.complete; then :; \
	elif [[ -n "$${CI:-}" ]]; then echo "The TypeScript client cannot be tested." >&2; exit 1; \
	else echo "Note: node and npm 20 with a registry were not found, so the TypeScript client is not tested."; fi

clients/typescript/node_modules/.complete: clients/typescript/package.json
	@cd clients/typescript && npm install --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

.PHONY: test-sqlite
test-sqlite: setup ## Tests on SQLite
	$(IN_MEMORY) $(ON_SQLITE) $(RUN) -m pytest $(BESIDE)

.PHONY: test-postgres
test-postgres: setup ## Tests on a throw-away PostgreSQL, without those that are much the same on every database or start a server of their own
	@.ci/system-parts postgresql
	HARNESS_TEST_SAMPLED=1 $(ON_POSTGRES) $(RUN) -m pytest $(BESIDE) $(POSTGRES_MATTERS) $(addprefix --ignore=,$(POSTGRES_LESS_OFTEN))

.PHONY: test-exhaustive
test-exhaustive: setup adapters ## Crash, property and other tests with all of their cases and more examples, most on both databases (about an hour)
	HARNESS_TEST_EXHAUSTIVE=1 $(IN_MEMORY) $(ON_SQLITE) $(RUN) -m pytest $(BESIDE) $(EXHAUSTIVE_MATTERS) $(EXHAUSTIVE_ON_SQLITE)
	HARNESS_TEST_EXHAUSTIVE=1 $(IN_MEMORY) $(ON_SQLITE) $(RUN) -m pytest $(BESIDE) -m exhaustive
	$(MAKE) test-next NEWEST_MATTERS="$(NEWEST_LESS_OFTEN)"
	HARNESS_TEST_EXHAUSTIVE=1 $(IN_MEMORY) $(ON_SQLITE) $(RUN_ADAPTERS) -m pytest $(FEW_BESIDE) -m exhaustive --ignore=$(ADAPTERS_IN_BROWSER) tests/adapters
	@.ci/system-parts chromium
	HARNESS_TEST_EXHAUSTIVE=1 $(IN_MEMORY) $(ON_SQLITE) $(RUN_ADAPTERS) -m pytest $(FEW_BESIDE) -m exhaustive $(ADAPTERS_IN_BROWSER)
	HARNESS_TEST_EXHAUSTIVE=1 $(IN_MEMORY) $(ON_SQLITE) $(RUN) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder tests/e2e
	@.ci/system-parts postgresql
	HARNESS_TEST_EXHAUSTIVE=1 $(ON_POSTGRES) $(RUN) -m pytest $(BESIDE) $(EXHAUSTIVE_MATTERS) $(POSTGRES_LESS_OFTEN) \
		--ignore=tests/concurrency/test_peers_over_http.py
	$(ON_POSTGRES) $(RUN) -m pytest $(BESIDE) $(POSTGRES_MATTERS) $(addprefix --ignore=,$(POSTGRES_LESS_OFTEN))
	HARNESS_TEST_EXHAUSTIVE=1 $(ON_POSTGRES) $(RUN_ADAPTERS) -m pytest $(FEW_BESIDE) -m exhaustive $(ADAPTERS_ON_POSTGRES)
	HARNESS_TEST_EXHAUSTIVE=1 $(ON_POSTGRES) $(RUN_ADAPTERS) -m pytest $(FEW_BESIDE) $(ADAPTERS_POSTGRES_LESS_OFTEN)

.PHONY: test-next
test-next: ## Tests on the newest Django, where a Python is found that it runs on
	@if newer="$$(.ci/newer-python)"; then $(MAKE) NEWER="$$newer" test-on-newer; \
	elif [[ -n "$${CI:-}" ]]; then echo "No Python 3.12 or newer found: the newest Django is not tested." >&2; exit 1; \
	else echo "Note: no Python 3.12 or newer found, so the newest Django was not tested."; fi

.PHONY: test-on-newer
test-on-newer: setup $(VENV_NEXT)/.complete
	HARNESS_TEST_SAMPLED=1 $(IN_MEMORY) $(ON_SQLITE) $(RUN_NEXT) -m pytest $(BESIDE) --numprocesses 2 $(addprefix tests/integration/,$(NEWEST_MATTERS))

.PHONY: next
next:
	@if newer="$$(.ci/newer-python)"; then $(MAKE) NEWER="$$newer" $(VENV_NEXT)/.complete; fi

$(VENV_NEXT)/.complete: requirements.lock
	$(REFUSE_LINK)
	@echo "Setting up $(VENV_NEXT) with $(NEWER) …"
	@$(NEWER) -m venv --clear $(VENV_NEXT)
	@$(RUN_NEXT) $(PIP_INSTALL) --require-hashes -r requirements.lock
	@touch $@

.PHONY: test-adapters
test-adapters: $(VENV_ADAPTERS)/.complete $(VENV_ADAPTERS)/.claude-program ## Tests of the adapters with their frameworks, and the frameworks' own tests on both databases
	@.ci/system-parts postgresql chromium
	@.ci/side-by-side \
		"$(IN_MEMORY) $(ON_SQLITE) $(RUN_ADAPTERS) -m pytest $(FEW_BESIDE) --ignore=$(ADAPTERS_IN_BROWSER) tests/adapters; \
		$(ON_POSTGRES) $(RUN_ADAPTERS) -m pytest $(FEW_BESIDE) $(ADAPTERS_ON_POSTGRES) \
			$(addprefix --deselect=,$(ADAPTERS_POSTGRES_LESS_OFTEN))" \
		"$(IN_MEMORY) $(ON_SQLITE) $(RUN_ADAPTERS) -m pytest $(ADAPTERS_IN_BROWSER)"

.PHONY: adapters
adapters: $(VENV_ADAPTERS)/.complete $(VENV_ADAPTERS)/.claude-program

# It has the packages of $(VENV), and the frameworks beside them. The wheels of the Claude Agent SDK bring a program of 360 MB, Claude
# Code; its source does not.
$(VENV_ADAPTERS)/.complete: tests/adapters/requirements.lock $(VENV)/.complete
	$(REFUSE_LINK)
	@echo "Setting up $(VENV_ADAPTERS) …"
	@$(PYTHON) -m venv --clear $(VENV_ADAPTERS)
	@packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	$(RUN) -c "$$packages" > "$$($(RUN_ADAPTERS) -c "$$packages")/harness.pth"
	@$(RUN_ADAPTERS) $(PIP_INSTALL) --no-binary claude-agent-sdk --require-hashes -r tests/adapters/requirements.lock
	@touch $@

# Only the tests of the adapter start the program. A new environment is empty, so it is fetched again then.
$(VENV_ADAPTERS)/.claude-program: | $(VENV_ADAPTERS)/.complete
	@echo "Fetching Claude Code …"
	@$(RUN_ADAPTERS) -m tests.support.claude_program
	@touch $@

# The tests of a file share a site, which each process that has one of them starts for itself. The longest files begin first.
.PHONY: test-e2e
test-e2e: setup ## The story in a real browser
	@.ci/system-parts chromium
	$(IN_MEMORY) $(ON_SQLITE) $(RUN) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder tests/e2e

# --------------------------------------------------------------------------------------------- to keep it up

.PHONY: screenshots
screenshots: setup ## Take the pictures of the README again
	@.ci/system-parts chromium
	$(RUN) -m tests.support.screenshots

.PHONY: picture
picture: setup ## Draw docs/images/structure.svg from the import contract
	$(RUN) -m tests.support.import_contract_diagram

.PHONY: reference
reference: setup ## Write docs/api.md again from signatures and docstrings
	$(RUN) -m tests.support.library_reference_page

.PHONY: messages
messages: setup ## Collect the words of pages into harness_site/locale, and compile them
	@.ci/system-parts gettext
	$(RUN) -m tests.support.translation_catalogues

.PHONY: api-examples
api-examples: setup ## Record the examples on the page of the HTTP API again
	$(RUN) -m tests.support.api_reference_examples

.PHONY: typescript-types
typescript-types: setup typescript ## Generate the types of the TypeScript client from the OpenAPI document
	$(RUN) -m tests.support.typescript_types

.PHONY: benchmarks
benchmarks: setup ## Measure against other stores, write docs/benchmarks.md and docs/benchmarks-frameworks.md (on a quiet machine)
	@.ci/system-parts python postgresql
	$(RUN) -m benchmarks
	@$(MAKE) benchmarks-frameworks

.PHONY: benchmarks-frameworks
benchmarks-frameworks: $(VENV_ADAPTERS)/.complete ## Measure the frameworks' stores, write docs/benchmarks-frameworks.md (about two minutes)
	@.ci/system-parts python postgresql
	$(RUN_ADAPTERS) -m benchmarks.framework_store_costs

# The frameworks of the adapters are in a lock file of their own.
LOCKED_EXTRAS := $(addprefix --extra ,postgres secrets remote mcp site dev)

# The frameworks are tested with the packages of requirements.lock, except those of which openai-agents (websockets) and
# strands-agents (the others) want older ones.
.PHONY: lock
lock: ## Write requirements.lock after a change of pyproject.toml; versions already in it stay
	@tools="$$(mktemp -d)"; trap 'rm -rf "$$tools"' EXIT; \
	$(PYTHON) -m venv "$$tools"; \
	"$$tools/bin/python" $(PIP_INSTALL) uv; \
	"$$tools/bin/uv" pip compile --quiet --universal --generate-hashes --python-version 3.11 $(LOCKED_EXTRAS) $(LOCK_OPTIONS) \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		--output-file requirements.lock pyproject.toml; \
	awk '/^(websockets|mcp|mcp-types|opentelemetry-api)==/ {skip = 1; next} /^[^ ]/ {skip = 0} !skip' requirements.lock > "$$tools/constraints.txt"; \
	"$$tools/bin/uv" pip compile --quiet --universal --generate-hashes --python-version 3.11 --constraint "$$tools/constraints.txt" \
		--no-annotate \
		$(LOCK_OPTIONS) --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		--output-file tests/adapters/requirements.lock tests/adapters/requirements.in; \
	for part in requirements requirements-older; do \
		"$$tools/bin/uv" pip compile --quiet --universal --generate-hashes --python-version 3.11 $(LOCK_OPTIONS) \
			--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
			--output-file benchmarks/$$part.lock benchmarks/$$part.in; \
	done

.PHONY: upgrade
upgrade: LOCK_OPTIONS := --upgrade
upgrade: lock ## Write requirements.lock with the newest versions of everything

.PHONY: clean
clean: ## Remove environments and caches; databases stay
	rm -rf $(VENV) $(VENV_NEXT) $(VENV_ADAPTERS) .venv-bench .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache \
		clients/typescript/node_modules clients/typescript/dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## This list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r target meaning; do \
		printf 'make %-14s %s\n' "$$target" "$$meaning"; done
