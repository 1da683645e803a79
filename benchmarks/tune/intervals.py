"""Medians of repeated measurements, with bootstrap intervals."""

import random
import statistics

RESAMPLES = 10000


def bootstrap(groups, seed=1):
    """The median of all values with its 95% interval, (value, low, high).

    A group is a list of repeated measurements. Groups are drawn with replacement, then measurements of each drawn
    group. One value has no interval, and no value has no median.
    """
    groups = [group for group in groups if group]
    if not groups:
        return None, None, None
    values = [value for group in groups for value in group]
    median = statistics.median(values)
    if len(values) < 2:
        return median, None, None
    engine = random.Random(seed)
    medians = sorted(
        statistics.median(value for group in engine.choices(groups, k=len(groups))
                          for value in engine.choices(group, k=len(group)))
        for _ in range(RESAMPLES))
    return median, medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def ratios(measured, reference):
    """Measurements divided by those of the reference in the same round. None: did not run."""
    return [value / other for value, other in zip(measured, reference) if value and other]
