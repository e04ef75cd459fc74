"""
Train with a loss of your own
=============================

A loss is a class. The pinball loss makes a network predict a quantile in place
of the mean; :doc:`/howto/add_a_loss` explains its members and how to check
them.
"""

from dataclasses import dataclass

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import qsdp
from qsdp.losses import PiecewiseQuadratic


@dataclass(frozen=True)
class Pinball(PiecewiseQuadratic):
    q: float = 0.5
    name, smooth, bounded_dual = "pinball", False, True
    lipschitz = property(lambda self: max(self.q, 1 - self.q))

    def interval(self, target):
        return self.q - 1, self.q

    def values(self, prediction, target):
        r = target - prediction
        return np.maximum(self.q * r, (self.q - 1) * r)

    def expression(self, prediction, target, weight=1.0):
        r = target - prediction
        return cp.sum(
            cp.multiply(
                weight, cp.maximum(self.q * r, (self.q - 1) * r)
            )
        )

    def rescaled(self, scale):
        return self, scale


rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-1, 1, 300))
y = x + x**2 + (0.1 + 0.5 * x**2) * rng.standard_normal(300)
X = np.column_stack([x, np.ones(300)])
_, ax = plt.subplots(layout="constrained")
ax.plot(x, y, ".", color="0.7")
for q, style in ((0.1, ":"), (0.5, "-"), (0.9, "--")):
    problem = qsdp.TrainingProblem(X, y, beta=0.5, loss=Pinball(q))
    best = qsdp.column_generation(problem)
    ax.plot(x, best.network.predict(X), style, label=f"q = {q}")
    below = np.mean(y <= best.network.predict(X))
    print(f"q = {q}: {below:.0%} of the targets are below the curve")
ax.set(xlabel="x", ylabel="y")
ax.legend()

# %%
# The curves have a tenth, a half and nine tenths of the targets below them, and
# their distance grows with the noise. Each is the proven optimum of all
# networks, for a loss that the package does not contain:

print(best.certificate)
