"""The NumPy array types of the package. A name gives the dtype; docstrings give shapes."""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]  # embeddings
Scores = NDArray[np.float32]  # one number per sentence or document; higher is better
Ids = NDArray[np.int64]  # ids, rows, ordinals, offsets or positions
Mask = NDArray[np.bool_]
Hashes = NDArray[np.uint64]  # 64-bit hashes of words or windows
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Weights = dict[str, Vectors]  # of a model, by their names

NO_IDS: Ids = np.zeros(0, np.int64)
NO_SCORES: Scores = np.zeros(0, np.float32)
