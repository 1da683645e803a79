#!/usr/bin/env bash
# The fault campaign (campaign.py), on this machine and on a private Slurm.
# usage: tests/faults/run.sh PROGRAM [options of campaign.py]
set -euo pipefail
program=$(realpath "$1")
shift
cd "$(dirname "$0")/../.."

S=$(mktemp -d /tmp/oppa-slurm-XXXXXX)
export S
unset "${!SLURM_@}" "${!SBATCH_@}" 2>/dev/null || true
trap 'status=$?; tests/slurm/slurm-down.sh --purge; exit $status' EXIT
SLURMD_TIMEOUT=5 PORT=17200 tests/slurm/slurm-up.sh
export SLURM_CONF=$S/slurm.conf
python3 tests/faults/campaign.py "$program" --faults 180 --slurm 35 "$@"
