"""The whole way: data, relaxation, shaping, sampling, refinement, certificate."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qsdp._utils.progress import progress
from qsdp._utils.summary import Rows, Summarized, Summary, format_number, format_seconds
from qsdp._utils.validation import (
    FloatArray,
    check_choice,
    check_flag,
    check_integer,
    check_jobs,
    check_random_state,
    check_real,
)
from qsdp.activations import PolynomialActivation
from qsdp.certificates import Certificate, certify
from qsdp.column_generation import ColumnGenerationResult, column_generation
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem, check_levels
from qsdp.refinement import polish, refit
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.sampling import ALLOCATIONS, MAX_NEURONS, sample_network
from qsdp.shaping import SHAPINGS, SignCovariance, shape_covariance

__all__ = ["REFINEMENTS", "QSDPResult", "solve_and_sample"]

REFINEMENTS = ("none", "refit", "polish", "exact")

#: Seconds that a refinement may take unless told otherwise.
TIME_LIMIT = 60.0

#: Relative gap of refine="exact".
_EXACT = 1e-6

RandomState = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False, repr=False)
class QSDPResult(Summarized):
    """A sampled network with everything that led to it.

    Attributes
    ----------
    network : BilinearNetwork
    certificate : Certificate
        Objective of the network and the bound on the global optimum.
    relaxation : Relaxation
    covariance : SignCovariance, or a list of one for each output
    problem : TrainingProblem
    timings : dict of str to float
        Seconds of the stages "compile", "solve", "shape", "sample", "refine" (if any) and "certify".
    refine : {"none", "refit", "polish", "exact"}
        What was done to the sampled network.
    exact : ColumnGenerationResult or None
        How the global optimum was found, for ``refine="exact"``.
    """

    network: BilinearNetwork
    certificate: Certificate
    relaxation: Relaxation
    covariance: SignCovariance | list[SignCovariance]
    problem: TrainingProblem
    timings: dict[str, float]
    refine: str = "none"
    exact: ColumnGenerationResult | None = None

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network, shape (n,) or (n, C)."""
        return self.network.predict(X)

    def resample(
        self,
        n_neurons: int,
        random_state: RandomState = 0,
        *,
        levels: int | None = None,
        allocation: str = "equal",
        refine: str | None = None,
        time_limit: float | None = TIME_LIMIT,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> QSDPResult:
        """Draw another network, of any size and number of levels, from the same solution: no solve.

        Parameters
        ----------
        n_neurons : int
            m >= 1.
        random_state : int, Generator, RandomState or None, default=0
            Seed; None draws a new one. Of two networks with the same seed the smaller one's neurons are the first of
            the larger one's (for one output).
        levels : int, optional
            Another number of levels than that of this result. The solution is carried over to the new problem
            (same data, loss and beta) and its lower bound recomputed from the same dual vector: valid, but
            looser than that of a solve for these levels.
        allocation : {"equal", "proportional"}, default="equal"
            See `sample_network`.
        refine : {"none", "refit", "polish"}, optional
            Refinement of the new network; by default that of this result, and none where that is "exact": the
            global optimum does not depend on a sample.
        time_limit : float or None, default=60.0
            Seconds for a polish.
        n_jobs : int, optional
            Threads of sampling and polish; see `sample_network` and `polish`.
        verbose : bool, default=False
            Show a progress bar for every stage; see `solve_and_sample`.

        Returns
        -------
        QSDPResult
            With the new network, its certificate and the timings of its sampling.
        """
        check_integer("n_neurons", n_neurons, minimum=1, maximum=MAX_NEURONS)
        result, timings = self, dict(self.timings)
        check_choice("allocation", allocation, ALLOCATIONS)
        refine = ("none" if self.refine == "exact" else self.refine) if refine is None else refine
        check_choice("refine", refine, [name for name in REFINEMENTS if name != "exact"])
        _check_time_limit(time_limit)
        check_jobs(n_jobs)
        rng = check_random_state(random_state)
        with progress(check_flag("verbose", verbose)) as stages:
            if levels is not None and check_levels(levels) != self.problem.levels:
                with _timed(timings, "shape"):
                    relaxation = self.relaxation.with_levels(levels)
                    methods = self.covariance if isinstance(self.covariance, list) else [self.covariance]
                    covariance = shape_covariance(relaxation, method=methods[0].method, verbose=verbose)
                result = replace(self, relaxation=relaxation, covariance=covariance, problem=relaxation.problem)
            with _timed(timings, "sample"), stages.stage("sample"):
                network = sample_network(result.covariance, n_neurons, rng, allocation=allocation, n_jobs=n_jobs)
            timings.pop("refine", None)
            if refine != "none":
                with _timed(timings, "refine"):
                    network = _refined(network, result.problem, refine, time_limit, rng, n_jobs, verbose)
            with _timed(timings, "certify"):
                certificate = certify(network, result.problem, result.relaxation, verbose=verbose)
        return replace(result, network=network, certificate=certificate, timings=timings, refine=refine, exact=None)

    def __repr__(self) -> str:
        return f"QSDPResult({self.network!r}; {self.certificate})"

    def _summary(self) -> Summary:
        first = self.covariance[0] if isinstance(self.covariance, list) else self.covariance
        rows: Rows = [
            *self.certificate._summary().rows,
            *self.network._summary().rows,
            ("relaxation", self.relaxation._course()),
            ("shaping", f"{first.method}, c = {format_number(first.constant, 4)}"),
        ]
        if self.refine != "none":
            rows.append(("refinement", self.refine))
        return Summary("QSDPResult", [*rows, self._timings_row()])

    def _timings_row(self) -> tuple[str, str]:
        return "time", ", ".join(f"{stage} {format_seconds(seconds)}" for stage, seconds in self.timings.items())


def solve_and_sample(
    X: Any,
    y: Any,
    n_neurons: int = 250,
    beta: float = 0.1,
    loss: str | Loss = "squared",
    *,
    activation: str | Sequence[float] | PolynomialActivation | None = None,
    levels: int = 2,
    solver: str = "auto",
    shaping: str = "krivine",
    refine: str = "none",
    tol: float = 1e-6,
    allocation: str = "equal",
    time_limit: float | None = TIME_LIMIT,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
    verbose: bool = False,
) -> QSDPResult:
    r"""Train a network with quantized first-layer weights and certify it.

    Solves the semidefinite relaxation of

    .. math::

        \min \sum_i \ell\Big(\sum_j \alpha_j\, u_j^T \mathcal{X}_i v_j, y_i\Big) + \beta D \sum_j \|\alpha_j\|_1,

    shapes a covariance from its solution, samples the neurons from it and refines them if asked to.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Data. A bilinear network is even, :math:`f(-x) = f(x)`: append a column of ones where that is not
        wanted (the estimators do).
    y : array-like of shape (n,) or (n, C)
        Targets; -1 and +1 for the losses of labels, class numbers or one-hot rows for the cross-entropy.
    n_neurons : int, default=250
        m, the number of sampled neurons. The relaxation does not depend on it: see `QSDPResult.resample`.
    beta : float, default=0.1
        Regularisation, >= 0.
    loss : str or Loss, default="squared"
        "squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", "cross_entropy", or a loss
        object.
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        None is the bilinear network :math:`\sum_j \alpha_j (x^T u_j)(x^T v_j)`; a polynomial gives a network
        that ``network.to_polynomial()`` turns into a standard one with that activation, exactly.
    levels : int, default=2
        M + 1 values -M, -M + 2, ..., M of a first-layer weight; 2 is binary.
    solver : str, default="auto"
        See `solve_relaxation`.
    shaping : {"krivine", "adaptive", "sdp"}, default="krivine"
        See `shape_covariance`.
    refine : {"none", "refit", "polish", "exact"}, default="none"
        "refit" chooses the second layer anew, which leaves n neurons an output at most (`qsdp.refit`). "polish"
        improves single bits at equal storage (`qsdp.polish`). "exact" goes on to a network of any width that is
        proven globally optimal, as far as `time_limit` allows (`qsdp.column_generation`).
    tol : float, default=1e-6
        See `solve_relaxation`.
    allocation : {"equal", "proportional"}, default="equal"
        How neurons are divided among several outputs; see `sample_network`.
    time_limit : float or None, default=60.0
        Seconds, > 0, that "polish" and "exact" may take.
    n_jobs : int, optional
        Processes for the relaxations of several outputs, threads for sampling and polish; see `solve_relaxation`,
        `sample_network` and `polish`. None of the results depends on it, unless a time limit ends the polish.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sampling and the polish, None draws a new one; the rest is deterministic.
    verbose : bool, default=False
        Show a progress bar for every stage on the standard error, or in the notebook (where ``ipywidgets`` is needed).

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
    >>> optimal = qsdp.solve_and_sample(X, y, beta=0.1, refine="exact", random_state=0)
    >>> optimal.certificate.kind, optimal.certificate.relative_gap <= 1e-6
    ('exact', True)
    """
    check_sampling(n_neurons, shaping, refine, allocation, time_limit)
    rng = check_random_state(random_state)
    problem = TrainingProblem(X, y, beta=beta, loss=loss, activation=activation, levels=levels)
    check_size(n_neurons, problem)
    if refine == "exact" and problem.beta == 0.0:
        raise InvalidInputError("beta must be > 0 for refine='exact', which prices neurons against beta D; got 0")
    with progress(check_flag("verbose", verbose)):
        relaxation = solve_relaxation(problem, solver=solver, tol=tol, n_jobs=n_jobs, verbose=verbose)
        return sample_from(
            relaxation,
            n_neurons,
            shaping=shaping,
            refine=refine,
            allocation=allocation,
            time_limit=time_limit,
            n_jobs=n_jobs,
            rng=rng,
            verbose=verbose,
        )


def check_sampling(n_neurons: int, shaping: str, refine: str, allocation: str, time_limit: float | None) -> None:
    """Raise unless the settings of what follows a relaxation are allowed."""
    check_integer("n_neurons", n_neurons, minimum=1, maximum=MAX_NEURONS)
    check_choice("shaping", shaping, SHAPINGS)
    check_choice("allocation", allocation, ALLOCATIONS)
    check_choice("refine", refine, REFINEMENTS)
    _check_time_limit(time_limit)


def check_size(n_neurons: int, problem: TrainingProblem) -> None:
    """Raise unless there is a neuron for every output."""
    if n_neurons < problem.n_outputs:
        raise InvalidInputError(
            f"n_neurons must be at least {problem.n_outputs}, the number of outputs; got {n_neurons}"
        )


def sample_from(
    relaxation: Relaxation,
    n_neurons: int,
    *,
    shaping: str,
    refine: str,
    allocation: str,
    time_limit: float | None,
    n_jobs: int | None,
    rng: np.random.Generator,
    verbose: bool = False,
) -> QSDPResult:
    """Do what follows a relaxation in `solve_and_sample`; the settings are checked."""
    problem = relaxation.problem
    timings = {"compile": relaxation.compile_time, "solve": relaxation.solve_time}
    exact = None
    with progress(verbose) as stages:
        with _timed(timings, "shape"):
            covariance = shape_covariance(relaxation, method=shaping, verbose=verbose)
        with _timed(timings, "sample"), stages.stage("sample"):
            network = sample_network(covariance, n_neurons, rng, allocation=allocation, n_jobs=n_jobs)
        if refine == "exact":
            with _timed(timings, "refine"):
                exact = column_generation(
                    problem,
                    tol=_EXACT,
                    relaxation=relaxation,
                    start=network,
                    time_limit=time_limit,
                    random_state=rng,
                    verbose=verbose,
                )
            network = exact.network
        elif refine != "none":
            with _timed(timings, "refine"):
                network = _refined(network, problem, refine, time_limit, rng, n_jobs, verbose)
        with _timed(timings, "certify"):
            certificate = exact.certificate if exact else certify(network, problem, relaxation, verbose=verbose)
    return QSDPResult(network, certificate, relaxation, covariance, problem, timings, refine, exact)


def _refined(
    network: BilinearNetwork,
    problem: TrainingProblem,
    refine: str,
    time_limit: float | None,
    rng: np.random.Generator,
    n_jobs: int | None,
    verbose: bool,
) -> BilinearNetwork:
    if refine == "refit":
        return refit(network, problem, verbose=verbose)
    return polish(network, problem, time_limit=time_limit, random_state=rng, n_jobs=n_jobs, verbose=verbose)


def _check_time_limit(time_limit: float | None) -> None:
    if time_limit is not None:
        check_real("time_limit", time_limit, strict=True)


@contextmanager
def _timed(timings: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[stage] = time.perf_counter() - start
