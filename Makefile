# The front door: each target is one command that people would otherwise have
# to remember. The build itself is CMake's (see CMakePresets.json).
#
#   make exp-NAME [JOBS=2] [REPEATS=3] [METHODS=oppa,random] [RESULTS=results]

EXPERIMENTS := $(basename $(notdir $(wildcard experiments/*.toml)))
SOURCES      = $(shell git ls-files -co --exclude-standard '*.h' '*.cc' '*.cu' '*.cuh')
OPPA        := build/release/oppa
RESULTS     ?= results

run_options := --results $(RESULTS) $(if $(JOBS),--jobs $(JOBS)) $(if $(REPEATS),--repeats $(REPEATS)) \
               $(if $(METHODS),--methods $(METHODS)) $(if $(DISPATCH),--dispatch $(DISPATCH)) \
               $(if $(TRIAL_PER_JOB),--trial-per-job)
wait_options := $(if $(WAIT),--wait)

# The four experiments of Fig. 4 of the paper.
FIGURE4 := bert-8gpu qwen-8gpu llama1b-16gpu llama7b-32gpu

.DEFAULT_GOAL := help
.PHONY: help deps build clean format format-check tidy check \
        test test-slurm test-faults fuzz asan tsan \
        figures validate results-docs study-calibration study-early-termination \
        bench benchmark-programs bench-suggestion bench-growth bench-peers bench-astra bench-slurm bench-matrix \
        $(addprefix exp-,$(EXPERIMENTS)) $(addprefix plan-,$(EXPERIMENTS)) \
        $(addprefix status-,$(EXPERIMENTS)) $(addprefix report-,$(EXPERIMENTS))

help: ## list the targets
	@awk '/^[a-z$$].*:.*## /{ name = $$0; sub(/:.*/, "", name); sub(/^\$$\(addprefix /, "", name); \
	      sub(/-,.*/, "-NAME", name); sub(/.*## /, "", $$0); printf "  make %-14s %s\n", name, $$0 }' $(MAKEFILE_LIST)
	@printf '\nExperiments: %s\n' "$(EXPERIMENTS)"
	@printf 'Options:     JOBS=2 REPEATS=3 METHODS=oppa,random RESULTS=results DISPATCH=slurm WAIT=1 TRIAL_PER_JOB=1\n'

deps: ## install what is missing (Debian, Ubuntu)
	@scripts/install-deps

build: deps ## configure and build
	@test -f build/release/build.ninja || cmake --preset release -Wno-dev
	@cmake --build --preset release --target oppa

test: deps ## build everything and run every test
	@test -f build/release/build.ninja || cmake --preset release -Wno-dev
	@cmake --build --preset release
	@ctest --preset release

test-slurm: build ## test with a private Slurm on this machine (root)
	@scripts/install-deps --slurm
	@tests/slurm/slurm_test.sh $(OPPA)
	@tests/slurm/trials_test.sh $(OPPA)

test-faults: build ## break runs in every way and see that nothing is lost (root; FAULTS=215)
	@scripts/install-deps --slurm
	@FAULTS=$(FAULTS) tests/faults/run.sh $(OPPA)

bench-slurm: build ## what an array task of ours costs beside one of `true` (root)
	@scripts/install-deps --slurm
	@tests/slurm/overhead.sh $(OPPA)

bench-matrix: build ## time and memory of plan, status and report of 10,000 runs
	@benchmarks/matrix.py $(OPPA)

fuzz: deps ## fuzz every parser (SECONDS=10 for each)
	@scripts/install-deps --fuzz
	@test -f build/fuzz/build.ninja || cmake --preset fuzz -Wno-dev
	@cmake --build --preset fuzz --target fuzzers
	@tests/fuzz/run.sh build/fuzz $(SECONDS)

$(addprefix exp-,$(EXPERIMENTS)): exp-%: build ## run one experiment and draw its figures (resumes)
	@$(OPPA) run experiments/$*.toml $(run_options) $(wait_options)

exp-%:
	@echo "make: there is no experiments/$*.toml; there are: $(EXPERIMENTS)" >&2; exit 2

$(addprefix plan-,$(EXPERIMENTS)): plan-%: build ## print the run matrix without running it
	@$(OPPA) plan experiments/$*.toml $(run_options)

$(addprefix status-,$(EXPERIMENTS)): status-%: build ## show how far an experiment is
	@$(OPPA) status experiments/$*.toml --results $(RESULTS)

$(addprefix report-,$(EXPERIMENTS)): report-%: build ## draw its figures and tables anew
	@$(OPPA) report experiments/$*.toml --results $(RESULTS)

figures: $(addprefix exp-,$(FIGURE4)) ## run the four experiments of Fig. 4

check: format-check tidy test asan ## all that must pass before a commit

format: ## rewrite the sources as .clang-format says
	@clang-format -i $(SOURCES)

format-check: ## fail where clang-format would change something
	@clang-format --dry-run --Werror $(SOURCES)

tidy: ## clang-tidy on what changed since the last commit (ALL=1: everything)
	@scripts/tidy $(if $(ALL),--all)

asan tsan: deps ## build and test under a sanitizer
	@test -f build/$@/build.ninja || cmake --preset $@ -Wno-dev -DOPPA_BENCHMARKS=OFF
	@cmake --build --preset $@
	@ctest --preset $@

bench: deps ## run the micro-benchmarks and write build/benchmarks.json
	@test -f build/release/build.ninja || cmake --preset release -Wno-dev
	@cmake --build --preset release --target benchmarks
	@build/release/benchmarks/benchmarks --benchmark_out=build/benchmarks.json

benchmark-programs: deps
	@test -f build/release/build.ninja || cmake --preset release -Wno-dev
	@cmake --build --preset release --target suggestion_benchmark floor_benchmark

bench-suggestion: benchmark-programs ## time one suggestion against the bare floor and the targets (1 minute)
	@benchmarks/suggestion.py suggestion

bench-growth: benchmark-programs ## draw time against observations and candidates (needs 5 GB of memory)
	@benchmarks/suggestion.py growth

bench-peers: benchmark-programs ## the same suggestion by BoTorch and scikit-learn (downloads them once)
	@benchmarks/peers/peers.py $(if $(REPEATS),--repeats $(REPEATS))

bench-astra: deps ## strategies per CPU second on the problems of Astra's Table 1
	@test -f build/release/build.ninja || cmake --preset release -Wno-dev
	@cmake --build --preset release --target astra_table1
	@build/release/benchmarks/astra_table1 experiments

STUDY_MANIFESTS ?= $(if $(OPPA_DATA),experiments/ultrascale.toml experiments/vtrain.toml) $(FIGURE4:%=experiments/%.toml)

study-early-termination: deps ## what early termination costs and saves, and whether its theorems hold (REPEATS=10)
	@test -f build/release/build.ninja || cmake --preset release -Wno-dev
	@cmake --build --preset release --target early_termination_study
	@build/release/studies/early_termination_study $(RESULTS)/study-early-termination $(REPEATS)

study-calibration: deps ## how far the surrogates can be believed (REPEATS=2; needs OPPA_DATA for measured tables)
	@test -f build/release/build.ninja || cmake --preset release -Wno-dev
	@cmake --build --preset release --target calibration_study
	@build/release/studies/calibration_study $(RESULTS)/study-calibration $(or $(REPEATS),2) $(STUDY_MANIFESTS)

validate: build ## the simulator beside published measurements (needs OPPA_DATA)
	@$(OPPA) validate --results $(RESULTS)

results-docs: build ## write the tables of docs/results.md and README.md from results (CHECK=1: compare)
	@scripts/results-docs --results $(RESULTS) $(if $(CHECK),--check)

clean: ## remove build/ (results are kept)
	@rm -rf build
