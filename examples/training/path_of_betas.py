"""
Choose beta along a path
========================

Beta is the price of second-layer weights. :func:`qsdp.relaxation_path` solves
for many values of it from one pass over the data, starting at the smallest beta
for which the zero network is optimal.
"""

import matplotlib.pyplot as plt
import numpy as np

import qsdp

X, y = qsdp.datasets.load_bundled("diabetes")
X = np.column_stack(
    [(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))]
)
y = (y - y.mean()) / y.std()
train, test = slice(300), slice(300, None)
problem = qsdp.TrainingProblem(X[train], y[train], beta=1.0)
path = qsdp.relaxation_path(problem, betas=16)

_, ax = plt.subplots(layout="constrained")
for name, rows, style in (
    ("training", train, "o-"),
    ("test", test, "s--"),
):
    errors = np.mean((path.predict(X[rows]) - y[rows]) ** 2, axis=1)
    ax.semilogx(path.betas, errors, style, label=f"{name} rows")
ax.set(xlabel="beta", ylabel="mean squared error of the relaxation")
ax.legend()

# %%
# A smaller beta fits the training rows better and better. On the test rows the
# error has a minimum, and beta belongs there. The estimators find it with
# ``beta="auto"`` on held-out rows.

best = path.betas[np.argmin(errors)]
print(f"smallest test error {errors.min():.2f} at beta = {best:.1f}")
print(f"which is {best / qsdp.beta_max(problem):.1%} of beta_max")
