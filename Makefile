# Each target sets up what it needs, from a bare clone. The locks are whole, so that nothing is resolved when they are
# installed: pip would look for the newest of what is wanted with an extra, and find no hash for it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# What the server alone needs; `make test` adds to it.
RUN_READY := .venv/.ready-to-run
INSTALLED := .venv/.installed
BENCH_READY := .venv-bench/.ready
# The pages, built by the package's build hook.
PAGES := src/rushes/web/static/index.html
PAGE_SOURCES := $(shell find ui -path ui/node_modules -prune -o -type f ! -name schema.d.ts -print) docs/openapi.json

# Some machines forbid it for all programs; a run would compile every test in each of its processes.
unexport PYTHONDONTWRITEBYTECODE

# Debian splits venv off from Python; as root we can fetch it.
define venv
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo "Rushes needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1 | head -n 1)." \
	"Install one, and name it: make $(or $(MAKECMDGOALS),run) PYTHON=python3.12"; exit 1; }; \
$(PYTHON) -m venv $(1) || { rm -rf $(1); [ "$$(id -u)" = 0 ] && apt-get update -qq \
	&& apt-get install -qq -y python3-venv && $(PYTHON) -m venv $(1); } \
	|| { rm -rf $(1); echo "No environment could be made here: install Python's venv (apt-get install python3-venv)," \
	"and see that this folder can be written and its disk has room."; exit 1; }
endef

# pip with its progress, and with what to do when it fails: $(call install,title,arguments).
define install
$(BIN)/python bootstrap.py "$(1)" $(2)
endef

.PHONY: setup run test check check-images wheel pages browser ffmpeg fmt reference release-archive lint types contracts mutants proof soak bench bench-queue bench-retention bench-upload bench-sse bench-api bench-transcode bench-stream bench-speech bench-hearing bench-search bench-pages bench-fleet simulate screenshots lock clean early-pages coverage bench-report

setup: $(READY)

# By itself: it may need apt-get, as a browser may, and only one can run at a time.
.venv/.made:
	@echo "1/4 Python environment"
	@$(call venv,.venv)
	@touch $@

$(READY): requirements-dev.txt pyproject.toml | .venv/.made
	@$(call install,2/4 Libraries (about 600 MB: some minutes),--require-hashes --no-deps -r requirements-dev.txt)
	@$(call install,3/4 Pages and command line,--no-deps --editable .)
	@$(BIN)/python -m compileall -q src
	@touch $(RUN_READY) $@
	@if [ -z "$$RUSHES_SKIP_UI" ] && [ -f $(PAGES) ]; then touch $(INSTALLED) $(PAGES); fi

# Python compiles what is imported when it first is; most of it never is.
$(RUN_READY): requirements.txt pyproject.toml | .venv/.made
	@$(call install,2/4 Libraries (about 300 MB: a minute or two),--no-compile --require-hashes --no-deps -r requirements.txt)
	@touch $@

# Builds the pages, too, unless they are there.
$(INSTALLED): $(RUN_READY) $(PAGE_SOURCES) hatch_build.py
	@$(call install,3/4 Pages and command line,--no-deps --editable .)
	@$(BIN)/python -m compileall -q src
	@touch $@

$(PAGES): $(INSTALLED)
	@[ -s $@ ] || $(call install,3/4 Pages and command line,--no-deps --editable .)
	@touch $@

# The machine's own Node builds the pages while pip waits for downloads. Without one, or when it fails, step 3 builds them, and says
# what is wrong.
early-pages:
	@[ -n "$$RUSHES_SKIP_UI" ] || { [ -s $(PAGES) ] && [ -z "$$(find $(PAGE_SOURCES) -newer $(PAGES))" ]; } \
		|| { command -v npm && $(NEW_NODE) && cd ui && npm ci --no-audit --no-fund --ignore-scripts && npm run build; } >/dev/null 2>&1 \
		|| true

run: | .venv/.made
	@$(MAKE) --no-print-directory -j2 $(RUN_READY) early-pages
	@$(MAKE) --no-print-directory $(PAGES)
	@echo "4/4 Starting the server; Ctrl-C stops it"
	@$(BIN)/rushes serve

test: check

# What waits for downloads goes on beside what computes. More test processes than cores: half of
# their time they wait for others.
check:
	@$(MAKE) --no-print-directory -j2 setup ffmpeg
	@echo "4/4 Checks, then tests"
	@$(MAKE) --no-print-directory -j3 lint types contracts pages
	$(BIN)/pytest -n 3 --dist worksteal

# Types and component tests of the pages. Without a Node that is new enough they are only built, by
# one from PyPI.
NEW_NODE := node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'
pages: $(READY) $(PAGES)
	@command -v npm >/dev/null && $(NEW_NODE) || { echo "no Node 20.19: the pages are built, not checked"; exit 0; } \
		&& cd ui && { [ -d node_modules ] || npm ci --ignore-scripts; } \
		&& npm run --silent types && npm run --silent check && npm test --silent

# Tests that play videos need a browser; without one, and without the right to install it, they are skipped.
browser: | .venv/.made
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq \
		&& apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
		|| echo "no Chromium: tests that play videos are skipped (apt-get install chromium)"

