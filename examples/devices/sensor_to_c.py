"""
From a sensor's bytes to C
==========================

A converter delivers signed bytes. A network trained on them as they are needs
no scaling on the device: its C code takes an array of ``int8_t``, and its
outputs are exact integers.
"""

import matplotlib.pyplot as plt
import numpy as np

import qsdp
from qsdp.export import to_c

rng = np.random.default_rng(0)
worn = rng.choice([-1.0, 1.0], 900)
rate = np.where(worn > 0, 0.8, 0.6)[:, None]
wave = np.sin(
    rate * np.arange(16) + rng.uniform(0, 2 * np.pi, (900, 1))
)
noisy = 60 * wave + 25 * rng.standard_normal((900, 16))
readings = np.clip(np.round(noisy), -128, 127).astype(np.int8)
X = readings.astype(float)

result = qsdp.solve_and_sample(
    X[:600], worn[:600], 8, beta="2%", refine="polish", random_state=0
)
code = to_c(result.network, name="bearing", input_range=(-128, 127))
outputs = code.compile().outputs(readings[600:])[:, 0]

_, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), layout="constrained"
)
for sign, style, name in ((-1, "o-", "sound"), (1, "s--", "worn")):
    left.plot(readings[worn == sign][0], style, label=name)
    right.hist(outputs[worn[600:] == sign], 40, alpha=0.6, label=name)
left.set(xlabel="time", ylabel="byte of the converter")
right.set(xlabel="output of the C code", ylabel="number of readings")
left.legend()

# %%
# Two readings are on the left: sixteen noisy bytes each, of a sound bearing and
# of a worn one, which hums higher. The right side shows the integer that the C
# code computes for the 300 readings that were held out. Its sign is the class,
# and a threshold in place of zero trades one kind of error for the other.

right_ones = np.mean(np.sign(outputs) == worn[600:])
print(
    f"{right_ones:.1%} right, with {result.network.n_neurons} neurons"
)
U, V = result.network.U.T.astype(int), result.network.V.T.astype(int)
same = (readings[600:] @ U * (readings[600:] @ V)).sum(
    axis=1
) == outputs
print(
    f"{np.mean(same):.0%} of the outputs are exactly those of the "
    "network"
)

# %%
# This is the heart of the code: two sums of signed bytes per neuron and their
# product.

start = code.source.index("static void evaluate")
print(code.source[start : code.source.index("void bearing_outputs")])
