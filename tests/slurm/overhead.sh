#!/usr/bin/env bash
# The overhead of an array task of oppa compared with one of `true`: 100 tasks
# each, alternately, on a private Slurm; from the submission until no task is
# left in the queue. The run is as small as possible: one random trial. usage:
# tests/slurm/overhead.sh PROGRAM [TURNS]
turns=${2:-3}
export PORT=17300
source "$(dirname "$0")/setup.sh"

for folder in workloads clusters rules; do ln -s "$PWD/experiments/$folder" "$S/$folder"; done
sed -e 's/^repeats = .*/repeats = 100/' -e 's/^methods = .*/methods = ["random"]/' \
  -e 's/^trials = .*/trials = 1/' experiments/smoke.toml >"$S/trivial.toml"

now() { date +%s.%N; }
# Not `squeue | grep -q`, which breaks squeue's pipe and so ends too early.
drained() { while [ -n "$(squeue --noheader --array --jobs "$1" --states=PD,R,CG,CF 2>/dev/null)" ]; do sleep 0.05; done; }

for turn in $(seq "$turns"); do
  begin=$(now)
  job=$(sbatch --parsable --array=0-99 --output=/dev/null --wrap=true)
  drained "$job"
  bare=$(awk -v a="$begin" -v b="$(now)" "BEGIN { print b - a }")
  begin=$(now)
  job=$("$program" run "$S/trivial.toml" --dispatch slurm --results "$S/r$turn" --no-report |
    sed -n 's/.*submitted as job \([0-9]*\).*/\1/p')
  drained "$job"
  ours=$(awk -v a="$begin" -v b="$(now)" "BEGIN { print b - a }")
  done=$("$program" status "$S/trivial.toml" --results "$S/r$turn" --json | grep -c '"state": "done"' || true)
  awk -v b="$bare" -v o="$ours" -v d="$done" -v t="$turn" 'BEGIN {
    printf "turn %d: true %.1f ms a task, ours %.1f ms a task (%d of 100 done), ratio %.2f\n", t, 10 * b, 10 * o, d, o / b }'
done
