#!/usr/bin/env python3
"""Makes the reference values that the numerical tests compare with.

    python3 tests/reference/make_reference.py [folder]

writes gp_reference.json (kernel, likelihood, gradients and posterior of a
small Gaussian process) and cucb_reference.csv (constrained UCB) with mpmath,
to 25 and 15 digits. Needs python3-mpmath; the tests themselves do not.
"""

import csv
import json
import pathlib
import sys

from mpmath import (cholesky_solve, diff, diag, erf, exp, log, matrix, mp, mpf,
                    nstr, pi, quad, sqrt)
from mpmath import cholesky as factorise

POINTS = ["0.00 0.50 0.25", "0.125 0.75 1.00", "0.30 0.10 0.60",
          "0.45 0.90 0.05", "0.50 0.35 0.80", "0.70 0.65 0.40",
          "0.85 0.20 0.95", "1.00 0.80 0.15"]
NEW_POINTS = ["0.20 0.40 0.50", "0.85 0.20 0.95", "0.60 0.60 0.60",
              "3.00 -2.00 5.00"]
VALUES = "1.25 0.70 1.92 0.41 1.13 0.88 1.57 0.36"
NOISE = "0.0004 0.0100 0.0025 0.0009 0.0400 0.0016 0.0001 0.0064"
LENGTH_SCALES = "0.7 0.35 1.8"
SIGNAL_VARIANCE = "0.45"
COEFFICIENTS = "0.60 0.25 0.40"


def numbers(text):
    return [mpf(word) for word in text.split()]


def digits(values, count=25):
    return [nstr(value, count) for value in values]


def covariance(x, z, length_scales, signal_variance):
    """Matern-5/2, one length scale per dimension."""
    squared = sum(((a - b) / l) ** 2 for a, b, l in zip(x, z, length_scales))
    a = sqrt(5 * squared)
    return signal_variance * (1 + a + a * a / 3) * exp(-a)


def prior_mean(x, c):
    return 1 / (c[0] + c[1] * x[0] + c[2] * x[1] ** 2)


def gram(points, length_scales, signal_variance):
    return matrix([[covariance(x, z, length_scales, signal_variance)
                    for z in points] for x in points])


def log_likelihood(points, values, noise, packed):
    """packed: logarithms of the length scales, s^2 and the coefficients."""
    natural = [exp(p) for p in packed]
    a = gram(points, natural[:3], natural[3]) + diag(noise)
    residual = matrix([y - prior_mean(x, natural[4:])
                       for x, y in zip(points, values)])
    factor = factorise(a)
    alpha = cholesky_solve(a, residual)
    determinant = 2 * sum(log(factor[i, i]) for i in range(len(values)))
    fit = (residual.T * alpha)[0]
    return -(fit + determinant + len(values) * log(2 * pi)) / 2


def gaussian_process():
    mp.dps = 60
    points = [numbers(p) for p in POINTS]
    new_points = [numbers(p) for p in NEW_POINTS]
    values, noise = numbers(VALUES), numbers(NOISE)
    scales, coefficients = numbers(LENGTH_SCALES), numbers(COEFFICIENTS)
    signal_variance = mpf(SIGNAL_VARIANCE)
    kernel = gram(points, scales, signal_variance)
    a = kernel + diag(noise)
    residual = matrix([y - prior_mean(x, coefficients)
                       for x, y in zip(points, values)])
    alpha = cholesky_solve(a, residual)
    packed = [log(v) for v in [*scales, signal_variance, *coefficients]]

    def slope(index):
        """By the definition: a derivative of the likelihood itself."""
        def along(p):
            moved = list(packed)
            moved[index] = p
            return log_likelihood(points, values, noise, moved)
        return diff(along, packed[index])

    means, variances = [], []
    for new in new_points:
        k_star = matrix([covariance(new, x, scales, signal_variance)
                         for x in points])
        means.append(prior_mean(new, coefficients) + (k_star.T * alpha)[0])
        variances.append(signal_variance
                         - (k_star.T * cholesky_solve(a, k_star))[0])
    factor = factorise(a)
    return {
        "about": "f ~ GP(1 / (c1 + c2 x1 + c3 x2^2), Matern-5/2); gradients "
                 "by log length scales, log signal variance, log c",
        "points": [p.split() for p in POINTS],
        "new_points": [p.split() for p in NEW_POINTS],
        "values": VALUES.split(),
        "noise_variances": NOISE.split(),
        "length_scales": LENGTH_SCALES.split(),
        "signal_variance": SIGNAL_VARIANCE,
        "coefficients": COEFFICIENTS.split(),
        "kernel_first_row": digits(kernel[0, j] for j in range(len(values))),
        "cholesky_diagonal": digits(factor[i, i] for i in range(len(values))),
        "alpha": digits(alpha),
        "log_likelihood": nstr(
            log_likelihood(points, values, noise, packed), 25),
        "gradient": digits(slope(i) for i in range(len(packed))),
        "posterior_mean": digits(means),
        "posterior_variance": digits(variances),
    }


