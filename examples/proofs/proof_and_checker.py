"""
Prove a network optimal, and have the proof checked
===================================================

:func:`qsdp.column_generation` finds a network that no other one beats, of any
width and with any weights. The proof is a file; ``qsdp-check`` verifies it with
NumPy alone and shares no code with the package.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import qsdp
import qsdp_check

X, y = qsdp.datasets.load_bundled("diabetes")
X = np.column_stack(
    [(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))]
)
y = (y - y.mean()) / y.std()
problem = qsdp.TrainingProblem(X, y, beta=10.0)
best = qsdp.column_generation(problem)

_, ax = plt.subplots(layout="constrained")
rounds = [one.number for one in best.history]
ax.plot(rounds, [one.objective for one in best.history], "o-")
ax.plot(rounds, [one.lower_bound for one in best.history], "s--")
ax.set(xlabel="round", ylabel="objective")
ax.legend(["best network so far", "lower bound for all networks"])

# %%
# Every round adds the neurons that are worth most and fits the second layer
# again. The lower curve is a bound on all networks, and where the curves meet,
# no better network exists.

print(best.certificate)

# %%
# The file holds the data, the network and what proves the bound. In a shell,
# the check is ``qsdp-check diabetes.cert``:

file = Path(tempfile.mkdtemp()) / "diabetes.cert"
best.certificate.save(file)
qsdp_check.main([str(file)])
