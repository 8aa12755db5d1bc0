# Each target sets up what it needs, from a bare clone. The locks are whole, so that nothing is resolved when they are
# installed: pip would look for the newest of what is wanted with an extra, and find no hash for it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# What the server alone needs; `make test` adds to it.
RUN_READY := .venv/.ready-to-run
BENCH_READY := .venv-bench/.ready
# The pages, built by the package's build hook.
PAGES := src/rushes/web/static/index.html
PAGE_SOURCES := $(shell find ui -path ui/node_modules -prune -o -type f ! -name schema.d.ts -print) docs/openapi.json

# Some machines forbid it for all programs; a run would compile every test in each of its processes.
unexport PYTHONDONTWRITEBYTECODE

# Debian splits venv off from Python; as root we can fetch it.
define venv
$(PYTHON) -m venv $(1) || { rm -rf $(1); [ "$$(id -u)" = 0 ] && apt-get update -qq \
	&& apt-get install -qq -y python3-venv && $(PYTHON) -m venv $(1); } \
	|| { rm -rf $(1); echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
endef

.PHONY: setup run test check check-images wheel pages browser ffmpeg fmt reference release-archive lint types contracts mutants soak bench bench-queue bench-retention bench-upload bench-sse bench-api bench-transcode bench-speech bench-hearing bench-search bench-pages bench-fleet simulate screenshots lock clean

setup: $(READY)

# By itself: it may need apt-get, as a browser may, and only one can run at a time.
.venv/.made:
	@$(call venv,.venv)
	@touch $@

$(READY): requirements-dev.txt pyproject.toml | .venv/.made
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@ $(RUN_READY)

$(RUN_READY): requirements.txt pyproject.toml | .venv/.made
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(PAGES): $(RUN_READY) $(PAGE_SOURCES) hatch_build.py
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

run: $(RUN_READY) $(PAGES)
	$(BIN)/rushes serve

test: check

# What waits for downloads goes on beside what computes. More test processes than cores: half of
# their time they wait for others.
check:
	@$(MAKE) --no-print-directory -j2 setup ffmpeg
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

soak: $(READY)
	RUSHES_TEST_CHAOS_JOBS=$${JOBS:-20000} $(BIN)/pytest tests/chaos -m chaos -s --timeout=7200
	$(BIN)/pytest -n 2 -m thorough

bench: bench-queue bench-retention bench-sse bench-api bench-upload bench-transcode bench-speech bench-hearing bench-search bench-pages bench-fleet

bench-queue: $(BENCH_READY)
	.venv-bench/bin/python benchmarks/bench_queue.py

bench-retention: $(READY)
	$(BIN)/python benchmarks/bench_retention.py

bench-api: $(READY)
	$(BIN)/python benchmarks/bench_api.py

bench-upload: $(READY)
	$(BIN)/python benchmarks/bench_upload.py

bench-transcode: $(READY)
	$(BIN)/python benchmarks/bench_transcode.py

# Other speech libraries are fetched once, each into an environment of its own.
bench-speech: $(READY)
	$(BIN)/python benchmarks/bench_speech.py $(if $(LONG),--long)

bench-hearing: $(READY)
	$(BIN)/python benchmarks/bench_speech.py --only corpus

bench-pages: $(READY) $(PAGES)
	$(BIN)/python benchmarks/bench_pages.py

# Of every page, light and dark, desktop and phone, into docs/images.
screenshots: $(READY) $(PAGES) browser
	$(BIN)/python tests/pages/screenshots.py

bench-search: $(READY)
	$(BIN)/python benchmarks/bench_search.py

# A thousand waiting workers on one server.
bench-fleet: $(READY)
	$(BIN)/python benchmarks/bench_fleet.py

# Ten thousand workers on a virtual clock: SIZES="--workers 2000 --database postgres".
simulate: $(READY)
	$(BIN)/python benchmarks/simulate.py $(SIZES)

bench-sse: $(READY)
	$(BIN)/python benchmarks/bench_sse.py

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
