"""The whole way: data, relaxation, shaping, sampling, certificate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._validation import FloatArray, check_choice, check_integer, check_random_state
from qsdp.certificate import Certificate, certify
from qsdp.losses import Loss
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.sampling import sample_network
from qsdp.shaping import SHAPINGS, SignCovariance, shape_covariance

__all__ = ["QSDPResult", "solve_and_sample"]

RandomState = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False, repr=False)
class QSDPResult:
    """A sampled network with everything that led to it.

    Attributes
    ----------
    network : BilinearNetwork
    certificate : Certificate
        Objective of the network and the bound on the global optimum.
    relaxation : Relaxation
    covariance : SignCovariance
    problem : TrainingProblem
    timings : dict of str to float
        Seconds of the stages "compile", "solve", "shape", "sample" and "certify".
    """

    network: BilinearNetwork
    certificate: Certificate
    relaxation: Relaxation
    covariance: SignCovariance
    problem: TrainingProblem
    timings: dict[str, float]

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network, shape (n,)."""
        return self.network.predict(X)

    def resample(self, n_neurons: int, random_state: RandomState = None) -> QSDPResult:
        """Draw another network, of any size, from the same covariance: nothing is solved again.

        Parameters
        ----------
        n_neurons : int
            m >= 1.
        random_state : int, Generator, RandomState or None

        Returns
        -------
        QSDPResult
            With the new network, its certificate and the timings of its sampling.
        """
        timings = dict(self.timings)
        with _timed(timings, "sample"):
            network = sample_network(self.covariance, n_neurons, random_state)
        with _timed(timings, "certify"):
            certificate = certify(network, self.problem, self.relaxation)
        return replace(self, network=network, certificate=certificate, timings=timings)

    def __repr__(self) -> str:
        return f"QSDPResult({self.network!r}; {self.certificate})"


def solve_and_sample(
    X: Any,
    y: Any,
    n_neurons: int = 250,
    beta: float = 0.1,
    loss: str | Loss = "squared",
    *,
    activation: None = None,
    levels: int = 2,
    solver: str = "auto",
    shaping: str = "krivine",
    refine: str = "none",
    tol: float = 1e-6,
    random_state: RandomState = None,
) -> QSDPResult:
    r"""Train a network with binary first-layer weights and certify it.

    Solves the semidefinite relaxation of

    .. math::

        \min \sum_i \ell\Big(\sum_j \alpha_j (x_i^T u_j)(x_i^T v_j), y_i\Big) + \beta D \sum_j |\alpha_j|,
        \qquad u_j, v_j \in \{-1, +1\}^D,

    shapes a covariance from its solution and samples the neurons from it.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Data. A bilinear network is even, :math:`f(-x) = f(x)`: append a column of ones where that is not
        wanted (the estimators do).
    y : array-like of shape (n,)
        Targets; -1 and +1 for the losses of labels.
    n_neurons : int, default=250
        m, the number of sampled neurons. The relaxation does not depend on it: see `QSDPResult.resample`.
    beta : float, default=0.1
        Regularisation, >= 0.
    loss : str or Loss, default="squared"
        "squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", or a loss object.
    activation : None
        Bilinear, the only one of this version.
    levels : int, default=2
        Binary weights, the only ones of this version.
    solver : str, default="auto"
        See `solve_relaxation`.
    shaping : {"krivine", "sdp"}, default="krivine"
        See `shape_covariance`.
    refine : {"none"}, default="none"
        Refinement after sampling; this version has none.
    tol : float, default=1e-6
        See `solve_relaxation`.
    random_state : int, Generator, RandomState or None
        Seed of the sampling; the rest is deterministic.

    Returns
    -------
    QSDPResult

    Notes
    -----
    Algorithm 1 of Bartan and Pilanci.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> result = qsdp.solve_and_sample(X, y, n_neurons=500, beta=0.1, random_state=0)
    >>> result.certificate.lower_bound <= result.certificate.objective
    True
    >>> result.resample(2000, random_state=1).network.n_neurons
    2000
    """
    check_integer("n_neurons", n_neurons, minimum=1)
    check_choice("shaping", shaping, SHAPINGS)
    check_choice("refine", refine, ["none"])
    rng = check_random_state(random_state)
    problem = TrainingProblem(X, y, beta=beta, loss=loss, activation=activation, levels=levels)
    relaxation = solve_relaxation(problem, solver=solver, tol=tol)
    timings = {"compile": relaxation.compile_time, "solve": relaxation.solve_time}
    with _timed(timings, "shape"):
        covariance = shape_covariance(relaxation, method=shaping)
    with _timed(timings, "sample"):
        network = sample_network(covariance, n_neurons, rng)
    with _timed(timings, "certify"):
        certificate = certify(network, problem, relaxation)
    return QSDPResult(network, certificate, relaxation, covariance, problem, timings)


@contextmanager
def _timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[stage] = time.perf_counter() - start