# Tests run with the wheel's ffmpeg, and some again with the machine's own; without one, and without
# the right to install it, those are skipped. After the browser: one apt-get at a time.
ffmpeg: browser
	@command -v ffprobe >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq \
		&& apt-get install -qq -y --no-install-recommends ffmpeg >/dev/null; } \
		|| echo "no ffmpeg of this machine's own: only the wheel's is tested (apt-get install ffmpeg)"

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports --no-logo

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is made of the code: tests compare it.
reference: $(READY)
	$(BIN)/python -m rushes.web.openapi > docs/openapi.json.new && mv docs/openapi.json.new docs/openapi.json
	$(BIN)/python -m rushes.settings > docs/settings.md.new && mv docs/settings.md.new docs/settings.md
	$(BIN)/python -m rushes.protocol docs/worker-protocol.md

# The source of a release, to be run beside the next one: at each release, before its schema changes again.
release-archive: $(READY)
	$(BIN)/python tests/upgrades/make_release.py $(COMMIT)

clean:
	rm -rf .venv .venv-bench build dist ui/node_modules src/rushes/web/static .mypy_cache .pytest_cache .ruff_cache .hypothesis

# With the pages inside: `pip install dist/rushes-*.whl`.
wheel: $(READY)
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# The steps of the Dockerfile in clean Debian roots, and what they make, tried out. Needs root and debootstrap.
check-images: $(READY)
	PYTHONPATH=tests $(BIN)/python -m deployment.images $(IMAGES)

# Longer than `make test`: wrong versions of Rushes that the suite has to notice.
mutants: $(READY)
	$(BIN)/python tests/mutants/run.py

# The specification of the queue, looked at by TLC. Needs Java.
proof: $(READY)
	$(BIN)/python proof/run.py

# Of jobs/, dispatch.py and storage/: which branches no test takes, into docs/coverage.md. Some minutes.
COVERED := tests/jobs tests/storage tests/worker tests/test_dispatcher.py tests/test_library.py tests/test_retention.py tests/test_tracing.py \
	tests/web/test_lanes.py tests/web/test_limits.py tests/web/test_other_storage.py tests/web/test_outputs.py tests/web/test_queue.py \
	tests/web/test_s3_uploads.py tests/web/test_storage_links.py tests/media/test_only_heard.py tests/cli/test_storage_command.py \
	tests/resilience/test_bucket.py tests/resilience/test_disk.py tests/resilience/test_late_files.py tests/resilience/test_slow_storage.py
coverage: $(READY)
	@rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -n 2 --dist worksteal $(COVERED)
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage json --quiet -o build/coverage/coverage.json
	@$(BIN)/python tests/coverage_page.py build/coverage/coverage.json docs/coverage.md

soak: $(READY)
	RUSHES_TEST_CHAOS_JOBS=$${JOBS:-20000} $(BIN)/pytest tests/chaos -m chaos -s --timeout=7200
	$(BIN)/pytest -n 2 -m thorough

# One after the other; one that fails is named at the end, and in docs/benchmarks.md.
BENCHES := queue fleet retention sse api upload transcode stream speech hearing search pages
bench: $(READY)
	@done=0; for each in $(BENCHES); do \
		done=$$((done + 1)); echo "== $$done of $(words $(BENCHES)): $$each, $$(date +%H:%M)"; \
		$(MAKE) --no-print-directory bench-$$each || failed="$$failed $$each"; \
	done; $(MAKE) --no-print-directory bench-report; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Of what they last printed, kept in build/bench; `make bench-queue OPTIONS=--claims` adds a part to it.
LOGGED = @OPTIONS="$(OPTIONS)" $(PYTHON) benchmarks/log.py $(subst bench-,,$@)
bench-report: $(READY)
	@$(BIN)/python benchmarks/report.py

bench-queue: $(BENCH_READY)
	$(LOGGED) .venv-bench/bin/python benchmarks/bench_queue.py

bench-retention: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_retention.py

bench-api: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_api.py

bench-upload: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_upload.py

bench-transcode: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_transcode.py

bench-stream: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_stream.py

# Other speech libraries are fetched once, each into an environment of its own.
bench-speech: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_speech.py $(if $(LONG),--long)

bench-hearing: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_speech.py --only corpus

bench-pages: $(READY) $(PAGES)
	$(LOGGED) $(BIN)/python benchmarks/bench_pages.py

# Of every page, light and dark, desktop and phone, into docs/images.
screenshots: $(READY) $(PAGES) browser
	$(BIN)/python tests/pages/screenshots.py

bench-search: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_search.py

# A thousand waiting workers on one server.
bench-fleet: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_fleet.py

# Ten thousand workers on a virtual clock: SIZES="--workers 2000 --database postgres".
simulate: $(READY)
	$(BIN)/python benchmarks/simulate.py $(SIZES)

bench-sse: $(READY)
	$(LOGGED) $(BIN)/python benchmarks/bench_sse.py

$(BENCH_READY): requirements-bench.txt pyproject.toml
	@$(call venv,.venv-bench)
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-bench.txt
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Hashed requirements without index hosts; works with plain pip.
LOCK := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11
lock:
	$(LOCK) pyproject.toml --extra postgres --extra redis --extra ffmpeg --extra speech --extra otel -o requirements.txt
	$(LOCK) pyproject.toml --extra postgres --extra redis --extra ffmpeg --extra speech --extra otel --group dev -o requirements-dev.txt
	$(LOCK) pyproject.toml --extra postgres --group bench -o requirements-bench.txt
	$(LOCK) --group build -o requirements-build.txt
	$(LOCK) --group cuda -o requirements-cuda.txt
