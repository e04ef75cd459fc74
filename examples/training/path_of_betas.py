"""
Choose beta along a path
========================

Beta is the price of second-layer weights. From :func:`qsdp.beta_max` on, the
zero network is optimal. Below it, each solve of the relaxation starts from the
solution for the beta before.
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
betas = qsdp.beta_max(problem) * np.geomspace(0.9, 1e-3, 16)
path = [qsdp.solve_relaxation(problem.with_beta(betas[0]))]
for beta in betas[1:]:
    path.append(
        qsdp.solve_relaxation(problem.with_beta(beta), start=path[-1])
    )

_, ax = plt.subplots(layout="constrained")
for name, rows, style in (
    ("training", train, "o-"),
    ("test", test, "s--"),
):
    errors = np.array(
        [np.mean((one.predict(X[rows]) - y[rows]) ** 2) for one in path]
    )
    ax.semilogx(betas, errors, style, label=f"{name} rows")
ax.set(xlabel="beta", ylabel="mean squared error of the relaxation")
ax.legend()

# %%
# A smaller beta fits the training rows better and better. On the test rows the
# error has a minimum, and beta belongs there. The estimators find it with
# ``beta="auto"`` on held-out rows.

best = betas[np.argmin(errors)]
print(f"smallest test error {errors.min():.2f} at beta = {best:.1f}")
print(f"which is {best / qsdp.beta_max(problem):.1%} of beta_max")
