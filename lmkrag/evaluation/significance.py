"""Is a difference between two systems real? The paired bootstrap (Efron and Tibshirani, 1993), by SciPy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmkrag.errors import MissingExtra


def paired_interval(
    differences: NDArray[np.floating], *, resamples: int = 2_000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean of per-query differences and its 95 % interval.

    Args:
        differences: ``[queries]``, one system's score minus the other's on the same query.
        resamples: bootstrap samples.
        seed: of the resampling.

    Raises:
        MissingExtra: SciPy is not installed.
    """
    try:
        from scipy.stats import bootstrap
    except ImportError:
        raise MissingExtra("eval", "scipy") from None
    mean = float(differences.mean())
    if len(differences) < 2 or float(np.ptp(differences)) == 0.0:
        return mean, mean, mean
    found = bootstrap(
        (differences,), np.mean, n_resamples=resamples, method="percentile", rng=np.random.default_rng(seed)
    )
    return mean, float(found.confidence_interval.low), float(found.confidence_interval.high)


def macro_interval(
    differences: Sequence[NDArray[np.floating]], *, resamples: int = 2_000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean of the sets' mean differences, every set weighing the same, and its 95 % interval.

    Args:
        differences: of each set, ``[queries]``; queries are resampled inside their set.
        resamples: bootstrap samples.
        seed: of the resampling.
    """
    rng = np.random.default_rng(seed)
    means = np.zeros(resamples)
    for values in differences:
        means += rng.choice(values, (resamples, len(values))).mean(1) / len(differences)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(np.mean([values.mean() for values in differences])), float(low), float(high)
