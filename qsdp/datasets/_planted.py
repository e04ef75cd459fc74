"""Data whose targets come from a known bilinear network with binary weights."""

from __future__ import annotations

import numpy as np

from qsdp._utils.validation import check_integer, check_random_state, check_real
from qsdp.datasets._dataset import Dataset
from qsdp.networks import BilinearNetwork


def make_planted(
    n: int = 100, d: int = 20, n_neurons: int = 10, *, noise: float = 0.0, random_state: object = 0
) -> Dataset:
    """Generate the planted data of the paper's section 5.1: Gaussian samples with targets from a binary network.

    The targets are ``y = f(X) + noise * N(0, 1)`` with ``f(x) = sum_j alpha_j (x.u_j)(x.v_j)``. The rows of `X` are
    standard Gaussian, ``u_j`` and ``v_j`` are uniform in ``{-1, +1}^d``, and ``alpha_j`` is the absolute value of a
    standard Gaussian. (The paper says only that it is real and non-negative.)

    Parameters
    ----------
    n, d : int >= 1
        Number of samples and of features.
    n_neurons : int >= 1
        Number of planted neurons.
    noise : float >= 0, default 0.0
        Standard deviation of the noise. For a given seed, the samples and the network do not depend on it.
    random_state : None, int, Generator or RandomState, default 0
        Seed or generator of all random numbers.

    Returns
    -------
    Dataset
        As of `load_bundled`. Its `network` is the planted network, whose `predict` computes noiseless targets for
        further samples.

    Examples
    --------
    >>> from qsdp.datasets import make_planted
    >>> planted = make_planted(n=50, d=6, n_neurons=3)
    >>> planted
    Dataset('planted', X (50, 6), y (50,), regression)
    >>> bool((planted.y == planted.network.predict(planted.X)).all())
    True
    """
    n = check_integer("n", n, minimum=1)
    d = check_integer("d", d, minimum=1)
    n_neurons = check_integer("n_neurons", n_neurons, minimum=1)
    noise = check_real("noise", noise)
    rng = check_random_state(random_state)
    X = rng.standard_normal((n, d))
    U, V = (2 * rng.integers(0, 2, size=(2, n_neurons, d)) - 1).astype(np.int8)
    alpha = np.abs(rng.standard_normal(n_neurons))
    network = BilinearNetwork(U, V, alpha)
    return Dataset(
        name="planted",
        X=X,
        y=network.predict(X) + noise * rng.standard_normal(n),
        feature_names=tuple(f"x{i}" for i in range(d)),
        target_names=("y",),
        task="regression",
        description=(
            "Planted data as in section 5.1 of Bartan and Pilanci: standard Gaussian samples, targets from "
            f"a bilinear network with {n_neurons} neurons and binary weights, noise of standard deviation "
            f"{noise:g}."
        ),
        network=network,
    )
