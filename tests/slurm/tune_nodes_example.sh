#!/usr/bin/env bash
# Tunes a PyTorch job on two nodes in the three ways of docs/tune-your-job.md, with a private Slurm and CPU ranks, and
# prints the commands and what they print. usage: tests/slurm/tune_nodes_example.sh PROGRAM PYTHON [WAYS]
export PORT=17400
python=$(realpath -s "$2")
source "$(dirname "$0")/setup.sh"
root=$PWD
trap 'status=$?; cd "$root"; tests/slurm/slurm-down.sh --purge; exit $status' EXIT
cp tests/jobs/torch/{train_ddp.py,tiny_gpt.py,config.json} "$S"
cd "$S"
mkdir bin
ln -s "$program" bin/oppa
cp "$root/tests/slurm/fake_ssh.sh" bin/ssh
PATH=$S/bin:$(dirname "$program"):$(dirname "$python"):$PATH
printf 'localhost\n127.0.0.1\n' >hosts
launch=(torchrun --nproc_per_node=2)
# Torchrun of PyTorch 1.13 needs them with Python 3.11.
case $("$python" -c 'import torch; print(torch.__version__)') in 1.*) launch+=(-r 1 -t 1) ;; esac
job=("${launch[@]}" train_ddp.py --micro-batch '{micro_batch_size}' --accumulate '{microbatches}' --steps '{max_steps}')
options=(--gpus 2x2 --model config.json --batch 16 --seq 64 --start dp=4,microbatches=4 --step-time 'took ([0-9.]+) s'
  --trials 3 --steps 6 --finalists 1)

show() {  # words: prints and runs them
  echo "\$ $(printf '%q ' "$@" | sed 's/ $//')"
  local begin=$SECONDS
  "$@" 2>&1 | sed -u "s#$S#~/job#g"
  echo "# $((SECONDS - begin)) s"
}
for way in ${3:-search trial srun hosts}; do
  case $way in
    search)
      show oppa tune --slurm search --sbatch "--partition=main --time=1:00:00" "${options[@]}" -- "${job[@]}"
      wait_for 300 test -e oppa-results/tune/best.json
      show oppa logs oppa-results/tune.toml
      ;;
    trial) show oppa tune --name each --slurm trial "${options[@]}" -- "${job[@]}" ;;
    srun) show salloc --quiet --nodes=2 --cpus-per-task=2 oppa tune --name inside "${options[@]}" -- "${job[@]}" ;;
    hosts) show oppa tune --name hosts --hostfile hosts "${options[@]}" -- "${job[@]}" ;;
  esac
done
