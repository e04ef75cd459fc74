"""
Figure 1: objective against the number of neurons
=================================================

The paper plants ten neurons with binary weights in 100 rows of 20 columns. One
semidefinite program is solved, and networks of every size are sampled from its
solution:
"""

import qsdp
from qsdp.plotting import ObjectiveDisplay

X, y = qsdp.datasets.make_planted(
    n=100, d=20, n_neurons=10, random_state=0
)
result = qsdp.solve_and_sample(X, y, beta=1e-4, random_state=0)
sizes = [10, 30, 100, 300, 1000, 3000]
display = ObjectiveDisplay.from_result(result, sizes, n_draws=5)

# %%
# The objective of sampled networks falls like one over the number of neurons.
# No network of any width can cross the black line; infinitely many sampled
# neurons would reach the dashed one.
#
# The paper compares with backpropagation, whose weights are rounded to signs
# afterwards (this needs PyTorch). The package can also flip single weights of a
# sample wherever the objective falls, which it calls polishing:

from qsdp.baselines import BackpropRegressor

rounded = []
for m in sizes:
    model = BackpropRegressor(
        m,
        beta=1e-4,
        second_layer="fixed",
        constant_column=False,
        random_state=0,
    )
    network = model.fit(X, y).quantized(scale="shared")
    rounded.append(result.problem.objective(network))
polished = [
    result.resample(m, 0, refine="polish").certificate.objective
    for m in sizes[:3]
]
display = ObjectiveDisplay.from_result(result, sizes, n_draws=5)
display.ax_.plot(sizes, rounded, "C1s--", label="backprop, rounded")
display.ax_.plot(sizes[:3], polished, "C2^-", label="polished")
display.ax_.legend(loc="center right")

# %%
# Rounded backpropagation is better than sampling for small networks, and stops
# improving for large ones. Polished samples are better than both.

for name, values in (("rounded", rounded), ("polished", polished)):
    print(f"{name:8} of {sizes[2]} neurons: {values[2]:.0f}")
print(
    f"lower bound for all sizes: {result.certificate.lower_bound:.4f}"
)
