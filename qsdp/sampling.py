"""Grothendieck sampling: binary neurons as signs of a shaped Gaussian."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from qsdp._validation import FloatArray, check_integer, check_random_state
from qsdp.exceptions import InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.shaping import SignCovariance

__all__ = ["sample_network"]

#: Floats drawn at once: 32 MiB of them, whatever the number of neurons.
_CHUNK_FLOATS = 2**22


def sample_network(
    covariance: SignCovariance,
    n_neurons: int = 250,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> BilinearNetwork:
    r"""Draw a network with :math:`[u_j; v_j] = \mathrm{sign}(\mathcal N(0, Q))` and one shared alpha.

    With :math:`\alpha_j = \rho \pi / (c m)` the mean of :math:`\sum_j \alpha_j u_j v_j^T` is :math:`2 Z`,
    and its spectral error falls as :math:`1/\sqrt m`.

    Parameters
    ----------
    covariance : SignCovariance
        From `shape_covariance`.
    n_neurons : int, default=250
        m >= 1.
    random_state : int, Generator, RandomState or None
        Seed. Of two networks with the same seed the smaller one's neurons are the first of the larger one's.

    Returns
    -------
    BilinearNetwork
        int8 weights; besides them it takes 32 MiB, whatever m.

    Notes
    -----
    Algorithm 1, step 3, and Theorem 3 of Bartan and Pilanci.
    """
    if not isinstance(covariance, SignCovariance):
        raise InvalidTypeError(f"covariance must be a SignCovariance; got {type(covariance).__name__}")
    m = check_integer("n_neurons", n_neurons, minimum=1)
    rng = check_random_state(random_state)
    d = covariance.dimension
    root = _root(covariance.Q)
    U, V = np.empty((m, d), dtype=np.int8), np.empty((m, d), dtype=np.int8)
    step = max(1, _CHUNK_FLOATS // (2 * d))
    for start in range(0, m, step):
        rows = slice(start, min(start + step, m))
        gaussian = rng.standard_normal((rows.stop - rows.start, 2 * d)) @ root.T
        # Not numpy.sign, which is 0 at 0.
        signs = np.where(gaussian < 0.0, np.int8(-1), np.int8(1))
        U[rows], V[rows] = signs[:, :d], signs[:, d:]
    return BilinearNetwork(U, V, np.full(m, covariance.total_weight / m))


def _root(Q: FloatArray) -> FloatArray:
    # Q is often singular, where a Cholesky factor does not exist.
    eigenvalues, vectors = scipy.linalg.eigh(Q)
    return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
