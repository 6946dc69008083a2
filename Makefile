# Everything runs in one virtual environment, .venv, which each target first brings up to date (tools/environment.py).
PYTHON ?= python3
TESTS ?= tests
PROCESSES ?= 3
SOAK ?= 0 300000
KILLS ?= 1000
CHAOS ?=
SPARK ?=
BIN := .venv/bin

# Python keeps what it has compiled, whatever the user's environment says: tests start hundreds of controllers and commands.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help servers environment jars demo bench pictures soak chaos test full versions quick coverage lowest check reference site format lock release clean

help: ## Show what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

HAS_PYTHON := command -v $(PYTHON) >/dev/null || { echo "strandline needs $(PYTHON); install it with: apt-get install -y python3 python3-venv" >&2; exit 1; }

environment: ## Make or update the virtual environment .venv
	@$(HAS_PYTHON)
	@$(PYTHON) tools/preflight.py --java

servers: ## Install what tests and measurements run on: Java, PostgreSQL, Maven for Kafka, Chromium, wrk, small programs
	@$(HAS_PYTHON)
	@$(PYTHON) tools/preflight.py --check-only --java --postgres --maven --chromium --wrk --programs

jars: ## Fetch Kafka and Spark's Kafka connector from Maven Central, as the tests do when they need them; installs nothing
	$(PYTHON) tools/jars.py

demo: environment ## Watch an exact watermark beside Spark's own; KNOBS="--outage 12" turns knobs
	$(BIN)/strandline demo --spark $(KNOBS)

bench: servers environment ## Measure everything beside its ceiling or rival, in 23 minutes; BENCH="--only notes,marks" measures some of it
	$(BIN)/python -m benchmarks $(BENCH)

pictures: servers environment ## Take the pictures of the dashboard in docs/images
	$(BIN)/python -m tests.dashboard.pictures

soak: servers coverage ## Replay half an hour in Spark, kill controllers and stores KILLS=1000 times on each store, serve 10 000 streams and as many writers, then run drawn histories of each suite by the thousand, those of the plain model for an hour, or SOAK="0 3000000"
	STORY=full $(BIN)/python -m pytest --timeout 3600 tests/spark/test_phones.py tests/spark_cluster tests/demo/test_run.py
	$(BIN)/python -m tests.chaos --store sqlite --kills $(KILLS)
	$(BIN)/python -m tests.chaos --store postgresql --kills $(KILLS)
	$(BIN)/python -m tests.chaos --store postgresql --controllers 3 --round 20 --kills $(KILLS)
	$(BIN)/python -m tests.chaos --store postgresql --controllers 3 --kinds kill,fail_over,pause_in_transaction --round 3 --network calm --kills 60
	MANY_STREAMS=10000 $(BIN)/python -m pytest --timeout 900 tests/controller/test_many_streams.py
	MANY_WRITERS=10000 $(BIN)/python -m pytest --timeout 900 tests/writer_client/test_many_writers.py
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest --timeout 3600 $(QUICK)
	$(BIN)/python -m tests.drawn histories 0 3000
	$(BIN)/python -m tests.drawn relays 0 3000
	$(BIN)/python -m tests.drawn kafka 0 100
	$(BIN)/python -m tests.drawn three-kafkas 0 50
	$(BIN)/python -m tests.drawn caches 0 10000
	$(BIN)/python -m tests.drawn stored-caches 0 1000
	$(BIN)/python -m tests.drawn several 0 3000
	$(BIN)/python -m tests.drawn model $(SOAK)

chaos: servers environment ## Kill controllers under load and judge what their clients saw; KILLS=100, CHAOS="--store postgresql --seed 7"
	$(BIN)/python -m tests.chaos --kills $(KILLS) $(CHAOS)

