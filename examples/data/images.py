"""
Images: proven convolutions
===========================

On images, a neuron is a pair of filters of signs whose product is averaged
over a region. With ``refine="exact"`` the network is the best one of its kind,
of any width, and the certificate says so.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import qsdp
from qsdp.plotting import FiltersDisplay

images, digits = (
    load_digits().images.astype(np.uint8),
    load_digits().target,
)
model = qsdp.QuantizedNetworkClassifier(
    encoding=qsdp.encoding.Patches(size=3, regions=2),
    loss="cross_entropy",
    refine="exact",
    beta="0.3%",
    random_state=0,
)
model.fit(images[:1300], digits[:1300])
FiltersDisplay.from_estimator(model, n_shown=9, image=images[0])

# %%
# Each of the nine neurons that cost most has two filters of 3 x 3 signs and a
# region of the image, which is blue. The title names the digit that the neuron
# votes for. All neurons together score the digits that were held out:

print(model.certificate_)
print(f"accuracy on {len(images[1300:])} other images:", end=" ")
print(f"{model.score(images[1300:], digits[1300:]):.1%}")

# %%
# With a second layer of six bits, the network fits into a few hundred bytes.
# The proven bound holds for it, too, and shows what the rounding costs:

problem = model.result_.problem
rounded = qsdp.refit(model.network_, problem, alpha_bits=6)
file = Path(tempfile.mkdtemp()) / "digits.network"
rounded.save(file)
gap = 1 - model.certificate_.lower_bound / problem.objective(rounded)
print(
    f"{file.stat().st_size} bytes, at most {gap:.2%} above the optimum"
)
