#!/usr/bin/env bash
# The fault campaign (campaign.py), on this machine and on a private Slurm, a
# loss of power before every sync of a run, disks that are really full, faults at
# a sample of the system calls, odd surroundings, hostile input, configuration
# files and logs of frameworks.
# FAULTS (215) is how many faults are drawn.
# usage: [FAULTS=30] tests/faults/run.sh PROGRAM [options of campaign.py]
export SLURMD_TIMEOUT=5 PORT=17200
source "$(dirname "$0")/../slurm/setup.sh"
shift
faults=${FAULTS:-215}
by_slurm=$((faults / 6 > 7 ? faults / 6 : 7))
python3 tests/faults/campaign.py "$program" --faults $((faults - by_slurm)) --slurm "$by_slurm" "$@"
tests/faults/power_loss.py "$program"
tests/faults/full_disk.sh "$program"
tests/faults/exhaustive.py "$program" --every 11
tests/faults/surroundings.py "$program"
tests/faults/hostile_input.py "$program"
tests/faults/planted_links.py "$program" --every $((faults < 100 ? 25 : 5))
tests/faults/framework_files.py "$program"
tests/faults/framework_logs.py "$program"
