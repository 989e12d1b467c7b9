"""Count seals on a drone picture: a threshold, then connected regions."""

import numpy as np
from scipy.ndimage import label

MIN_PIXELS = 35


def count_seals(picture: np.ndarray, threshold: float = 0.62) -> int:
    """Return how many dark regions are large enough to be a seal."""
    dark = picture.mean(axis=-1) < threshold
    regions, found = label(dark)
    sizes = np.bincount(regions.ravel())[1 : found + 1]
    return int((sizes >= MIN_PIXELS).sum())


def ground_resolution(height_m: float, focal_mm: float, sensor_mm: float, pixels: int) -> float:
    """Return the centimetres on the ground that a pixel covers."""
    return 100 * height_m * sensor_mm / (focal_mm * pixels)