# Processes side by side, since tests also wait. The same examples each time, and no second try: a test that depends on
# chance fails here.
RUN := $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder --durations 40
test: servers environment ## Run the tests that protect most, in five minutes; TESTS=tests/repository runs some of them
	$(if $(filter tests,$(TESTS)),$(BIN)/python -m tests.java)
	$(RUN) -m "not full" $(TESTS)

# Real processes that are killed and machines that are busy have moments of their own: what fails runs once more, alone, and
# the last lines name it.
full: servers environment ## Run what make test leaves out, in 13 minutes: kills, fail-over, both stores, Spark's matrices and cluster, every page
	HYPOTHESIS_PROFILE=full $(RUN) -m full $(TESTS) \
		|| { test $$? -eq 1 && echo "These failed and run once more, alone:" && HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest -m full --last-failed --last-failed-no-failures none -r fEp $(TESTS); }

versions: servers environment ## Run the tests that depend on Spark's release on each that works but .venv's, in an environment of its own; SPARK=4.1.4 runs one
	$(BIN)/python -m tools.versions $(SPARK)

# What needs no server, no browser and no Java: the core, the wire, what a client sends again, and this repository's own rules.
QUICK := $(addprefix tests/,admission aggregate assessment async_work audit backlog chain $(addprefix client/,test_calls.py test_retry.py) clock coalesce cut event_time event_windows incomplete order progress repository segment time_index time_units tokens/test_patterns.py tokens/test_redaction.py door/test_hosts.py window wire)
quick: environment ## Run the tests that need no server, in a minute
	$(RUN) -m "not full" $(QUICK)

# What a test of the core has to reach: every branch.
CORE := $(addprefix tests/,admission aggregate assessment async_work audit backlog chain clock coalesce cut event_time event_windows incomplete model order progress segment several/test_caches.py time_index time_units tokens/test_patterns.py tokens/test_redaction.py door/test_hosts.py window wire/test_problems.py)
coverage: environment ## Show that the core's own tests reach every branch of it
	$(BIN)/python -m coverage run -m pytest $(CORE)
	$(BIN)/python -m coverage report

lowest: ## Test on the lowest versions that pyproject.toml allows, in an environment of its own
	@$(PYTHON) tools/preflight.py --run lowest

check: environment ## Lint, check the format, the types and the import contracts
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy .
	$(BIN)/lint-imports

reference: environment ## Write docs/reference again, from the code
	$(BIN)/python -m tools.reference

site: ## Make web pages of docs, with search and the public names of Python, in .site/pages, for any web server
	@$(PYTHON) tools/preflight.py --run website

format: environment ## Put the code in the format that check asks for
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

# Existing pins stay where they still fit; LOCK=--upgrade takes the newest of everything. The project itself, which some
# of its extras name, is not pinned; the warning that this brings about at the end is of no matter.
COMPILE := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/python -m piptools compile --quiet --generate-hashes --strip-extras \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-build-isolation --unsafe-package strandline $(LOCK)
lock: environment ## Compile the requirement files again, on Python 3.11; LOCK=--upgrade takes newer versions
	$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "make lock needs the oldest Python supported, 3.11: make PYTHON=python3.11 lock")'
	$(COMPILE) --output-file tools/requirements/build.txt tools/requirements/build.in
	$(BIN)/python -m tools.lowest --write
	$(COMPILE) --output-file tools/requirements/lowest.txt tools/requirements/lowest.in
	$(COMPILE) --output-file tools/requirements/site.txt tools/requirements/site.in
	$(COMPILE) --extra dashboard --extra demo --extra kafka --extra postgres --output-file tools/requirements/dev.txt pyproject.toml tools/requirements/dev.in
	$(COMPILE) --extra dashboard --extra postgres --constraint tools/requirements/dev.txt --output-file deploy/container/requirements.txt pyproject.toml

release: servers environment ## Check that this version can be released, test and build it, and say what remains by hand
	$(BIN)/python -m tools.release

clean: ## Remove what the targets made
	rm -rf .venv .jars .versions .lowest .site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
