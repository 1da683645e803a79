#!/usr/bin/env bash
# `oppa tune` of a job on four nodes, on a private Slurm:
#   - in an allocation (srun), from a login node (a job for the search, or for each trial), and on hosts over ssh
#   - killed, cancelled and after a node has failed, it resumes and makes the same records
#   - a node that runs out of memory ends the trial on all of them, and no node keeps a process
# usage: tests/slurm/tune_test.sh PROGRAM
export PORT=17350 SLURMD_TIMEOUT=5
source "$(dirname "$0")/setup.sh"

cp tests/jobs/torch/config.json "$S"
root=$PWD
trap 'status=$?; cd "$root"; tests/slurm/slurm-down.sh --purge; exit $status' EXIT
cd "$S"
echo "$S/stray" >pattern
stray_files() { grep -la -f "$S/pattern" /proc/[0-9]*/cmdline 2>/dev/null || true; }
no_strays() { [ -z "$(stray_files)" ]; }

# The program of one node. The first one prints the steps. A large microbatch
# does not fit into the memory of the third one, and the others then wait.
cat >node.sh <<'SH'
#!/bin/sh
micro=$1 zero=$2 node=$3 master=$4 steps=$5
setsid -f sh -c 'trap "" TERM; while :; do sleep 0.1; done' "$PWD/stray"
touch "seen-$node-$master"
if [ "$micro" -ge 8 ]; then
  if [ "$node" = 2 ]; then sleep 0.2; echo 'node 2: CUDA out of memory' >&2; exit 1; fi
  sleep 60
fi
[ "$node" = 0 ] || exit 0
for i in $(seq "$steps"); do sleep 0.1; echo "step $i took 0.0$((9 - micro))$((4 - zero))$i s"; done
SH
chmod +x node.sh
mkdir bin
cp "$root/tests/slurm/fake_ssh.sh" bin/ssh
export SSH_LOG=$S/ssh-hosts
printf 'user@node-a slots=2\nnode-b\n\n# spare\nnode-c\nnode-d\nnode-e\n' >hosts

tune() {  # name, options
  local name=$1; shift
  "$program" tune --name "$name" --gpus 4x2 --gpu h100 --model config.json --batch 64 --seq 64 --trials 8 --steps 5 \
    --finalists 1 --start dp=8,microbatches=8 --step-time 'took ([0-9.]+) s' "$@" -- \
    ./node.sh '{micro_batch_size}' '{zero_stage}' '{node_rank}' '{master_addr}' '{max_steps}'
}
run_of() { echo "oppa-results/$1/oppa-sim/1"; }
trials() { cat "$(run_of "$1")/trials.csv" 2>/dev/null | grep -c '^[0-9]' || true; }
has_trials() { [ "$(trials "$1")" -ge "$2" ]; }
# What the job determines: the configurations, their outcomes and step times.
records() {
  python3 - "$(run_of "$1")" <<'PY'
import csv, sys
for name, left_out in (("trials", {"setup_s", "duration_s", "elapsed_s", "message", "check"}), ("steps", set())):
    with open(f"{sys.argv[1]}/{name}.csv") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            print({key: value for key, value in row.items() if key not in left_out})
PY
}
same_records() { diff <(records allocation) <(records "$1") >&2 || fail "$1: other records than in an allocation"; }

in_allocation() {  # nodes, name
  (export -f tune; export program; salloc --quiet --nodes="$1" --gres=gpu:2 bash -c "tune $2") >"$2.log" 2>&1
}
in_allocation 2 wrong && fail "4 nodes of 2"
grep -q -- '--gpus is 4x2, and the allocation, job [0-9]*, has 2x' wrong.log || fail "$(cat wrong.log)"

in_allocation 4 allocation || fail "$(cat allocation.log)"
grep -q 'trials run with srun on n\[1-4\], the 4 nodes of job' allocation.log || fail "$(cat allocation.log)"
grep -q 'out of memory .*: node 2: CUDA out of memory' allocation.log || fail "no trial ran out of memory: $(cat allocation.log)"
[ "$(ls seen-* | wc -l)" -eq 4 ] && [ -e seen-3-127.0.0.1 ] || fail "not four nodes: $(ls seen-*)"
no_strays || fail "processes are left: $(stray_files)"
say "in an allocation"

tune search --slurm search --sbatch "--partition=main --time=0:10:00 --mem=200" >search.log || fail "search: $(cat search.log)"
wait_for 40 has_trials search 2
"$program" status oppa-results/search.toml --all | grep -q 'on n\[1-4\]' ||
  fail "status: $("$program" status oppa-results/search.toml --all)"
"$program" logs oppa-results/search.toml oppa-sim/1 | grep -q ' 2/8 ' || fail "logs"
kill -9 "$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' oppa-results/search/.slurm/*/attempts/0.json)"  # the search in the job
wait_for 40 has_trials search 4  # its last job has submitted it again
scontrol update NodeName=n3 State=DOWN Reason=test
sleep 1
scontrol update NodeName=n3 State=RESUME 2>/dev/null || true  # unless it has returned by itself
wait_for 40 has_trials search 6
"$program" cancel oppa-results/search.toml | grep -q 'oppa tune' || fail "cancel"
queue_is_empty() { [ -z "$(squeue --noheader)" ]; }
wait_for 20 queue_is_empty
no_strays || fail "processes are left: $(stray_files)"
tune search --slurm search >search.log || fail "search: $(cat search.log)"
wait_for 40 test -e oppa-results/search/best.json
wait_for 20 queue_is_empty
same_records search
no_strays || fail "processes are left: $(stray_files)"
tune search --slurm search >again.log || fail "the result of a search that is done: $(cat again.log)"
grep -Eq 'Use this command line|Keep yours' again.log || fail "$(cat again.log)"
grep -q submitted again.log && fail "a search that is done is submitted again"
"$program" report oppa-results/search.toml >report.log 2>&1 || grep -q gnuplot report.log || fail "$(cat report.log)"
[ -s oppa-results/search/summary.csv ] || fail "report"
say "a job for the search: killed, its node lost, cancelled, resumed"

tune trial --slurm trial >trial.log 2>&1 &
search=$!
wait_for 40 has_trials trial 2
kill -9 "$(pgrep -P "$search")"  # the trial's job continues
wait "$search" || true
tune trial --slurm trial >>trial.log 2>&1 || fail "trial: $(cat trial.log)"
same_records trial
no_strays || fail "processes are left: $(stray_files)"
say "a job for each trial: killed, resumed"

PATH=$S/bin:$PATH
tune hosts --hostfile hosts >hosts.log 2>&1 &
search=$!
wait_for 40 has_trials hosts 2
kill -9 "$(pgrep -P "$search")"
wait "$search" || true
wait_for 20 no_strays
tune hosts --hostfile hosts >>hosts.log 2>&1 || fail "hosts: $(cat hosts.log)"
grep -q 'ssh on user@node-a, node-b, node-c, node-d$' hosts.log || fail "hosts: $(cat hosts.log)"
[ "$(sort -u ssh-hosts | wc -l)" -eq 4 ] && [ -e seen-3-node-a ] || fail "not four hosts: $(sort -u ssh-hosts; ls seen-*)"
same_records hosts
no_strays || fail "processes are left: $(stray_files)"
say "on hosts over ssh: killed, resumed"

echo "tune_test: all passed in ${SECONDS}s"
