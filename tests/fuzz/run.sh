#!/usr/bin/env bash
# Runs every fuzz target for a while and prints the number of inputs that each
# received. usage: [SEED=N] [RUNS=N] tests/fuzz/run.sh BUILD-FOLDER [SECONDS [TARGET...]]
# With SEED and RUNS the inputs are the same each time, whatever the machine.
set -euo pipefail
build=$(realpath "$1")
seconds=${2:-10}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- manifest journal replay_table rules config run_folder slurm trial_report log config_edit adapter finals serve hostfile
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seed() {  # where each target starts
  case $1 in
    manifest) cp experiments/*.toml "$2" ;;
    config) cp experiments/workloads/*.json "$2" ;;
    adapter) cp experiments/adapters/*.toml "$2" ;;
    rules) split -l 1 -d -a 3 <(cat experiments/rules/*.rules) "$2/rule-" ;;
    *) cp tests/fuzz/corpus/"$1"/* "$2" ;;
  esac
}

fuzz() {
  local target=$1 log=$work/$1.log
  mkdir -p "$work/$target"
  seed "$target" "$work/$target"
  # The allocation limit is libFuzzer's default; 25 s for one input is a hang.
  if ! "$build/tests/fuzz/${target}_fuzz" -max_total_time="$seconds" -seed="${SEED:-0}" -runs="${RUNS:--1}" -timeout=25 -rss_limit_mb=2048 \
      -print_final_stats=1 -artifact_prefix="$PWD/fuzz-$target-" "$work/$target" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "fuzz: $target failed; the input is in ./fuzz-$target-*" >&2
    return 255  # ends xargs
  fi
  printf 'fuzz: %-13s %10s executions, clean\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
}

# A target uses one core.
export build seconds work
export -f seed fuzz
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzz {}'
