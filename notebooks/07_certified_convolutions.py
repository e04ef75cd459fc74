# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Binary convolutions, proven optimal
#
# One hidden layer of products of two binary filters, averaged over regions of an image: among all such networks, of any
# width and at this price of the second layer, which is the best? Seconds are enough to find it and to prove it, and the
# result takes a few hundred bytes.
#
# *Needs:* `pip install -e ".[notebooks]"`; no download and no GPU.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import IntSlider, interact

import qsdp
import qsdp_check
from qsdp.encoding import Patches
from qsdp.plotting import FiltersDisplay

plt.rcParams["figure.figsize"] = (6, 3.8)
data = qsdp.datasets.load_bundled("digits")
images, digits = data.X.reshape(-1, 8, 8).astype(np.uint8), data.y
train, rest = slice(0, 1300), slice(1300, None)

patches = Patches(size=3, regions=3)
model = qsdp.QuantizedNetworkClassifier(
    encoding=patches,
    loss="cross_entropy",
    refine="exact",
    beta="0.3%",
    random_state=0,
)
model.fit(images[train], digits[train])
filters = FiltersDisplay.from_estimator(
    model, n_shown=12, image=images[3]
)

# %% [markdown]
# ## What the neurons look for
#
# A neuron multiplies the responses of two filters (white is +1, black -1, the small square the constant) at every
# position in its region. The picture shows the neurons with the largest penalty, and where they respond in an image.
# Move the slider to another class; it needs a running kernel.


# %%
def of_class(label=3):
    example = images[np.flatnonzero(digits == label)[0]]
    FiltersDisplay.from_estimator(
        model, n_shown=8, output=label, image=example
    )
    plt.show()


interact(of_class, label=IntSlider(3, 0, 9))

# %% [markdown]
# ## From images to a proof
#
# `Patches` turns an image into one small matrix for each region: the sum of products of the pixels of its patches, in
# exact integers. The cross-entropy of all ten classes is then minimised over all networks at once.

# %%
print(
    patches.fit(images).layout_.sizes,
    patches.transform(images).rows.dtype,
)
print(model.certificate_)
print(
    "accuracy on the other images: "
    f"{model.score(images[rest], digits[rest]):.3f}"
)

# %% [markdown]
# ## A check without this package
#
# The checker needs NumPy, the images and the geometry of their patches, and nothing of what trained the network.

# %%
os.chdir(tempfile.mkdtemp())
model.certificate_.save("digits.cert", include_data=False)
np.savez(
    "digits.npz",
    images=images[train],
    patches=model.result_.problem.blocks.patches,
    y=digits[train],
)
code = qsdp_check.main(["digits.cert", "--data", "digits.npz"])

# %% [markdown]
# ## From a proof to bytes
#
# With second-layer weights of a few bits, the network becomes a file of a few hundred bytes. The bound of the proof
# holds for the rounded network as for every other one, so its gap is known.

# %%
problem, bound = model.result_.problem, model.certificate_.lower_bound
print(" bits  bytes  gap      accuracy")
for bits in (2, 3, 4, 6, 8):
    rounded = qsdp.refit(model.network_, problem, alpha_bits=bits)
    path = Path(f"network-{bits}")
    rounded.save(path)
    gap = 1 - bound / problem.objective(rounded)
    outputs = model.encoder_.predict(
        qsdp.load_network(path), images[rest]
    )
    right = np.mean(outputs.argmax(axis=1) == digits[rest])
    print(f"{bits:5} {path.stat().st_size:6}  {gap:7.3%}  {right:.3f}")

# %% [markdown]
# ## Another loss for the second layer
#
# With the squared loss, proofs are faster still, for each class by itself. `refit` keeps its first layer and chooses
# the second by the cross-entropy. Such a network has **no bound of its own**: the proof is about another loss.

# %%
squared = qsdp.QuantizedNetworkClassifier(
    encoding=patches, refine="exact", beta="0.1%", random_state=0
)
squared.fit(images[train], digits[train])
refitted = qsdp.refit(
    squared.network_,
    squared.result_.problem,
    loss="cross_entropy",
    alpha_bits=6,
)
refitted.save("refitted")
right = np.mean(
    squared.encoder_.predict(refitted, images[rest]).argmax(axis=1)
    == digits[rest]
)
print(f"squared loss: {squared.certificate_}")
print(
    f"accuracy {squared.score(images[rest], digits[rest]):.3f}, "
    f"refitted {right:.3f}",
    end=" ",
)
print(f"in {Path('refitted').stat().st_size} bytes")

# %% [markdown]
# ## All of MNIST
#
# The same steps on the 60,000 training images, with $2 \times 2$ pixels averaged, take three minutes on one core. This
# was run once:
#
# ```python
# images, digits = qsdp.datasets.load_mnist("train")
# new, truth = qsdp.datasets.load_mnist("test")
# model = qsdp.QuantizedNetworkClassifier(
#     encoding=Patches(size=3, regions=4, downsample=2, image_shape=(28, 28)),
#     loss="cross_entropy",
#     refine="exact",
#     beta="0.04%",
#     time_limit=300,
#     random_state=0,
# ).fit(images, digits)
# print(model.certificate_)
# print(f"accuracy on the test images: {model.score(new, truth):.4f}")
# ```
#
# ```
# objective 8041.53, globally optimal to relative gap 5.1e-07 (lower bound 8041.528513)
# accuracy on the test images: 0.9789
# ```
#
# With second-layer weights of 3 bits, `refit` makes a file of 1240 bytes of it, with a gap of 3.4 %, which classifies
# 97.73 % of the test images correctly.

# %% [markdown]
# ## Change it
#
# Other patches and regions, or `scaling="size"`, which makes neurons in dark regions cheap.

# %%
other = qsdp.QuantizedNetworkClassifier(
    encoding=Patches(size=2, regions=4, scaling="size"),
    loss="cross_entropy",
    refine="exact",
    beta="0.3%",
    random_state=0,
)
other.fit(images[train], digits[train])
print(other.certificate_)
print(
    f"accuracy {other.score(images[rest], digits[rest]):.3f} with "
    f"{other.network_.n_neurons} neurons"
)
