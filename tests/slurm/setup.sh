# Sourced by tests with a private Slurm, which ends with the script (slurm-up.sh
# says which variables describe it). PROGRAM is the first word of the script.
set -euo pipefail
program=$(realpath "$1")
test_name=$(basename "$0" .sh)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export S=${S:-$(mktemp -d /tmp/oppa-slurm-XXXXXX)}
# It is isolated from a Slurm cluster that this machine may belong to.
unset "${!SLURM_@}" "${!SBATCH_@}" 2>/dev/null || true
trap 'status=$?; tests/slurm/slurm-down.sh --purge; exit $status' EXIT
tests/slurm/slurm-up.sh
export SLURM_CONF=$S/slurm.conf

fail() { echo "$test_name: $1" >&2; exit 1; }
say() { echo "$test_name: $1 (${SECONDS}s)"; }
wait_for() {  # seconds, command: until it succeeds
  local end=$((SECONDS + $1)); shift
  until "$@"; do [ $SECONDS -lt $end ] || fail "waited in vain for: $*"; sleep 0.2; done
}
