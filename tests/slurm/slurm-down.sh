#!/usr/bin/env bash
# Stops what slurm-up.sh started with the same S, and nothing else: a process is
# touched only if its environment names that folder's slurm.conf.
#
#   [S=folder] tests/slurm/slurm-down.sh [--purge]     --purge removes the folder
set -u

folder=${S:-${TMPDIR:-/tmp}/oppa-slurm-test}
export SLURM_CONF=$folder/slurm.conf

is_ours() {
  tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qxF "SLURM_CONF=$SLURM_CONF"
}

if [ -e "$folder/slurmctld.pid" ]; then
  timeout 10 scancel --quiet --user="$(id -un)" || true
  for _ in $(seq 40); do
    [ -z "$(timeout 5 squeue --noheader)" ] && break
    sleep 0.25
  done
fi
for file in "$folder"/slurmd-*.pid "$folder/slurmctld.pid"; do
  pid=$(cat "$file" 2>/dev/null) || continue
  if is_ours "$pid"; then kill "$pid"; fi
  for _ in $(seq 50); do is_ours "$pid" || break; sleep 0.1; done
  if is_ours "$pid"; then kill -9 "$pid"; fi
  rm -f "$file"
done
# Step daemons, and processes that a job left behind.
for entry in /proc/[0-9]*; do
  pid=${entry#/proc/}
  [ "$pid" != $$ ] && is_ours "$pid" || continue
  if [ "$(cat "$entry/comm")" = slurmstepd ] ||
     tr '\0' '\n' <"$entry/environ" | grep -q '^SLURM_JOB_ID='; then
    kill -9 "$pid"
  fi
done 2>/dev/null
if [ "${1:-}" = --purge ]; then rm -rf "$folder"; fi
true
