# Shortcuts for common commands. CMake builds the project (CMakePresets.json).
#
#   make exp-NAME [JOBS=2] [REPEATS=3] [METHODS=oppa,random] [RESULTS=results] [BACKEND=trainer] [HELD_OUT=1]

EXPERIMENTS := $(basename $(notdir $(wildcard experiments/*.toml)))
SOURCES      = $(shell git ls-files -co --exclude-standard '*.h' '*.cc' '*.cu' '*.cuh')
OPPA        := build/release/oppa
RESULTS     ?= results
PREFIX      ?= /usr/local
TESTS       ?= test-wheel test-wheel-arm64 test-deb

use_backend  := $(if $(BACKEND),--set backend.use=$(BACKEND))
matrix_options := --results $(RESULTS) $(if $(REPEATS),--repeats $(REPEATS)) $(if $(METHODS),--methods $(METHODS)) \
                $(if $(DISPATCH),--dispatch $(DISPATCH)) $(if $(TRIAL_PER_JOB),--trial-per-job) \
                $(if $(HELD_OUT),--held-out) $(use_backend)
run_options  := $(matrix_options) $(if $(JOBS),--jobs $(JOBS)) $(if $(WAIT),--wait)

# The four experiments of Fig. 4 of the paper.
FIGURE4 := bert-8gpu qwen-8gpu llama1b-16gpu llama7b-32gpu
FIGURE24 := bert-8gpu qwen-8gpu
WORLDS := calculon-worlds-a100 calculon-worlds-h100 simumax-worlds
side_by_side = experiments/$(firstword $1).toml --with \
  $(subst $(space),$(comma),$(patsubst %,experiments/%.toml,$(wordlist 2,9,$1))) --results $(RESULTS)

# Tests that need the tables of OPPA_DATA.
published_tests := PublishedTables|PublishedPlans|PublishedProfiles

empty       :=
space       := $(empty) $(empty)
comma       := ,

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+( [a-z-]+)*:.*\#\#/ { print $$1 }' $(firstword $(MAKEFILE_LIST))) \
        help program benchmark-programs \
        $(foreach verb,exp matrix status report noise,$(addprefix $(verb)-,$(EXPERIMENTS)))

cmake_build := cmake --build --preset release
# $(call compile,TARGETS) builds these targets.
compile = $(cmake_build) --target $(1)
# $(call needs,NAME) is the target that builds what the experiment needs: the trainer only where it runs.
needs = $(if $(BACKEND)$(shell grep -l '^type = "trainer"' experiments/$(1).toml),build,program)
.SECONDEXPANSION:

build/release/build.ninja: | deps
	@cmake --preset release -Wno-dev

build/asan/build.ninja build/tsan/build.ninja: build/%/build.ninja: | deps
	@scripts/install-deps --sanitizers
	@cmake --preset $* -Wno-dev

program: build/release/build.ninja
	@$(call compile,oppa)

help:
	@awk '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
	      /^[a-z$$].*:.*## /{ name = $$0; sub(/:.*/, "", name); sub(/^\$$\(addprefix /, "", name); \
	      sub(/-,.*/, "-NAME", name); sub(/.*## /, "", $$0); printf "  make %-26s %s\n", name, $$0 }' $(MAKEFILE_LIST)
	@printf '\nNAME: %s\n' "$(EXPERIMENTS)" | fold -s -w 110
	@printf 'Options: JOBS=2 REPEATS=3 METHODS=oppa,random RESULTS=results BACKEND=trainer DISPATCH=slurm WAIT=1 TRIAL_PER_JOB=1 HELD_OUT=1 PREFIX=/usr/local\n'

##@ Use

$(addprefix exp-,$(EXPERIMENTS)): exp-%: $$(call needs,$$*) ## run or resume an experiment, then draw its figures
	@$(OPPA) run experiments/$*.toml $(run_options)

exp-%:
	@echo "make: unknown experiment '$*'; known: $(EXPERIMENTS)" >&2; exit 2

figures: $(addprefix exp-,$(FIGURE4)) ## run the four experiments of Fig. 4, and draw them side by side
	@$(OPPA) report $(call side_by_side,$(FIGURE4)) --figures throughput-time,throughput-trials,throughput-steps
	@$(OPPA) report $(call side_by_side,$(FIGURE24)) --figures ablation-views,ablation-ours-views

build: build/release/build.ninja ## build oppa and the trainer
	@$(call compile,oppa oppa-train)
	@! grep -q '^build libtrainer_cuda.so:' build/release/build.ninja || $(call compile,trainer_cuda)

install: build ## install program, data, documentation and completion below PREFIX
	@cmake --install build/release --prefix $(PREFIX)

test: build/release/build.ninja ## build everything and run every test except those of the trainer
	@$(cmake_build)
	@ctest --preset release --label-exclude '^trainer$$' \
	  --exclude-regex '^trainer_tests_NOT_BUILT$$$(if $(OPPA_DATA),,|$(published_tests))'
	@$(if $(OPPA_DATA),,echo "$$(ctest --preset release -N --tests-regex '$(published_tests)' | sed -n 's/Total Tests: //p') \
	  tests of published tables were not run: set OPPA_DATA (docs/replay_tables.md)")

# A lasting environment, because in a new one at each build, as pip makes them, everything is compiled again.
build/wheel-venv/bin/pip: pyproject.toml
	@python3 -m venv build/wheel-venv
	@grep '^requires = ' pyproject.toml | grep -o '"[^"]*"' | xargs $@ install --quiet
	@touch $@

wheel: build/wheel-venv/bin/pip | deps ## build build/dist/oppa_planner-*.whl, which pip installs on any Linux with glibc 2.28 (docs/python.md)
	@rm -rf build/dist
	@build/wheel-venv/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/dist .

wheel-arm64: build/wheel-venv/bin/pip | deps ## the same for arm64, by a cross compiler (Debian on x86-64)
	@scripts/install-deps --arm64
	@rm -rf build/dist-arm64
	@build/wheel-venv/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/dist-arm64 \
	  --config-settings=build-dir=build/wheel-arm64 --config-settings=wheel.tags=py3-none-manylinux_2_28_aarch64 \
	  --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/arm64.cmake .

dist: wheel ## build build/dist/oppa.tar.gz for machines without pip: oppa/bin/oppa with data, man page and Python package
	@build/wheel-venv/bin/pip install --quiet --no-deps --no-compile --target build/dist/oppa build/dist/oppa_planner-*.whl
	@tar -C build/dist --owner=0 --group=0 -czf build/dist/oppa.tar.gz oppa

deb: program ## build build/deb/oppa_*.deb for the Debian or Ubuntu of this machine
	@scripts/install-deps --deb
	@rm -rf build/deb
	@cpack --config build/release/CPackConfig.cmake -B $(CURDIR)/build/deb > build/deb.log

ARTIFACTS := build/artifacts
release: dist wheel-arm64 deb ## build and test wheels, archive and Debian package in build/artifacts, with SBOM and SHA-256 sums (root; TESTS= builds only)
	@rm -rf $(ARTIFACTS)
	@mkdir -p $(ARTIFACTS)
	@cp build/dist/*.whl build/dist-arm64/*.whl build/dist/oppa.tar.gz build/deb/oppa_*.deb $(ARTIFACTS)
	@scripts/sbom build/wheel >$(ARTIFACTS)/oppa.cdx.json
	@cd $(ARTIFACTS) && sha256sum * >../SHA256SUMS && mv ../SHA256SUMS . && cat SHA256SUMS
	@$(if $(TESTS),$(MAKE) --no-print-directory $(TESTS) SYSTEMS="$(SYSTEMS)")

clean: ## remove build/, keep the results
	@rm -rf build

##@ Experiments

$(addprefix matrix-,$(EXPERIMENTS)): matrix-%: $$(call needs,$$*) ## print the run matrix without running it
	@$(OPPA) matrix experiments/$*.toml $(matrix_options)

$(addprefix status-,$(EXPERIMENTS)): status-%: $$(call needs,$$*) ## show the progress of an experiment
	@$(OPPA) status experiments/$*.toml --results $(RESULTS) $(use_backend)

$(addprefix report-,$(EXPERIMENTS)): report-%: $$(call needs,$$*) ## write its figures and tables again
	@$(OPPA) report experiments/$*.toml --results $(RESULTS) $(use_backend)

paper paper-quick: build ## run every manifest and study, write all tables; rerun to resume (HELD_OUT=1; -quick: 3 repeats)
	@scripts/paper $(if $(filter %-quick,$@),--quick) RESULTS=$(RESULTS)

claims: build/release/build.ninja ## judge the claims of the papers by the results (docs/tables/claims.md)
	@$(call compile,oppa trials_tests methods_tests studies_tests planners_tests)
	@mkdir -p $(RESULTS)/claims
	@ctest --preset release --tests-regex "$$(grep -o 'test=[^,]*' experiments/studies/claims.csv | cut -d= -f2 | paste -sd '|')" | \
	  awk 'BEGIN { print "test,passed" } / Test +#/ { print $$4 "," ($$0 ~ /Passed/ ? 1 : 0) }' >$(RESULTS)/claims/tests.csv
	@$(OPPA) claims --results $(RESULTS)

$(addprefix noise-,$(EXPERIMENTS)): noise-%: program ## draw the step times of simulated trials (Figs. 3, 10, 15)
	@$(OPPA) noise experiments/$*.toml --results $(RESULTS)

##@ Studies

validate: program ## compare the simulator with published measurements (needs OPPA_DATA)
	@$(OPPA) validate --results $(RESULTS)

validate-leave-one-out: program ## predict every published source without the constants fitted to it (needs OPPA_DATA)
	@scripts/leave-one-out --results $(RESULTS)
	@$(OPPA) validate --bands $(RESULTS)/validation/leave-one-out/rows.csv

docs: program ## write the generated parts of README.md and docs/ from results (CHECK=1: compare)
	@$(call compile,documents_study)
	@scripts/docs --results $(RESULTS) $(if $(CHECK),--check) $(DOCS)

forecasts: program ## record what this commit predicts for jobs without published steps (docs/forecasts.md)
	@scripts/forecasts record --oppa $(OPPA)
	@$(call compile,documents_study)
	@scripts/docs --results $(RESULTS) docs/forecasts.md

docs-site: ## build the documentation site in build/docs-site (installs MkDocs in build/docs-venv once)
	@test -x build/docs-venv/bin/mkdocs || { python3 -m venv build/docs-venv && \
	  build/docs-venv/bin/pip install --quiet 'mkdocs-material>=9.5,<10' 'mkdocstrings[python]>=0.26,<2' \
  mdx_truly_sane_lists; }
	@build/docs-venv/bin/python scripts/docs-site

STUDY_MANIFESTS ?= $(if $(OPPA_DATA),experiments/ultrascale.toml experiments/vtrain.toml) $(FIGURE4:%=experiments/%.toml)

STOPPING_MANIFESTS ?= $(if $(OPPA_DATA),experiments/ultrascale.toml experiments/vtrain.toml) \
                      experiments/suite-8gpu.toml experiments/suite-32gpu.toml
OUTCOMES = $(if $(OPPA_DATA),$(addprefix --outcomes ,$(wildcard $(OPPA_DATA)/measured/ultrascale_raw.csv)))

study-calibration: build/release/build.ninja ## measure the calibration of the surrogates (REPEATS=12; OPPA_DATA adds measured tables)
	@$(call compile,calibration_study)
	@build/release/studies/calibration_study $(RESULTS)/study-calibration $(or $(REPEATS),12) $(STUDY_MANIFESTS)

study-forecast-calibration: build/release/build.ninja ## measure how a few measured rows correct predictions (DRAWS=20; needs OPPA_DATA)
	@$(call compile,forecast_calibration_study)
	@build/release/studies/forecast_calibration_study $(RESULTS)/study-forecast-calibration $(or $(DRAWS),20)

study-early-termination: build/release/build.ninja ## measure costs and savings of early termination, and check its theorems (REPEATS=10)
	@$(call compile,early_termination_study)
	@build/release/studies/early_termination_study $(RESULTS)/study-early-termination $(REPEATS)

study-planners: build/release/build.ninja ## measure planners on published operator profiles (needs OPPA_DATA)
	@$(call compile,planners_study)
	@build/release/studies/planners_study $(RESULTS)/study-planners $(OPPA_DATA)/published

study-profiles: program ## compare methods by runtime profiles, and say what each part of OPPA adds (after make figures)
	@$(OPPA) profiles $(FIGURE4:%=$(RESULTS)/%) --out $(RESULTS)/study-profiles \
	  --methods random,xgboost,cost-model,vanilla-bo,oppa-paper,oppa \
	  --steps vanilla-bo,vanilla-bo-beta-3,oppa-no-prior-no-early-termination,oppa-no-early-termination,oppa \
	  --steps vanilla-bo,oppa-paper-neither,oppa-paper-no-early-termination,oppa-paper \
	  --steps oppa-paper-no-prior,oppa-paper --steps oppa-paper-neither,oppa-paper

study-sensitivity: program ## vary assumed constants and show where claims hold (REPEATS=10)
	@$(OPPA) sensitivity $(or $(SENSITIVITY),experiments/studies/sensitivity.toml) --results $(RESULTS) \
	  $(if $(REPEATS),--repeats $(REPEATS)) $(if $(JOBS),--jobs $(JOBS))

study-landscapes: program ## judge the claims of papers on simulated clusters that published sources allow (REPEATS=10, DISPATCH=slurm; 2.5 CPU hours)
	@$(OPPA) sensitivity $(or $(LANDSCAPES),experiments/studies/landscapes.toml) --results $(RESULTS) \
	  $(if $(REPEATS),--repeats $(REPEATS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(DISPATCH),--dispatch $(DISPATCH)) $(if $(WAIT),--wait)

study-costs: program ## compute what searches cost until they are within 5% of the best, from finished experiments
	@scripts/costs $(WORLDS:%=$(RESULTS)/%) --out $(RESULTS)/costs/worlds
	@! test -d $(RESULTS)/ultrascale || scripts/costs $(RESULTS)/ultrascale --out $(RESULTS)/costs/ultrascale

study-stopping: program ## measure the estimate of the remaining gain and what stop conditions save and lose (REPEATS=10)
	@for manifest in $(STOPPING_MANIFESTS); do \
	    $(OPPA) run $$manifest --methods oppa --repeats $(or $(REPEATS),10) --no-report \
	        --results $(RESULTS)/study-stopping $(if $(HELD_OUT),--held-out) || exit; done
	@scripts/stopping $(STOPPING_MANIFESTS:experiments/%.toml=$(RESULTS)/study-stopping/%) --out $(RESULTS)/stopping $(OUTCOMES)
	@test -z "$(OPPA_DATA)" || { $(OPPA) run experiments/bad-predictions-ultrascale.toml --methods oppa-sim --no-report \
	    --repeats $(or $(REPEATS),10) --results $(RESULTS)/study-stopping $(if $(HELD_OUT),--held-out) && \
	  scripts/stopping $(RESULTS)/study-stopping/bad-predictions-ultrascale --method 'oppa-sim*' --out $(RESULTS)/stopping/predictions \
    $(OUTCOMES); }
	@! test -d $(RESULTS)/$(firstword $(WORLDS)) || scripts/stopping $(WORLDS:%=$(RESULTS)/%) --method oppa-sim --out $(RESULTS)/stopping/worlds

study-trainer: build ## compare the simulator with oppa-train on CPU ranks (MEASURE=1 measures the table again, 15 minutes)
	@! test -n "$(MEASURE)" || { scripts/measure-trainer >build/trainer_cpu.csv && mv build/trainer_cpu.csv experiments/tables/; }
	@$(OPPA) validate trainer_cpu --results $(RESULTS)

study-trainers: build ## search with oppa-train and with PyTorch, and measure the best configuration of each with both (20 minutes)
	@TORCH_PYTHON=$$(scripts/torch-python --venv) scripts/compare-trainers $(OPPA) --results $(RESULTS)

##@ Checks

deps: ## install missing packages (Debian, Ubuntu)
	@scripts/install-deps

check: format-check size tidy test asan ## run all checks that a commit must pass

format: ## format the sources
	@clang-format -i $(SOURCES)

format-check: ## check the format of the sources
	@clang-format --dry-run --Werror $(SOURCES)

size: ## compare the sizes of folders, functions and features with their limits (scripts/size.toml)
	@scripts/size --check

tidy: ## run clang-tidy on files changed since the last commit (ALL=1: on all)
	@scripts/tidy $(if $(ALL),--all)

asan tsan: build/$$@/build.ninja ## build and test under a sanitizer (LAYERS='trainer surrogates': the tests of these layers)
	@cmake --build --preset $@ --target $(if $(LAYERS),$(LAYERS:%=%_tests),all trainer_tests)
	@ctest --preset $@ $(if $(LAYERS),--label-regex '^($(subst $(space),|,$(strip $(LAYERS))))$$')

fuzz: build/asan/build.ninja ## fuzz every parser (SECONDS=10 each; SEED= and RUNS= for the same inputs each time)
	@cmake --build --preset asan --target fuzzers
	@SEED=$(SEED) RUNS=$(RUNS) tests/fuzz/run.sh build/asan $(SECONDS)

test-adapters: build ## pass rendered command lines to the parsers of the frameworks (MEGATRON_LM, NANOTRON: checkouts)
	@python=$$(scripts/torch-python --venv transformers accelerate deepspeed torchtitan pyyaml) && \
	  "$$python" tests/adapters/check $(OPPA)

test-faults: build ## interrupt and damage runs, then check that nothing is lost (root; FAULTS=215)
	@scripts/install-deps --slurm
	@FAULTS=$(FAULTS) tests/faults/run.sh $(OPPA)

test-faults-exhaustive: build ## fail, shorten or kill at each system call of a run and a report (10 minutes)
	@tests/faults/exhaustive.py $(OPPA) $(if $(EVERY),--every $(EVERY))

test-newcomer: build ## follow docs/tune-your-job.md with a small PyTorch job (REQUIRED=1 fails without PyTorch)
	@if python=$$(scripts/torch-python); then scripts/newcomer-test $(OPPA) "$$python"; \
	else echo "test-newcomer: NOT RUN: there is no PyTorch" >&2; test -z "$(REQUIRED)"; fi

test-deb: deb ## check the package with lintian, and install, use and remove it in a new Debian (root, debootstrap)
	@scripts/deb-test build/deb/oppa_*.deb $(OPPA)

test-page: program ## open the result page in headless Chromium
	@scripts/install-deps --page
	@python3 tests/page_in_browser_test.py $(OPPA) results/page-screenshots

test-python: program ## test the Python package, mypy and the notebook (installs 6 GB in build/python-venv once; PYTHON_VENV=, LIBRARIES=small)
	@LIBRARIES=$(LIBRARIES) scripts/python-tests $(OPPA)

test-wheel: program wheel ## install the wheel here, and where SYSTEMS="bullseye bookworm trixie" asks for it, in these (root, debootstrap)
	@scripts/wheel-test build/dist/oppa_planner-*.whl $(OPPA) $(SYSTEMS)

test-wheel-arm64: program wheel-arm64 ## run the program of the arm64 wheel in an emulator
	@scripts/wheel-test build/dist-arm64/oppa_planner-*.whl $(OPPA)

test-slurm: build ## run the Slurm tests on a private Slurm (root)
	@scripts/install-deps --slurm
	@tests/slurm/slurm_test.sh $(OPPA)
	@tests/slurm/trials_test.sh $(OPPA)
	@tests/slurm/trainer_test.sh $(OPPA)
	@tests/slurm/tune_test.sh $(OPPA)

example-nodes: build ## tune a PyTorch job on two nodes as in docs/tune-your-job.md, on a private Slurm (root)
	@scripts/install-deps --slurm
	@python=$$(scripts/torch-python) && tests/slurm/tune_nodes_example.sh $(OPPA) "$$python"

test-torch: build ## tune PyTorch programs on CPU ranks, and compare the losses of both trainers (10 minutes)
	@python=$$(scripts/torch-python --venv transformers accelerate) && scripts/torch-tests $(OPPA) "$$python" && \
	  "$$python" trainer/tests/torch_test.py build/release/oppa-train

test-trainer: build/release/build.ninja ## run the tests of the trainer (SWEEP=360: compare the losses of as many configurations)
	@$(call compile,trainer_tests)
	@$(if $(SWEEP),OPPA_TRAINER_SWEEP=$(SWEEP)) ctest --preset release --label-regex '^trainer$$'

##@ Benchmarks

benchmark-programs: build/release/build.ninja
	@$(call compile,suggestion_benchmark floor_benchmark)

bench: build/release/build.ninja ## run the micro-benchmarks, write build/benchmarks.json
	@$(call compile,benchmarks)
	@build/release/benchmarks/benchmarks --benchmark_out=build/benchmarks.json
	@benchmarks/simulator.py build/benchmarks.json

bench-earlier-jobs: program ## measure what the trials of an earlier job are worth to a search (two minutes)
	@benchmarks/earlier_jobs.py --results $(RESULTS)/bench-earlier-jobs $(if $(REPEATS),--repeats $(REPEATS)) --oppa $(OPPA)

GPU ?= measured
bench-gpu: build/release/build.ninja ## measure the GPU of this machine and write experiments/{gpus,hardware}/$(GPU).toml (5 minutes)
	@$(call compile,oppa)
	@! $(call compile,help) | grep -q bench_gpu || $(call compile,bench_gpu)
	@benchmarks/gpu/bench_gpu.sh build/release/benchmarks/bench_gpu $(GPU) $(or $(OUT),results/gpu)

bench-forecast: program ## compare forecasts with Calculon, SimuMax and llm-analysis (PEERS=FOLDER of their checkouts, else by git; needs OPPA_DATA)
	@test -x build/forecast-venv/bin/python || { python3 -m venv build/forecast-venv && build/forecast-venv/bin/pip install --quiet \
	  numpy pandas psutil sympy tqdm matplotlib tabulate graphviz fire; }
	@build/forecast-venv/bin/python benchmarks/peers/forecasts.py --results $(RESULTS)/bench-forecast --oppa $(OPPA) \
	  $(if $(PEERS),--peers $(PEERS)) $(TABLES)

bench-growth: program benchmark-programs ## plot its time against observations and candidates (needs 5 GB of memory); then long searches and large folders
	@benchmarks/suggestion.py growth
	@benchmarks/growth.py $(OPPA)

bench-matrix: program ## measure matrix, status and report of 10,000 runs
	@benchmarks/matrix.py $(OPPA)

bench-peers: benchmark-programs ## time the same suggestion in BoTorch and scikit-learn (downloads them once)
	@benchmarks/peers/peers.py $(if $(REPEATS),--repeats $(REPEATS))

# Simulated problems, measured ones, and stacks that nobody fitted.
SEARCHER_MANIFESTS ?= experiments/suite-8gpu.toml $(if $(OPPA_DATA),$(addprefix experiments/,ultrascale.toml \
  calculon-worlds-a100.toml calculon-worlds-h100.toml simumax-worlds.toml))
bench-searchers: program ## compare oppa with Optuna, BoTorch, SMAC and Ax on MANIFESTS=experiments/suite-8gpu.toml (downloads them once)
	@python=$$(scripts/torch-python --venv optuna botorch scipy --optional cmaes smac ax-platform) && \
	  $$python benchmarks/searchers/compare.py --results $(RESULTS)/bench-searchers $(if $(REPEATS),--repeats $(REPEATS)) $(if $(HELD_OUT),--held-out) \
	    $(if $(METHODS),--methods $(METHODS)) $(or $(MANIFESTS),$(SEARCHER_MANIFESTS))

bench-slurm: program ## compare the cost of an array task with that of `true` (root)
	@scripts/install-deps --slurm
	@tests/slurm/overhead.sh $(OPPA)

bench-suggestion: benchmark-programs ## time one suggestion and compare it with the lower bound (3 minutes)
	@benchmarks/suggestion.py suggestion

bench-trainer: build/release/build.ninja ## compare the speed of oppa-train on a CPU core with PyTorch (PYTHON=python3 has to have it; LLM_C=FOLDER adds llm.c)
	@$(call compile,oppa-train)
	@$(or $(PYTHON),python3) benchmarks/trainer.py $(if $(LLM_C),--llm-c $(LLM_C))

bench-tune: build $(TORCH_PYTHON) ## compare `oppa tune` with defaults, random search and Optuna on real jobs (30 minutes; REPEATS=1 ROUNDS=5 MINUTES=)
	@$(TORCH_PYTHON) -c 'import optuna' 2> /dev/null || $(TORCH_PYTHON) -m pip install --quiet optuna
	@$(TORCH_PYTHON) benchmarks/tune/tune.py --oppa $(OPPA) --results $(RESULTS) $(if $(REPEATS),--repeats $(REPEATS)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(MINUTES),--minutes $(MINUTES))

trainer-gpu: build ## measure and check the trainer on the GPU of this machine (40 minutes; PARTS=nccl,speed; DRY_RUN=1: emulated)
	@$(if $(DRY_RUN),$(call compile,trainer_emulated))
	@scripts/trainer-gpu $(if $(PARTS),--parts $(PARTS)) $(if $(DRY_RUN),--dry-run) --out $(RESULTS)/trainer-gpu

