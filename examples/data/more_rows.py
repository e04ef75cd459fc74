"""
More rows than memory
=====================

A squared loss depends on the data through sums of products only.
:class:`qsdp.SufficientStatistics` takes rows one batch at a time and forgets
them; problem, network and certificate are those of all rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import qsdp


def batch(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4000, 10))
    signal = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] ** 2
    return X, signal + 2 * rng.standard_normal(4000)


truth = np.zeros((10, 10))
truth[0, 1] = truth[1, 0] = truth[2, 2] = 0.5
statistics, rows, errors = qsdp.SufficientStatistics(), [], []
for seed in range(64):
    statistics.partial_fit(*batch(seed))
    if (seed + 1) & seed == 0:  # after 1, 2, 4, ... batches
        problem = qsdp.TrainingProblem.from_statistics(
            statistics, beta=1.0
        )
        problem = problem.with_beta(1e-3 * qsdp.beta_max(problem))
        best = qsdp.column_generation(problem)
        rows.append(statistics.n_samples_seen_)
        S = best.network.to_quadratic_form().S
        errors.append(np.abs(S - truth).max())

_, ax = plt.subplots(layout="constrained")
ax.loglog(rows, errors, "o-")
ax.set(xlabel="rows read", ylabel="largest error of a coefficient")

# %%
# The network is proven optimal for the rows read so far, and its coefficients
# approach those that made the data. What is kept in memory does not grow:

kept = qsdp.SufficientStatistics.memory(10)
print(f"{statistics}: {kept / 1000:.0f} kB")
print(best.certificate)
