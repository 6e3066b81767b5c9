# Two commands do all: `make demo` shows the product at work, `make test` proves it.
# Both need Python 3.11 or newer and make; everything else is installed into .venv, pinned by hashes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The tests start hundreds of processes: each would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-more test-ci corpus players vulkan vulkan-driver mutants mutants-of-statements check trips docs site pictures simulate chaos powercut service container container-test bench release wheelhouse lock clean

demo: $(STAMP)
	$(BIN)/tqstudio demo

# Whatever takes no minutes. In the order of names: what takes longest and mostly waits comes early.
test: $(STAMP)
	$(BIN)/python -m pytest -n 6 --dist loadfile --no-loadscope-reorder $(ARGS)

# What takes seconds of CPU time each: kills, power cuts, whole encodes, a race for thousands of jobs, 50 000 steps
# of simulated worlds.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -n 4 --dist loadgroup -m "slow and not more" $(ARGS)

# Variations of what other tests show, before a release: an hour.
test-more: $(STAMP)
	$(BIN)/python -m pytest -n 4 --dist loadgroup -m more $(ARGS)

# What continuous integration runs beside `make test`: the slow ones and the corpus.
test-ci: $(STAMP)
	$(BIN)/python -m pytest -n 4 --dist loadgroup -m "(slow or corpus) and not more" $(ARGS)

# Sources of more than a hundred kinds, in one drop folder of a real supervisor; with MEDIA, those of that folder.
corpus: $(STAMP)
	MEDIA="$(MEDIA)" $(BIN)/python -m pytest -m "corpus or not corpus" -rx $(ARGS) \
		tests/e2e/corpus$(if $(MEDIA),/test_own_files.py)

# Play ladders of every kind in Chromium. Debian's package is installed if there is none, for which it needs root;
# CHROMIUM names another one. Needs npm for the players.
CHROMIUM ?= /usr/bin/chromium
PLAYERS := tests/players/node_modules/.package-lock.json
players: $(STAMP) $(PLAYERS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/players/requirements.lock
	test -x $(CHROMIUM) || apt-get install -y --no-install-recommends chromium \
	  || { echo "install Chromium and try again: apt-get install chromium" >&2; exit 2; }
	command -v mpv >/dev/null || apt-get install -y --no-install-recommends mpv || echo "mpv is left out" >&2
	CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest -n 2 --dist loadgroup -m players $(ARGS) tests/players tests/wings/page

$(PLAYERS): tests/players/package-lock.json
	command -v npm >/dev/null || { echo "install npm (Node.js 20 or newer) and try again" >&2; exit 2; }
	cd tests/players && npm ci --ignore-scripts --no-audit --no-fund

# Publish Dolby Vision without a base layer; without a driver these tests are skipped.
vulkan: $(STAMP) vulkan-driver
	$(BIN)/python -m pytest -n 2 -rs -m "slow or not slow" $(ARGS) \
	  tests/media/test_dolby_vision.py tests/worker/test_dolby_vision.py

# Install Debian's driver of Vulkan for the CPU if there is none, for which it needs root.
vulkan-driver:
	ls /usr/share/vulkan/icd.d/lvp_icd*.json >/dev/null 2>&1 \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers >/dev/null; } \
	  || echo "install the package mesa-vulkan-drivers and try again" >&2

# Take each clause that guards a statement out of it in turn; a test has to notice: make mutants ONLY=claims
# Break the engine in other ways too, so that each invariant of the simulated worlds has to notice its own.
mutants: $(STAMP)
	$(if $(ONLY),,$(BIN)/python -m pytest -n 2 --dist load -m gate tests/simulation tests/mutants)
	$(MAKE) mutants-of-statements

mutants-of-statements: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m mutants $(if $(ONLY),--only $(ONLY)) $(ARGS)

# ruff, mypy, import rules and cycles, at most 14 files in a folder, 400 lines in a file, 75 in a function.
check: $(STAMP)
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/ruff format --check src tests benchmarks tools
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/structure.py

# Record which files and functions run for a dropped file, the key p and a remote job: make trips ARGS=--files
# With ARGS=--check it fails if an optional capability runs in a trip that does not use it.
trips: $(STAMP)
	PYTHONPATH=tests $(BIN)/python tools/trips.py $(ARGS)

