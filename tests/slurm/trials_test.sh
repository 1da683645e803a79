#!/usr/bin/env bash
# Trials by an external program, and trials that are jobs, on a private Slurm:
#   - ranks on two nodes, started with srun
#   - no process is left behind when a trial ends, or its job is cancelled
#   - a run stops before Slurm's limit and continues in a new job until it is done
#   - --trial-per-job: records as by the local dispatch, also with --set; cancelled, it continues later
#   - status of jobs that Slurm has forgotten, and of a folder that is not ours
# usage: tests/slurm/trials_test.sh PROGRAM
export PORT=17150 SLURMD_TIMEOUT=5 MIN_JOB_AGE=5
source "$(dirname "$0")/setup.sh"

trials() { cat "$S/$1/random/1/trials.csv" 2>/dev/null | grep -c '^[0-9]' || true; }
has_trials() { [ "$(trials "$1")" -ge "$2" ]; }
# Processes of trials carry this in their command line.
echo "$S/stray" >"$S/pattern"
stray_files() { grep -la -f "$S/pattern" /proc/[0-9]*/cmdline 2>/dev/null || true; }
strays() { stray_files | wc -l; }
no_strays() { [ "$(strays)" -eq 0 ]; }

for folder in workloads rules; do ln -s "$PWD/experiments/$folder" "$S/$folder"; done
mkdir "$S/clusters"
sed 's/^nodes = 1/nodes = 2/; s/^gpus_per_node = 8/gpus_per_node = 4/' \
  experiments/clusters/a5000-8.toml >"$S/clusters/two-nodes.toml"
cat >>"$S/clusters/two-nodes.toml" <<TOML

[inter]
name = "a network"
bandwidth_gb_per_s = 1
latency_us = 20
TOML

manifest() {  # name, [backend] lines, trials, [slurm] lines
  cat >"$S/$1.toml" <<TOML
[experiment]
methods = ["random"]
[backend]
type = "command"
patience_s = 1
$2
[workload]
model = "workloads/qwen2-1.5b.json"
batch_size = 64
sequence_length = 128
[cluster]
file = "clusters/two-nodes.toml"
[budget]
trials = $3
q_max = 3
[slurm]
$4
TOML
}

# Each rank leaves a file; the first one reports. Every rank leaves a stray
# process in a session of its own.
cat >"$S/ranks.sh" <<'SH'
#!/bin/sh
touch "ranks/$OPPA_DP-$SLURM_NODEID-$SLURM_PROCID-of-$SLURM_NTASKS"
setsid -f sh -c 'trap "" TERM; while :; do sleep 0.1; done' "$PWD/stray"
if [ "$SLURM_PROCID" = 0 ]; then
  for i in 1 2 3; do echo 'oppa {"step_time_s": 0.5, "peak_memory_bytes": 1e9}'; done
fi
SH
# Takes its time, and leaves a stray.
cat >"$S/slow.sh" <<'SH'
#!/bin/sh
setsid -f sh -c 'trap "" TERM; while :; do sleep 0.1; done' "$PWD/${2:-stray}"
sleep "${1:-1}"
for i in 1 2 3; do echo 'oppa {"step_time_s": 0.5}'; done
SH
chmod +x "$S"/*.sh

mkdir "$S/ranks"
manifest ranks 'program = ["./ranks.sh"]
ranks = "per-gpu"' 2 ''
"$program" run "$S/ranks.toml" --dispatch slurm --results "$S" --no-report --wait
has_trials ranks 2 || fail "ranks: $(cat "$S"/ranks/.slurm/*/log/0-0.txt)"
grep -q completed "$S/ranks/random/1/trials.csv" || fail "ranks: $(cat "$S/ranks/random/1/trials.csv")"
[ "$(find "$S/ranks" -maxdepth 1 -name '*-0-*-of-8' | wc -l)" -ge 4 ] || fail "no 4 ranks on the first node: $(ls "$S/ranks")"
[ "$(find "$S/ranks" -maxdepth 1 -name '*-1-*-of-8' | wc -l)" -ge 4 ] || fail "no 4 ranks on the second node: $(ls "$S/ranks")"
no_strays || fail "$(strays) processes of ranks are left"
say "8 ranks on 2 nodes by srun, of which none leaves a process"

manifest contained 'program = ["./slow.sh"]' 3 ''
"$program" run "$S/contained.toml" --dispatch slurm --results "$S" --no-report --wait
has_trials contained 3 || fail "contained"
no_strays || fail "$(strays) processes of trials are left"
manifest cancelled 'program = ["./slow.sh", "60"]' 2 ''
"$program" run "$S/cancelled.toml" --dispatch slurm --results "$S" --no-report
stray_is_there() { [ "$(strays)" -gt 0 ]; }
wait_for 20 stray_is_there
"$program" cancel "$S/cancelled.toml" --results "$S"
wait_for 20 no_strays
say "no process is left behind, after a trial and after scancel"

# Slurm's shortest limit is a minute; a run stops by itself after 48 s of it.
manifest limit 'program = ["./slow.sh", "7", "other"]' 9 'time_minutes = 1'
"$program" run "$S/limit.toml" --dispatch slurm --results "$S" --no-report --requeue-until-done

