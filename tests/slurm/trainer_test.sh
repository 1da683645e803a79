#!/usr/bin/env bash
# Trials of the trainer on CPU ranks, started with srun on a private Slurm:
#   - a run whose trials train a small model, and one with a job for each trial
#   - no process is left behind when a job is cancelled
# usage: tests/slurm/trainer_test.sh PROGRAM
export PORT=17250 SLURMD_TIMEOUT=5
source "$(dirname "$0")/setup.sh"

ln -s "$PWD"/experiments/workloads "$S/workloads"
ln -s "$PWD"/experiments/clusters "$S/clusters"
manifest() {  # name, trials
  cat >"$S/$1.toml" <<TOML
[experiment]
methods = ["random"]
[backend]
type = "trainer"
device = "cpu"
scale = 64
ranks = "per-node"
patience_s = 1
[workload]
model = "workloads/gpt2.json"
batch_size = 8
sequence_length = 384
[cluster]
file = "clusters/cpu-4.toml"
[space]
rules = ['\$pp > 2']
[budget]
trials = $2
q_max = $3
[slurm]
resources = "cpu"
TOML
}
rows() { grep -c '^[0-9].*completed' "$S/$1/random/1/trials.csv" || true; }

manifest ranks 3 3
"$program" run "$S/ranks.toml" --dispatch slurm --results "$S" --no-report --wait
[ "$(rows ranks)" -eq 3 ] || fail "ranks: $(cat "$S"/ranks/random/1/trials.csv "$S"/ranks/random/1/trials/*.log)"
grep -q '4 ranks' "$S"/ranks/random/1/trials/*.log || fail "not 4 ranks: $(cat "$S"/ranks/random/1/trials/*.log)"
say "4 CPU ranks in a process that srun starts"

manifest perjob 2 3
"$program" run "$S/perjob.toml" --dispatch slurm --trial-per-job --results "$S" --no-report
[ "$(rows perjob)" -eq 2 ] || fail "perjob: $(cat "$S/perjob/random/1/trials.csv")"
say "a job for each trial"

manifest long 1 100000
"$program" run "$S/long.toml" --dispatch slurm --results "$S" --no-report
trains() { pgrep -f "[o]ppa-train.*--batch-size=8 --sequence-length=384" >/dev/null; }
wait_for 20 trains
"$program" cancel "$S/long.toml" --results "$S"
ended() { ! trains; }
wait_for 20 ended
say "no process is left behind after scancel"
echo "trainer_test: all passed in ${SECONDS}s"
