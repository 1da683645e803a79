#!/usr/bin/env bash
# The smoke experiment on a private Slurm, as a user would run it:
#   - `oppa run --dispatch slurm` returns at once; its last job draws the figures
#   - records are byte for byte those of the local dispatch
#   - status, logs and cancel on real jobs
# usage: tests/slurm/slurm_test.sh PROGRAM
export SLURMD_TIMEOUT=5
source "$(dirname "$0")/setup.sh"
manifest=experiments/smoke.toml

same_records() {  # folder folder
  local count=0 file
  while read -r file; do
    cmp "$1/$file" "$2/$file" || fail "$file differs between $1 and $2"
    count=$((count + 1))
  done < <(cd "$1" && find . -name trials.csv -o -name steps.csv -o -name fits.csv)
  [ "$count" -ge "$3" ] || fail "only $count record files in $1"
}

runs_in_state() { "$program" status "$manifest" --results "$S/$1" --json | grep -c "\"state\": \"$2\""; }
all_done() { [ "$(runs_in_state "$1" done)" -eq 8 ]; }

"$program" run "$manifest" --results "$S/local" --no-report >/dev/null

"$program" run "$manifest" --dispatch slurm --results "$S/fire and forget"
wait_for 60 all_done "fire and forget"
wait_for 60 test -s "$S/fire and forget/smoke/summary.csv"
same_records "$S/local" "$S/fire and forget" 24
say "array, last job and report: records as by the local dispatch"

make --no-print-directory exp-smoke DISPATCH=slurm WAIT=1 RESULTS="$S/make" >"$S/make.log"
grep -q 'RANDOM' "$S/make.log" || fail "make exp-smoke DISPATCH=slurm WAIT=1 shows no table"
ls "$S"/make/smoke/figures/*.pdf >/dev/null
same_records "$S/local" "$S/make" 24
say "make exp-smoke DISPATCH=slurm"

# Held jobs: pending with their reason, cancelled, and run after all.
scontrol update PartitionName=main State=DOWN
"$program" run "$manifest" --dispatch slurm --results "$S/held" --no-report
all_pending() { [ "$(runs_in_state held pending)" -eq 8 ]; }
queue_is_empty() { [ -z "$(squeue --noheader)" ]; }
wait_for 20 all_pending
"$program" cancel "$manifest" --results "$S/held"
wait_for 20 queue_is_empty
scontrol update PartitionName=main State=UP
"$program" run "$manifest" --dispatch slurm --results "$S/held" --no-report --wait >"$S/held.log"
same_records "$S/local" "$S/held" 24
say "pending, cancelled, run again"

# Resources of the cluster: 8 GPUs a run, so one run to a node.
for folder in workloads clusters rules; do ln -s "$PWD/experiments/$folder" "$S/$folder"; done
cp "$manifest" "$S/gpus.toml"
printf '\n[slurm]\nresources = "cluster"\npartition = "main"\n' >>"$S/gpus.toml"
"$program" run "$S/gpus.toml" --dispatch slurm --results "$S/gpus" --no-report --wait >"$S/gpus.log"
"$program" logs "$S/gpus.toml" oppa/1 --results "$S/gpus" >/dev/null
# Through a file: grep -q would leave scontrol with a broken pipe.
scontrol show job "$(sed -n 's/.*submitted as job \([0-9]*\).*/\1/p' "$S/gpus.log")" >"$S/gpus.jobs"
grep -q 'gres.gpu:8' "$S/gpus.jobs" || fail "the jobs did not get 8 GPUs"
say "8 GPUs for each run"

echo "slurm_test: all passed in ${SECONDS}s"