cp experiments/smoke.toml "$S/smoke.toml"
ln -s "$PWD"/experiments/clusters/a5000-8.toml "$S/clusters/"
"$program" run "$S/smoke.toml" --repeats 1 --set noise.factor=3 --results "$S/local" --no-report >/dev/null
"$program" run "$S/smoke.toml" --repeats 1 --set noise.factor=3 --results "$S/jobs" --no-report --dispatch slurm --trial-per-job
count=0
while read -r file; do
  cmp "$S/local/smoke/$file" "$S/jobs/smoke/$file" || fail "$file differs"
  count=$((count + 1))
done < <(cd "$S/local/smoke" && find . -name trials.csv -o -name steps.csv -o -name fits.csv)
[ "$count" -eq 12 ] || fail "$count record files"
say "a job for each trial: records as by the local dispatch"

manifest perjob 'program = ["./slow.sh", "2"]' 4 'resources = "cpu"'
"$program" run "$S/perjob.toml" --results "$S" --no-report --dispatch slurm --trial-per-job &
search=$!
wait_for 30 has_trials perjob 1
wait_for 20 stray_is_there
"$program" status "$S/perjob.toml" --results "$S" --all | grep -q 'its trial is job [0-9]*: running on n' ||
  fail "status of a trial's job: $("$program" status "$S/perjob.toml" --results "$S" --all)"
"$program" cancel "$S/perjob.toml" --results "$S"
wait "$search" && fail "a search whose trial was cancelled says that it is done"
wait_for 20 no_strays
before=$(cat "$S/perjob/random/1/trials.csv")
"$program" run "$S/perjob.toml" --results "$S" --no-report --dispatch slurm --trial-per-job &
search=$!
wait_for 30 has_trials perjob 2
kill -9 "$search"  # its job continues
sleep 1
"$program" run "$S/perjob.toml" --results "$S" --no-report --dispatch slurm --trial-per-job
has_trials perjob 4 || fail "perjob: $(cat "$S/perjob/random/1/trials.csv")"
[ "${before}" = "$(head -n "$(wc -l <<<"$before")" "$S/perjob/random/1/trials.csv")" ] || fail "perjob: rows changed"
no_strays || fail "$(strays) processes of trials are left"
say "trial-per-job: cancelled, killed, and run to its end"

flight=("$program" run "$S/perjob.toml" --set budget.in_flight=2 --results "$S/flight" --no-report --dispatch slurm --trial-per-job)
flight_has() { [ "$(grep -c '^[0-9]' "$S/flight/perjob/random/1/trials.csv" 2>/dev/null)" -ge "$1" ]; }
two_jobs() { [ "$(find "$S/flight/perjob/random/1/jobs" -name job.json | wc -l)" -ge 2 ]; }
"${flight[@]}" &
search=$!
wait_for 30 two_jobs
kill -9 "$search"  # two jobs continue
"${flight[@]}"
flight_has 4 || fail "in flight: $(cat "$S/flight/perjob/random/1/trials.csv")"
[ "$(find "$S/flight/perjob/random/1/jobs" -name 'result-*' | wc -l)" -eq 4 ] || fail "in flight: a job was not adopted"
say "trial-per-job: two jobs at once, killed, and adopted"

stopped() { "$program" status "$S/limit.toml" --results "$S" --json | grep -q '"state": "done"'; }
wait_for 150 stopped
[ "$(find "$S/limit/.slurm" -name submission.json | wc -l)" -ge 2 ] || fail "limit: one job did it all"
grep -q '"time_limit"' "$S"/limit/.slurm/*/attempts/0.json || fail "limit: no attempt stopped by itself"
! grep -q timed_out "$S/limit/random/1/trials.csv" || fail "limit: a trial was cut off"
[ "$(trials limit)" -eq 9 ] || fail "limit: $(trials limit) trials"
say "stopped before the limit, continued in a new job until done"

# Slurm forgets jobs after 5 s (MinJobAge; it looks every half minute or so).
forgotten() { [ -z "$(squeue --noheader --states=all)" ]; }
wait_for 90 forgotten
"$program" status "$S/limit.toml" --results "$S" | grep -q '1 of 1 runs done' || fail "status after Slurm forgot"
"$program" status "$S/cancelled.toml" --results "$S" --all | grep -Eq 'lost|failed|stopped' ||
  fail "status of a run that was cancelled and forgotten: $("$program" status "$S/cancelled.toml" --results "$S" --all)"
"$program" logs "$S/limit.toml" random/1 --results "$S" >/dev/null
say "status after Slurm has forgotten the jobs"

if mkdir "$S/theirs" && mount --bind "$S" "$S/theirs" 2>/dev/null && mount -o remount,ro,bind "$S/theirs" 2>/dev/null; then
  "$program" status "$S/limit.toml" --results "$S/theirs" --all >"$S/status" || fail "status of a read-only folder"
  "$program" run "$S/perjob.toml" --results "$S/theirs" --no-report >"$S/again" 2>&1 || true
  "$program" run "$S/contained.toml" --repeats 2 --results "$S/theirs" --no-report >"$S/again" 2>&1 && fail "a run into a read-only folder"
  [ "$(wc -l <"$S/again")" -eq 1 ] || fail "not one line: $(cat "$S/again")"
  umount "$S/theirs"
  say "status of a read-only folder; a run into it is refused in one line"
else
  say "skipped: no bind mounts here, so no read-only folder"
fi
umount "$S/theirs" 2>/dev/null || true

echo "trials_test: all passed in ${SECONDS}s"
