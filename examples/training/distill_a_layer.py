"""
Distill a trained layer
=======================

:func:`qsdp.distill` replaces a layer with a quantized network whose outputs are
as near as its neurons allow, and bounds how near the outputs of any such
network could be. It needs inputs, but no targets.
"""

import matplotlib.pyplot as plt
import numpy as np

import qsdp

X, _ = qsdp.datasets.load_bundled("wine")
X = (X - X.mean(axis=0)) / X.std(axis=0)
weights = np.random.default_rng(0).standard_normal((4, 13)) / 4


def layer(X):
    return np.tanh(X @ weights.T)


def error_of(outputs):
    error = np.linalg.norm(outputs - layer(X))
    return error / np.linalg.norm(layer(X))


_, ax = plt.subplots(layout="constrained")
for refine, sizes, style in (
    ("none", [30, 100, 300, 1000, 3000, 10_000], "o-"),
    ("polish", [30, 100, 300], "s--"),
):
    matches = [qsdp.distill(layer, X, m, refine=refine) for m in sizes]
    errors = [error_of(match.predict(X)) for match in matches]
    name = "polished" if refine == "polish" else "sampled"
    ax.loglog(sizes, errors, style, label=name)
relaxed = error_of(matches[0].relaxation.predict(X))
ax.axhline(relaxed, color="black", label="relaxation")
ax.set(
    xlabel="number of neurons", ylabel="relative error of the outputs"
)
ax.set_ylim(bottom=0.08)
ax.legend()

# %%
# A sampled network of ever more neurons approaches the relaxation, the black
# line; three hundred polished ones are nearly there. The relaxation has an
# error, too, since the layer, a tanh, is not a polynomial of degree two.

print(f"300 polished neurons: relative error {errors[-1]:.3f}")
print(f"relaxation:           relative error {relaxed:.3f}")
print(matches[-1].certificate)
