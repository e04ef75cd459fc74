"""
From a covariance to neurons
============================

The solution of the semidefinite program says how the signs of the weights must
be correlated. :func:`qsdp.shape_covariance` finds a Gaussian whose signs have
exactly these correlations, up to a constant.
"""

import numpy as np

import qsdp
from qsdp.plotting import CovarianceDisplay, SpectrumDisplay

X, y = qsdp.datasets.make_planted(n=100, d=12, n_neurons=3, random_state=0)
result = qsdp.solve_and_sample(X, y, beta=10.0, random_state=0)
relaxation, covariance = result.relaxation, result.covariance
CovarianceDisplay.from_relaxation(relaxation, covariance)

# %%
# On the left are the matrices of the relaxation, in units of rho; on the right
# is the covariance Q of the Gaussian. Signs of Gaussians are less correlated
# than the Gaussians, and Q makes up for it: signs of samples have the
# correlations of Z, times a constant.

network = qsdp.sample_network(covariance, 100_000, random_state=0)
sampled = network.U.T.astype(float) @ network.V / network.n_neurons
wanted = 2 / np.pi * covariance.constant * relaxation.Z / relaxation.rho
print(f"largest difference of correlations: {abs(sampled - wanted).max():.4f}")

# %%
# Three neurons made the targets, so the relaxation has few eigenvalues that are
# not zero. Those of Q fall slowly, which is why a sample needs many neurons.

SpectrumDisplay.from_result(result)
