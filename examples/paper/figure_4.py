"""
Figure 4: accuracy against the number of neurons
================================================

The paper trains on one-hot targets of several classes, with beta = 1, and
samples networks of every size from one solution. Its data set, vehicle, has to
be downloaded, so this script takes scikit-learn's ten digits, pooled to 4 x 4
pixels, which makes about as many columns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import qsdp

images, digits = load_digits().images / 16, load_digits().target
pixels = (
    images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
)
X = np.column_stack([pixels, np.ones(len(pixels))])
result = qsdp.solve_and_sample(
    X[:1400], np.eye(10)[digits[:1400]], beta=1.0
)


def accuracy(model):
    digit = model.predict(X[1400:]).argmax(axis=1)
    return np.mean(digit == digits[1400:])


def curve(sizes, refine):
    scores = np.empty((len(sizes), 3))
    for row, seed in np.ndindex(scores.shape):
        drawn = result.resample(sizes[row], seed, refine=refine)
        scores[row, seed] = accuracy(drawn.network)
    return sizes, scores


curves = {
    "sampled": curve([30, 100, 300, 1000, 3000, 10_000], "none"),
    "polished": curve([30, 100], "polish"),
}
relaxed = accuracy(result.relaxation)
_, ax = plt.subplots(layout="constrained")
for name, (sizes, scores) in curves.items():
    ax.plot(sizes, scores.mean(axis=1), "o-", label=name)
    ax.fill_between(
        sizes, scores.min(axis=1), scores.max(axis=1), alpha=0.2
    )
ax.axhline(relaxed, color="#666666", linestyle="--", label="relaxation")
ax.set(xscale="log", xlabel="number of neurons", ylabel="accuracy")
ax.legend()

# %%
# Sampled networks approach the dashed line, the accuracy of the relaxation, as
# they grow: nothing is solved again for any of these points. The bands show the
# range of three samples. Flipping single weights so that the objective falls
# ("polished") gives a hundred neurons the accuracy of ten thousand sampled
# ones.

print(
    f"10,000 sampled neurons: {np.mean(curves['sampled'][1][-1]):.1%}"
)
print(
    f"  100 polished neurons: {np.mean(curves['polished'][1][-1]):.1%}"
)
print(f"            relaxation: {relaxed:.1%}")
