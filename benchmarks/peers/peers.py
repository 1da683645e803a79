#!/usr/bin/env python3
"""One suggestion by oppa, BoTorch and scikit-learn on the same data, side by side.

    benchmarks/peers/peers.py [--threads 2] [--repeats 3] [--candidates 100000 1000000]

The task: 50 observations with known noise of a function over 12 dimensions;
learn every hyperparameter, take mean + 2 standard deviations at every candidate
of a list, return the best. Everybody is given the same numbers, written by
suggestion_benchmark, and standardised targets. The likelihoods reached are
evaluated by one function below, whatever a library says of itself.

Makes a virtual environment in build/peers/venv with the current BoTorch and
scikit-learn of PyPI on first use (BoTorch brings PyTorch: a CPU build if
download.pytorch.org can be reached, else PyPI's with CUDA, 3 GB to download).
"""

import argparse
import copy
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build/peers"
TARGET_RATIO = 60  # over BoTorch's own discrete path
sys.path.insert(0, str(ROOT / "benchmarks"))


def enter_environment():
    """Goes on in the virtual environment, made if it is not there."""
    python = FOLDER / "venv/bin/python"
    if pathlib.Path(sys.prefix) == FOLDER / "venv":
        return
    if not (FOLDER / "venv/complete").exists():
        print(f"peers: making {FOLDER}/venv (once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", FOLDER / "venv"], check=True)
        index = []
        try:
            cpu = "https://download.pytorch.org/whl/cpu"
            urllib.request.urlopen(cpu + "/torch/", timeout=10).close()
            index = ["--extra-index-url", cpu]
        except OSError:
            print("peers: no CPU build of PyTorch within reach, taking PyPI's", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--only-binary", ":all:",
                        *index, "botorch", "scikit-learn"], check=True)
        (FOLDER / "venv/complete").touch()
    os.execv(python, [str(python), *sys.argv])


class Task:
    """What everybody is given; `value` has mean 0 and standard deviation 1."""

    def __init__(self, numpy, candidates, n):
        from suggestion import PROGRAMS
        folder = FOLDER / "task"
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([PROGRAMS / "suggestion_benchmark", "--case", "write-task", "--n", str(n),
                        "--candidates", str(candidates), "--folder", folder], check=True)
        table = numpy.loadtxt(folder / "observations.csv", delimiter=",", skiprows=1)
        self.candidates = numpy.fromfile(folder / "points.f64").reshape(candidates, -1)
        self.points = self.candidates[table[:, 0].astype(int)]
        self.center, self.scale = table[:, 1].mean(), table[:, 1].std(ddof=1)
        self.value = (table[:, 1] - self.center) / self.scale
        self.noise = table[:, 2] / self.scale**2
        (folder / "points.f64").unlink()


def negative_log_likelihood(numpy, task, learned):
    """Per datum, of the standardised values under what was learned."""
    x = task.points / learned["length_scales"]
    square = numpy.maximum(((x[:, None, :] - x[None, :, :]) ** 2).sum(-1), 0.0)
    if learned["kernel"] == "rbf":
        k = numpy.exp(-0.5 * square)
    else:
        a = numpy.sqrt(5.0 * square)
        k = (1.0 + a + a**2 / 3.0) * numpy.exp(-a)
    covariance = learned["signal_variance"] * k + numpy.diag(task.noise + learned.get("nugget_variance", 0.0))
    residual = task.value - learned["constant"]
    sign, log_determinant = numpy.linalg.slogdet(covariance)
    assert sign > 0
    total = residual @ numpy.linalg.solve(covariance, residual) + log_determinant
    return 0.5 * (total / len(residual) + numpy.log(2.0 * numpy.pi))


