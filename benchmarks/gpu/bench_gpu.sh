#!/bin/sh
# Measures the GPU of this machine: bench_gpu, attention.py, scripts/fit-constants.
# usage: benchmarks/gpu/bench_gpu.sh PROGRAM NAME OUT
set -e
program=$1 name=$2 out=$3
if [ ! -x "$program" ]; then
  echo "bench-gpu: no CUDA compiler was found when the build was configured" >&2
  exit 2
fi
"$program" "$name" "$out" experiments
tflops=$(sed -n 's/^half_tflops = //p' "experiments/gpus/$name.toml")
table=$out/${name}_operators.csv
python3 benchmarks/gpu/attention.py "$name" "$table" "$tflops"
scripts/fit-constants scripts/fits/gpu.toml --table "$table" --hardware "$name" --write --starts 8
build/release/oppa validate --table "$table" --no-figures