# throughput mean and stddev, excess mean and stddev, beta.
BELIEFS = [
    "1 0.1 -10 0.5 1", "1 0.1 -3 0.5 1", "1 0.1 0 0.5 1", "1 0.1 3 0.5 1",
    "2.5 0.4 -1 1 1", "2.5 0.4 -1 3 2", "2.5 0.05 0.7 3 1",
    "0.8 0.3 -2 0.01 1", "0.8 0.3 -2 0 1", "1 0 -1 1 1", "1 0 0.5 0.05 2",
    "1 0 0 10 1", "1 0.001 -1 2 1", "1 1 -1 2 1.5", "0 0.5 -1 2 1",
    "-0.4 0.6 -2 1.5 1", "3.3 0.2 5 2 1",
    "3.3 0.2 -8 5 1.2533141373155003", "0.02 0.005 -4 1 1", "1 0.2 -20 20 1",
]


def constrained_ucb(mu_r, s_r, mu_m, s_m, beta):
    """E[X + beta |X - E X|], X = r / (1 + e^m), by adaptive quadrature."""
    def feasible(m):
        return 1 / (1 + exp(m))

    def weight(z):
        return exp(-z * z / 2) / sqrt(2 * pi)

    def expectation(f, breaks):
        if s_m == 0:
            return f(mu_m)
        return quad(lambda z: weight(z) * f(mu_m + s_m * z), breaks)

    # The smooth part turns within a few units of m = 0, wherever z is.
    turns = [(m - mu_m) / s_m for m in range(-40, 41, 4)] if s_m > 0 else []
    ends = [mpf(-14), mpf(14)]
    steps = [mpf(z) for z in range(-12, 13, 2)]
    breaks = sorted({z for z in [*ends, *steps, *turns] if abs(z) <= 14})
    mean_feasible = expectation(feasible, breaks)
    mean = mu_r * mean_feasible

    def deviation(m):
        delta = mu_r * feasible(m) - mean
        sigma = s_r * feasible(m)
        if sigma == 0:
            return abs(delta)
        return (sigma * sqrt(2 / pi) * exp(-delta ** 2 / (2 * sigma ** 2))
                + delta * erf(delta / (sigma * sqrt(2))))

    if s_m > 0:  # the kink, and a geometric mesh around it
        kink = (log((1 - mean_feasible) / mean_feasible) - mu_m) / s_m
        mesh = [kink + sign * mpf(2) ** -k
                for sign in (-1, 1) for k in range(-3, 25)]
        breaks = sorted({z for z in [*breaks, kink, *mesh] if abs(z) <= 14})
    return mean, mean + beta * expectation(deviation, breaks)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1
                          else pathlib.Path(__file__).parent)
    with open(folder / "gp_reference.json", "w", encoding="utf-8") as out:
        json.dump(gaussian_process(), out, indent=1)
        out.write("\n")
    mp.dps = 25
    with open(folder / "cucb_reference.csv", "w", encoding="utf-8") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["throughput_mean", "throughput_stddev", "excess_mean",
                       "excess_stddev", "beta", "mean", "cucb"])
        for belief in BELIEFS:
            mean, value = constrained_ucb(*numbers(belief))
            rows.writerow([*belief.split(), nstr(mean, 15), nstr(value, 15)])


if __name__ == "__main__":
    main()
