"""
Levels and activations
======================

Weights may have more than two levels, and neurons may have a polynomial of
degree two as their activation. Both reduce to the binary bilinear problem, so
the semidefinite program stays as small as it is.
"""

import matplotlib.pyplot as plt
import numpy as np

import qsdp
from qsdp.plotting import DecisionRegionDisplay, LevelsDisplay

X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
y = np.where(X[:, 1] > 1.5 * X[:, 0] ** 2 - 0.5 * X[:, 0] - 0.3, "up", "down")

_, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for activation, levels, ax in zip(
    (None, "relu_like", "relu_like"), (2, 2, 5), axes, strict=True
):
    model = qsdp.QuantizedNetworkClassifier(
        12,
        activation=activation,
        levels=levels,
        beta="1%",
        encoding="standard",
        constant_column=False,
        random_state=0,
    )
    model.fit(X, y)
    DecisionRegionDisplay.from_estimator(model, X, y, ax=ax)
    name = f"{activation or 'bilinear'}, {levels} levels"
    ax.set_xlabel(f"{name}: {model.score(X, y):.0%} right")

# %%
# A bilinear network without a column of ones is even, so its regions are the
# same on both sides of the origin. An activation with a linear part finds the
# parabola, and with five levels, -4, -2, 0, 2 and 4, the same twelve neurons
# follow it more closely. Some four in ten of their weights are zero:

LevelsDisplay.from_network(model.network_)
