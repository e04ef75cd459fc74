"""
Series: windows
===============

:class:`qsdp.encoding.Windows` does for series what patches do for images. Two
kinds of noisy oscillations are to be distinguished: some keep their frequency,
others drift to a higher one.
"""

import matplotlib.pyplot as plt
import numpy as np

import qsdp
from qsdp.plotting import FiltersDisplay

rng = np.random.default_rng(0)
kinds = rng.choice(["steady", "drifting"], 600)
start = rng.uniform(0.3, 0.9, (600, 1))
rate = start + (kinds == "drifting")[:, None] * np.linspace(0, 0.5, 80)
series = np.sin(np.cumsum(rate, axis=1) + rng.uniform(0, 6, (600, 1)))
series += 0.6 * rng.standard_normal(series.shape)

_, axes = plt.subplots(2, 1, sharex=True, layout="constrained")
for ax, kind in zip(axes, ("steady", "drifting"), strict=True):
    ax.plot(series[kinds == kind][:2].T)
    ax.set_title(kind)
axes[1].set_xlabel("time")

# %%
# By eye this is hard. A neuron has two filters of six signs and sees one half
# of the series; the best of all such networks classifies most of the other 300
# series correctly.

windows = qsdp.encoding.Windows(size=6, segments=2)
model = qsdp.QuantizedNetworkClassifier(
    encoding=windows, beta="0.3%", refine="exact", random_state=0
)
model.fit(series[:300, None], kinds[:300])
print(f"{model.score(series[300:, None], kinds[300:]):.0%} right")
print(model.certificate_)

# %%
# Filters of one sign smooth and answer slow oscillations, those of alternating
# signs fast ones. The blue half is where the neuron looks:

FiltersDisplay.from_estimator(model, n_shown=6)
