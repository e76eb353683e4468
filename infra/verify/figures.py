"""Figures of observations."""

import math


def percentile(values, share):
    """Returns the value that `share` of the values do not exceed; None without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def summary(values):
    """Returns count, percentiles and maximum of times in ms."""
    return {
        "count": len(values),
        "p50": percentile(values, 0.5),
        "p99": percentile(values, 0.99),
        "p999": percentile(values, 0.999),
        "max": max(values, default=None),
    }


def merged(counts):
    """Returns the sums of several tallies."""
    sums = {}
    for each in counts:
        for name, count in each.items():
            sums[name] = sums.get(name, 0) + count
    return sums
