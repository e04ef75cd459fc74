"""
Bounds over signs: MaxCut
=========================

Training one neuron is as hard as MaxCut, and the solver for it is available on
its own: :func:`qsdp.maxcut_bound` bounds a quadratic form over all vectors of
signs, :func:`qsdp.grothendieck_bound` a bilinear one.
"""

import matplotlib.pyplot as plt
import numpy as np

import qsdp

rng = np.random.default_rng(0)
graph = np.triu(rng.random((200, 200)) < 0.05, 1).astype(float)
graph += graph.T
laplacian = np.diag(graph.sum(axis=0)) - graph
bound = qsdp.maxcut_bound(laplacian / 4)


def cut(signs):
    return signs @ laplacian @ signs / 4


hyperplanes = rng.standard_normal((bound.Y.shape[1], 2000))
rounded = [cut(signs) for signs in np.sign(bound.Y @ hyperplanes).T]
random = [cut(signs) for signs in rng.choice([-1.0, 1.0], (2000, 200))]
best = max(rounded)

_, ax = plt.subplots(layout="constrained")
bins = np.arange(440, 780, 5)
ax.hist(random, bins, alpha=0.6, label="random signs")
ax.hist(
    rounded, bins, alpha=0.6, hatch="//", label="random hyperplanes"
)
ax.axvline(best, color="C2", linestyle="--", label="best cut found")
ax.axvline(bound.upper_bound, color="black", label="bound for all cuts")
ax.set(xlabel="edges cut", ylabel="number of cuts")
ax.legend(loc="upper center")

# %%
# The program returns a vector for every node. A random hyperplane cuts the
# graph into the vectors on its two sides, which is far better than tossing
# coins. No cut is to the right of the black line, so the best cut found is at
# most a few percent below the largest one.

print(f"{graph.sum() / 2:.0f} edges; a cut of {best:.0f};", end=" ")
print(f"none above {np.floor(bound.upper_bound):.0f}")
