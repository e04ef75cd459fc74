"""The solver inside the package `cutnorm` on an inner problem, run by the Python that has the package.

    python cutnorm.py matrix.npy answer.npz

The script imports only NumPy and `cutnorm`. For each of a few tolerances, from coarse to fine, it writes the median
time of three random starts and the last point. The first run, which compiles, is not counted.
"""

import statistics
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")

from cutnorm.OptManiMulitBallGBB import maxcut_quad, opt_mani_mulit_ball_gbb  # noqa: E402

TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)

M = np.load(sys.argv[1])
n = len(M)
# The number of columns that `cutnorm` uses by default.
p = int(max(min(round(np.sqrt(2 * n) / 2), 100), 1))
size = np.abs(M).sum(axis=0).mean()
seconds, points = [], []
for tolerance in (1e-1, *TOLERANCES):
    times = []
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((p, n))
        x /= np.sqrt((x * x).sum(axis=0))
        start = time.perf_counter()
        x = opt_mani_mulit_ball_gbb(
            x, maxcut_quad, -M, record=0, mxitr=2000, gtol=tolerance * size, xtol=tolerance, ftol=1e-2 * tolerance,
            tau=1e-3,
        )[0]  # fmt: skip
        times.append(time.perf_counter() - start)
    seconds.append(statistics.median(times))
    points.append(x.T)
np.savez(sys.argv[2], tolerances=TOLERANCES, seconds=seconds[1:], points=points[1:])