# More of the simulated worlds that are part of the tests: make simulate STEPS=1000000 SEED=7 FAULTS=zombies
# The model of a large fleet, docs/scale.md: make simulate FLEET=1 ARGS="--workers 200 --speed 0.15"
simulate: $(STAMP)
ifdef FLEET
	PYTHONPATH=tests $(BIN)/python -m simulation.fleet $(if $(SEED),--seed $(SEED)) $(ARGS)
else
	PYTHONPATH=tests $(BIN)/python -m simulation $(if $(STEPS),--steps $(STEPS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(FAULTS),--faults $(FAULTS))
endif

# Kill a sandboxed studio at random, KILLS times; with FLEET=1 hurt one of three supervisors of a database.
chaos: $(STAMP)
ifdef FLEET
	FLEET_FAULTS=$(or $(KILLS),60) FLEET_SEED=$(or $(SEED),1) $(BIN)/pytest tests/wings/standby/test_standby.py -m more -k storm --timeout=7200
else
	$(BIN)/tqstudio drill --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))
endif

# Cut the power of a studio, CUTS times, on a file system of its own that forgets what was not made durable.
# Needs root, for that it mounts one; ends with 2 where it may not.
powercut: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m powercut $(if $(CUTS),--cuts $(CUTS)) $(if $(SEED),--seed $(SEED))

# Install the service in a Debian that boots, and kill it there; needs root, debootstrap and systemd-nspawn.
service: $(STAMP)
	$(BIN)/python -m hatchling build -t wheel -d build
	tests/machine/service.sh build/*.whl

# Build the image; TARGET=gpu has the drivers of GPUs. BASE names another Debian than that of the registry.
ENGINE ?= $(firstword $(notdir $(shell command -v podman docker buildah)))
TARGET ?= cpu
container:
	BUILDAH_FORMAT=docker $(or $(ENGINE),$(error install podman, docker or buildah, and try again)) build -f Containerfile \
	  --target $(TARGET) -t tqstudio:$(TARGET) $(if $(BASE),--build-arg BASE=$(BASE)) $(ARGS) .

# Build it on a Debian made here, without a registry, and start, kill and stop it; needs root, debootstrap and podman.
container-test:
	tests/machine/container.sh

# Write the generated parts of the documentation, and count the words of the rest.
docs: $(STAMP)
	$(BIN)/python tools/docs.py

# Build the site of README, CHANGELOG and docs into build/site, and check its links; it opens without a server.
site: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/site/requirements.lock
	$(BIN)/python tools/site/build.py
	$(BIN)/python -m pytest tests/guides/test_site.py

# Take the pictures of the UI in README and docs from a real supervisor; about four minutes.
pictures: $(STAMP)
	$(BIN)/python tools/picture.py

# The wheel, and every package that it and its extras need here, for a machine without a network:
# pip install --no-index --find-links build/wheelhouse tqstudio
WHEELHOUSE ?= build/wheelhouse
wheelhouse: $(STAMP)
	mkdir -p $(WHEELHOUSE)
	$(BIN)/python tools/locked.py > $(WHEELHOUSE)/requirements.txt
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps \
	  --only-binary :all: -d $(WHEELHOUSE) -r $(WHEELHOUSE)/requirements.txt
	$(BIN)/python -m hatchling build -t wheel -d $(WHEELHOUSE)

# Check, build and tag a release into dist; publishes nothing, docs/development/releasing.md.
release: $(STAMP)
	$(BIN)/python tools/release.py

# Measure what is claimed about speed, docs/benchmarks.md.
bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

# With npm this fetches hls.js for the page of `tqstudio open`, see hatch_build.py.
$(STAMP): requirements.lock pyproject.toml player/package-lock.json
	$(PYTHON) -c 'import sys; sys.exit("tqstudio needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

# Resolve the dependencies again. The file carries hashes and names no index.
lock: $(STAMP)
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --quiet --extra dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --quiet -c requirements.lock tests/players/requirements.in -o tests/players/requirements.lock
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --quiet -c requirements.lock tools/site/requirements.in -o tools/site/requirements.lock

clean:
	rm -rf $(VENV) build dist