def botorch_suggests(task, *, starts):
    """BoTorch: its defaults (starts = 0), or Matern-5/2 by likelihood alone, the best of several starts."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.exceptions.errors import ModelFittingError
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf_discrete
    from gpytorch.constraints import Interval
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.mlls import ExactMarginalLogLikelihood

    def tensor(values):
        return torch.as_tensor(values, dtype=torch.double)
    x, y, noise = tensor(task.points), tensor(task.value)[:, None], tensor(task.noise)[:, None]

    def fit(start):
        kernel = None if starts == 0 else ScaleKernel(
            # Without any bounds its fit ends in an error on this task.
            MaternKernel(nu=2.5, ard_num_dims=x.shape[1], lengthscale_constraint=Interval(0.025, 100.0)),
            outputscale_constraint=Interval(1e-8, 1e4))
        model = SingleTaskGP(x, y, noise, covar_module=kernel, outcome_transform=None)
        if start > 0:
            start_log = 1.7 * torch.randn(x.shape[1], dtype=torch.double) - 0.34
            kernel.base_kernel.lengthscale = torch.exp(start_log).clamp(0.03, 90.0)
        try:
            mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        except ModelFittingError:
            return -math.inf, model  # another start has to do
        model.train()
        value = mll(model(x), model.train_targets).sum().item()
        return value, model.eval()

    torch.manual_seed(1)
    begin = time.perf_counter()
    model = max((fit(start) for start in range(max(starts, 1))), key=lambda pair: pair[0])[1]
    fit_s = time.perf_counter() - begin
    acquisition = UpperConfidenceBound(model, beta=4.0)  # the square of ours
    _, value = optimize_acqf_discrete(acquisition, q=1, choices=tensor(task.candidates))
    kernel = model.covar_module
    base = getattr(kernel, "base_kernel", kernel)
    return fit_s, value.item(), {
        "kernel": "matern" if isinstance(base, MaternKernel) else "rbf",
        "length_scales": base.lengthscale.detach().numpy().ravel(),
        "signal_variance": kernel.outputscale.item() if base is not kernel else 1.0,
        "constant": model.mean_module.constant.item(),
    }


def sklearn_suggests(task):
    """scikit-learn: Matern-5/2 by likelihood alone, 4 restarts besides the first start."""
    import numpy
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern
    d = task.points.shape[1]
    kernel = ConstantKernel(1.0, (1e-8, 1e4)) * Matern(numpy.ones(d), (0.025, 100.0), nu=2.5)
    process = GaussianProcessRegressor(kernel, alpha=task.noise, n_restarts_optimizer=4, random_state=1)
    begin = time.perf_counter()
    process.fit(task.points, task.value)
    fit_s = time.perf_counter() - begin
    best = -numpy.inf
    for first in range(0, len(task.candidates), 20_000):
        mean, deviation = process.predict(task.candidates[first:first + 20_000], return_std=True)
        best = max(best, (mean + 2.0 * deviation).max())
    return fit_s, best, {
        "kernel": "matern", "length_scales": process.kernel_.k2.length_scale,
        "signal_variance": process.kernel_.k1.constant_value, "constant": 0.0,
    }


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(suggests, task):
    begin, cpu = time.perf_counter(), cpu_s()
    fit_s, _, learned = suggests(task)
    return {"wall_s": time.perf_counter() - begin, "cpu_s": cpu_s() - cpu, "fit_s": fit_s, "learned": learned}


def ours(case, task, n, threads):
    """The last of two repeats: the first warms up, as the others are warm."""
    from suggestion import run
    row = run(case, n, len(task.candidates), threads, 2)[-1]
    learned = row["learned"]
    learned["kernel"] = "matern"
    learned["signal_variance"] /= task.scale**2
    learned["nugget_variance"] /= task.scale**2
    learned["constant"] = (learned["constant"] - task.center) / task.scale
    return row


def compare(numpy, arguments, candidates):
    task = Task(numpy, candidates, arguments.n)
    peers = {
        "oppa, likelihood, 5 starts": lambda: ours("ucb", task, arguments.n, arguments.threads),
        "oppa, likelihood, 1 start": lambda: ours("ucb-1", task, arguments.n, arguments.threads),
        "oppa, priors, 10 starts": lambda: ours("ucb-map", task, arguments.n, arguments.threads),
        "BoTorch, defaults": lambda: timed(lambda t: botorch_suggests(t, starts=0), task),
        "BoTorch, likelihood, 5 starts": lambda: timed(lambda t: botorch_suggests(t, starts=5), task),
        "scikit-learn, 5 starts": lambda: timed(sklearn_suggests, task),
    }
    reference, default = "oppa, likelihood, 5 starts", "BoTorch, defaults"
    peers = {name: peer for name, peer in peers.items()
             if name in (reference, default, "oppa, likelihood, 1 start") or any(word in name for word in arguments.peers)}
    few = copy.copy(task)  # warms up: a first call loads and compiles
    few.candidates = task.candidates[:1000]
    botorch_suggests(few, starts=0)
    if any("scikit" in name for name in peers):
        sklearn_suggests(few)
    rows = {name: [] for name in peers}
    for _ in range(arguments.repeats):  # in turns, so that other load meets them alike
        for name, suggest in peers.items():
            rows[name].append(suggest())

    def median(name, key):
        return statistics.median(row[key] for row in rows[name])
    print(f"\n{candidates} candidates, {arguments.n} observations, medians of {arguments.repeats}")
    print(f"{'':30} {'wall s':>9} {'CPU s':>9} {'fit s':>8} {'x wall':>8} {'x CPU':>8} {'-log p(y) / n':>14}")
    fitness = {}
    for name in peers:
        fitness[name] = negative_log_likelihood(numpy, task, rows[name][-1]["learned"])
        ratio = {key: median(name, key) / median(reference, key) for key in ("wall_s", "cpu_s")}
        print(f"{name:30} {median(name, 'wall_s'):9.4f} {median(name, 'cpu_s'):9.4f} {median(name, 'fit_s'):8.4f} "
              f"{ratio['wall_s']:8.1f} {ratio['cpu_s']:8.1f} {fitness[name]:14.4f}", flush=True)
    for name in ("oppa, likelihood, 1 start", reference):  # BoTorch's default is one start
        ratio = median(default, "wall_s") / median(name, "wall_s")
        better = fitness[name] <= fitness[default] + 1e-3
        print(f"  {'met   ' if ratio >= TARGET_RATIO and better else 'MISSED'} {name}: {ratio:.0f} times as fast as "
              f"BoTorch's defaults (at least {TARGET_RATIO}), at {'an equal or better' if better else 'a WORSE'} likelihood")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=["oppa", "BoTorch", "scikit"],
                        help="words of names; ours by likelihood and BoTorch's defaults always run")
    parser.add_argument("--candidates", type=int, nargs="+", default=[100_000, 1_000_000])
    arguments = parser.parse_args()
    enter_environment()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)
    os.environ.pop("OPENBLAS_CORETYPE", None)
    import warnings
    warnings.filterwarnings("ignore")  # of bounds that fits without priors end at
    import numpy
    import botorch
    import sklearn
    import torch
    from suggestion import machine
    torch.set_num_threads(arguments.threads)
    print(f"BoTorch {botorch.__version__}, PyTorch {torch.__version__}, scikit-learn {sklearn.__version__}, "
          f"{arguments.threads} threads\n{machine()}", flush=True)
    for candidates in arguments.candidates:
        compare(numpy, arguments, candidates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
